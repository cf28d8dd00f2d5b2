// Softmax of rows: reductions with a workspace, columns that are valid in part.
#include "../kernels/common.hpp"

constexpr int kRows = 16;
constexpr int kCols = 128;
constexpr int kValid = 96;
using Part = VecTile<float, kRows, kCols, kRows, kValid>;
using Work = VecTile<float, kRows, kCols>;
using Column = ColumnTile<float, kRows>;
using Global = Matrix<float, kRows, kValid>;

__global__ AICORE void softmax(__gm__ float *out, __gm__ float *x, int32_t tiles)
{
    Part a, powers;
    Work tmp;
    Column most, sums;
    TASSIGN(a, 0x0);
    TASSIGN(powers, 0x2000);
    TASSIGN(tmp, 0x4000);
    TASSIGN(most, 0x6000);
    TASSIGN(sums, 0x6040);
    for (int i = 0; i < tiles; ++i) {
        const int at = (static_cast<int>(get_block_idx()) * tiles + i) * kRows * kValid;
        Global xGlobal(x + at), outGlobal(out + at);
        TLOAD(a, xGlobal);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        TROWMAX(most, a, tmp);
        pipe_barrier(PIPE_V);
        TROWEXPANDSUB(a, a, most);
        pipe_barrier(PIPE_V);
        TEXP(powers, a);
        pipe_barrier(PIPE_V);
        TROWSUM(sums, powers, tmp);
        pipe_barrier(PIPE_V);
        TROWEXPANDDIV(powers, powers, sums);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
        TSTORE(outGlobal, powers);
        set_flag(PIPE_MTE3, PIPE_V, EVENT_ID2);
        wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID2);
        set_flag(PIPE_V, PIPE_MTE2, EVENT_ID3);
        wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID3);
    }
}

extern "C" void launch_softmax(float *out, float *x, int32_t tiles, void *stream)
{
    softmax<<<2, nullptr, stream>>>(out, x, tiles);
}
