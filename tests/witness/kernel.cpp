#include <pto/pto-inst.hpp>

using namespace pto;

__global__ AICORE void run(__gm__ float* out, __gm__ float* x)
{
    Tile<TileType::Vec, float, 2, 64> a, b;
    Tile<TileType::Vec, half, 2, 64> h;
    Tile<TileType::Vec, uint8_t, 1, 32> tmp;
    TASSIGN(a, 0x1000);
    TASSIGN(b, 0x2000);
    TASSIGN(h, 0x3000);
    TASSIGN(tmp, 0x4000);
    TLOAD(a, x + 64);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
    TNEG(b, a);
    TQUANT(h, a, 0.5f);
    TSELS(b, b, tmp, 1.0f);
    TSTORE(out, b);
    TBEHIND(b);
}

extern "C" void launch(float* out, float* x, void* stream) { run<<<1, nullptr, stream>>>(out, x); }
