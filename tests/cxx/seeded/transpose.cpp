// The transpose of a matrix, tile by tile; each block has a column of tiles.
#include "../kernels/common.hpp"

constexpr int kSide = 32;
constexpr int kRows = 64;
constexpr int kCols = 64;
using Part = VecTile<float, kSide, kSide>;
using From = Matrix<float, kSide, kSide, kCols>;
using To = Matrix<float, kSide, kSide, kRows>;

__global__ AICORE void transpose(__gm__ float *out, __gm__ float *x)
{
    Part a, b, tmp;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    TASSIGN(tmp, 0x2000);
    const int col = static_cast<int>(get_block_idx()) * kSide;
    for (int row = 0; row < kRows; row += kSide) {
        From xGlobal(x + row * kCols + col);
        To outGlobal(out + col * kRows + row);
        TLOAD(a, xGlobal);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        TTRANS(b, a, tmp);
        set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        TSTORE(outGlobal, b);
        set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    }
}

extern "C" void launch_transpose(float *out, float *x, void *stream)
{
    transpose<<<2, nullptr, stream>>>(out, x);
}
