// Column sums of a tile whose rows and columns are known at run time: the rest is filled with zeros first.
#include "../kernels/common.hpp"

constexpr int kRows = 16;
constexpr int kCols = 64;
using Part = Tile<TileType::Vec, float, kRows, kCols, BLayout::RowMajor, -1, -1>;
using Padded = Tile<TileType::Vec, float, kRows, kCols, BLayout::RowMajor, kRows, kCols, SLayout::NoneBox, 512, PadValue::Zero>;
using Row = VecTile<float, 1, kCols>;
using Extents = Shape<1, 1, 1, -1, -1>;
using Steps = Stride<1, 1, 1, -1, 1>;

__global__ AICORE void padded(__gm__ float *out, __gm__ float *copy, __gm__ float *x, int32_t rows, int32_t cols)
{
    Part a(rows, cols);
    Padded full;
    Row sums;
    TASSIGN(a, 0x0);
    TASSIGN(full, 0x1000);
    TASSIGN(sums, 0x2000);
    GlobalTensor<float, Extents, Steps> xGlobal(x, Extents(rows, cols), Steps(cols));
    GlobalTensor<float, Extents, Steps> copyGlobal(copy, Extents(rows, cols), Steps(cols));
    Matrix<float, 1, kCols> outGlobal(out);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TFILLPAD(full, a);
    pipe_barrier(PIPE_V);
    TCOLSUM(sums, full);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    TSTORE(copyGlobal, a);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, sums);
}

extern "C" void launch_padded(float *out, float *copy, float *x, int32_t rows, int32_t cols, void *stream)
{
    padded<<<1, nullptr, stream>>>(out, copy, x, rows, cols);
}
