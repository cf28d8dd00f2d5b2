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
}

extern "C" void launch(float* out, float* x, void* stream) { run<<<1, nullptr, stream>>>(out, x); }
