#include <pto/pto-inst.hpp>

using namespace pto;

__global__ AICORE void run(__gm__ float* out, __gm__ float* x)
{
    using Rows = GlobalTensor<float, Shape<1, 1, 1, 2, 64>, Stride<1, 1, 1, 64, 1>>;
    Tile<TileType::Vec, float, 2, 64> a, b;
    Tile<TileType::Vec, int32_t, 1, 8> tmp;
    TASSIGN(a, 0x1000);
    TASSIGN(b, 0x1200);
    TASSIGN(tmp, 0x4000);
    Rows in(x), result(out);
    TLOAD(a, in);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
    TTOMORROW(b, a, tmp, 0.5f);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
    TSTORE(result, b);
}

extern "C" void launch(float* out, float* x, void* stream) { run<<<1, nullptr, stream>>>(out, x); }
