#include <pto/registers.hpp>

using namespace pto;

__global__ AICORE void run(__gm__ float* out, __gm__ float* x)
{
    Tile<TileType::Vec, float, 2, 64> a, b;
    TASSIGN(a, 0x1000);
    TASSIGN(b, 0x2000);
    TCOPY(b, a, 100);
    TPACK(a, b);
    MGATHER(b, x, 40);
    TZERO_IMPL(a);

    const uint64_t left = ptokit::base_of(ptokit::Memory::left) + 0x200;
    float8_e4m3_t *scaled = (float8_e4m3_t*)left, *right = (float8_e4m3_t*)ptokit::base_of(ptokit::Memory::right);
    float* c = (float*)ptokit::base_of(ptokit::Memory::acc);
    TMATMUL_MX(c, scaled, right, ptokit::base_of(ptokit::Memory::bias) + 64);
    Tile<TileType::Vec, float, 2, 64> scales;
    TASSIGN(scales, GetScaleAddr(scaled));
    TCOPY_SCALES(scales, b);
}

extern "C" void launch(float* out, float* x, void* stream) { run<<<1, nullptr, stream>>>(out, x); }
