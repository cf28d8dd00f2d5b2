// The larger of two arrays with a bias for its rows: a mask, a selection with a workspace, a column in DN layout.
#include "../kernels/common.hpp"

constexpr int kRows = 16;
constexpr int kCols = 64;
using Part = VecTile<float, kRows, kCols>;
using Mask = VecTile<uint8_t, kRows, 32>;
using Column = ColumnTile<float, kRows>;
using ColumnGlobal = GlobalTensor<float, Shape<1, 1, 1, kRows, 1>, Stride<kRows, kRows, kRows, 1, 1>, Layout::DN>;

__global__ AICORE void select(__gm__ float *out, __gm__ float *x, __gm__ float *y, __gm__ float *bias)
{
    Part a, b, c;
    Mask mask;
    VecTile<uint32_t, 1, 16> tmp;
    Column column;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(c, 0x2000);
    TASSIGN(mask, 0x3000);
    TASSIGN(tmp, 0x3200);
    TASSIGN(column, 0x3240);
    const int at = static_cast<int>(get_block_idx()) * kRows * kCols;
    Matrix<float, kRows, kCols> xGlobal(x + at), yGlobal(y + at), outGlobal(out + at);
    ColumnGlobal biasGlobal(bias);
    TLOAD(a, xGlobal);
    TLOAD(b, yGlobal);
    TLOAD(column, biasGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TCMP(mask, a, b, CmpMode::GT);
    pipe_barrier(PIPE_V);
    TSEL(c, mask, a, b, tmp);
    pipe_barrier(PIPE_V);
    TROWEXPANDADD(c, c, column);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, c);
}

extern "C" void launch_select(float *out, float *x, float *y, float *bias, void *stream)
{
    select<<<2, nullptr, stream>>>(out, x, y, bias);
}
