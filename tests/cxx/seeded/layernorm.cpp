// Layer normalisation of rows, with a scale and a bias for each column.
#include "../kernels/common.hpp"

constexpr int kRows = 8;
constexpr int kCols = 128;
using Part = VecTile<float, kRows, kCols>;
using Row = VecTile<float, 1, kCols>;
using Column = ColumnTile<float, kRows>;
/// The numbers of a column in a row: the same bytes.
using Flat = VecTile<float, 1, kRows>;

__global__ AICORE void layernorm(__gm__ float *out, __gm__ float *x, __gm__ float *gain, __gm__ float *bias)
{
    Part a, squares, tmp;
    Row gainTile, biasTile;
    Column mean, scale;
    Flat meanFlat, scaleFlat;
    TASSIGN(a, 0x0);
    TASSIGN(squares, 0x1000);
    TASSIGN(tmp, 0x2000);
    TASSIGN(gainTile, 0x3000);
    TASSIGN(biasTile, 0x3200);
    TASSIGN(mean, 0x3400);
    TASSIGN(meanFlat, 0x3400);
    TASSIGN(scale, 0x3420);
    TASSIGN(scaleFlat, 0x3420);
    const int at = static_cast<int>(get_block_idx()) * kRows * kCols;
    Matrix<float, kRows, kCols> xGlobal(x + at), outGlobal(out + at);
    Matrix<float, 1, kCols> gainGlobal(gain), biasGlobal(bias);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TLOAD(gainTile, gainGlobal);
    TLOAD(biasTile, biasGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TROWSUM(mean, a, tmp);
    pipe_barrier(PIPE_V);
    TMULS(meanFlat, meanFlat, 1.0f / kCols);
    pipe_barrier(PIPE_V);
    TROWEXPANDSUB(a, a, mean);
    pipe_barrier(PIPE_V);
    TMUL(squares, a, a);
    pipe_barrier(PIPE_V);
    TROWSUM(scale, squares, tmp);
    pipe_barrier(PIPE_V);
    TMULS(scaleFlat, scaleFlat, 1.0f / kCols);
    pipe_barrier(PIPE_V);
    TADDS(scaleFlat, scaleFlat, 0.25f);
    pipe_barrier(PIPE_V);
    TRSQRT(scaleFlat, scaleFlat);
    pipe_barrier(PIPE_V);
    TROWEXPANDMUL(a, a, scale);
    pipe_barrier(PIPE_V);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
    TCOLEXPANDMUL(a, a, gainTile);
    pipe_barrier(PIPE_V);
    TCOLEXPANDADD(a, a, biasTile);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, a);
}

extern "C" void launch_layernorm(float *out, float *x, float *gain, float *bias, void *stream)
{
    layernorm<<<2, nullptr, stream>>>(out, x, gain, bias);
}
