// A product with a bias, whose inputs lie in NZ layout in memory and are cut out of L1; the result is half.
#include "../kernels/common.hpp"

constexpr int kM = 32;
constexpr int kK = 64;
constexpr int kN = 32;
constexpr int kStep = 32;
using FromNZ = GlobalTensor<half, Shape<1, kK / 16, kM / 16, 16, 16>, Stride<kM * kK, kM * 16, 256, 16, 1>, Layout::NZ>;

__global__ AICORE void projection(__gm__ half *out, __gm__ half *a, __gm__ half *b, __gm__ float *bias)
{
    MatTile<half, kM, kK> aTile;
    MatTile<half, kK, kN> bTile;
    Tile<TileType::Mat, float, 1, kN, BLayout::RowMajor, 1, kN> biasTile;
    TileLeft<half, kM, kStep> left[2];
    TileRight<half, kStep, kN> right[2];
    TileAcc<float, kM, kN> acc;
    Tile<TileType::Bias, float, 1, kN, BLayout::RowMajor, 1, kN> table;
    TASSIGN(aTile, 0x0);
    TASSIGN(bTile, 0x1000);
    TASSIGN(biasTile, 0x2000);
    TASSIGN(left[0], 0x0);
    TASSIGN(left[1], 0x800);
    TASSIGN(right[0], 0x0);
    TASSIGN(right[1], 0x800);
    TASSIGN(acc, 0x0);
    TASSIGN(table, 0x0);
    FromNZ aGlobal(a);
    Matrix<half, kK, kN> bGlobal(b);
    Matrix<float, 1, kN> biasGlobal(bias);
    Matrix<half, kM, kN> outGlobal(out);
    TLOAD(aTile, aGlobal);
    TLOAD(bTile, bGlobal);
    TLOAD(biasTile, biasGlobal);
    set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    TMOV(table, biasTile);
    TEXTRACT(left[0], aTile, 0, 0);
    TEXTRACT(right[0], bTile, 0, 0);
    set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    TEXTRACT(left[1], aTile, 0, kStep);
    TEXTRACT(right[1], bTile, kStep, 0);
    set_flag(PIPE_MTE1, PIPE_M, EVENT_ID1);
    wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    TMATMUL_BIAS(acc, left[0], right[0], table);
    wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID1);
    TMATMUL_ACC(acc, acc, left[1], right[1]);
    set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
    wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
    TSTORE(outGlobal, acc);
}

extern "C" void launch_projection(half *out, half *a, half *b, float *bias, void *stream)
{
    projection<<<1, nullptr, stream>>>(out, a, b, bias);
}
