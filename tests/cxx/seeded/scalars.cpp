// Running maximum of the first numbers of rows: values in tiles, read and written by the scalar pipe.
#include "../kernels/common.hpp"

constexpr int kCount = 16;
using Row = VecTile<int32_t, 1, kCount>;

__global__ AICORE void scalars(__gm__ int32_t *out, __gm__ int32_t *x, int32_t tiles)
{
    Row a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x40);
    set_flag(PIPE_S, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_S, EVENT_ID0);
    for (int i = 0; i < tiles; ++i) {
        const int at = (static_cast<int>(get_block_idx()) * tiles + i) * kCount;
        Matrix<int32_t, 1, kCount> xGlobal(x + at), outGlobal(out + at);
        wait_flag(PIPE_S, PIPE_MTE2, EVENT_ID0);
        TLOAD(a, xGlobal);
        set_flag(PIPE_MTE2, PIPE_S, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_S, EVENT_ID0);
        wait_flag(PIPE_MTE3, PIPE_S, EVENT_ID0);
        int32_t most = a.GetValue(0);
        for (int k = 0; k < kCount; ++k) {
            const int32_t value = a.GetValue(k);
            most = value > most ? value : most;
            b.SetValue(k, most);
        }
        set_flag(PIPE_S, PIPE_MTE2, EVENT_ID0);
        set_flag(PIPE_S, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_S, PIPE_MTE3, EVENT_ID0);
        TSTORE(outGlobal, b);
        set_flag(PIPE_MTE3, PIPE_S, EVENT_ID0);
    }
    wait_flag(PIPE_S, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_S, EVENT_ID0);
}

extern "C" void launch_scalars(int32_t *out, int32_t *x, int32_t tiles, void *stream)
{
    scalars<<<2, nullptr, stream>>>(out, x, tiles);
}
