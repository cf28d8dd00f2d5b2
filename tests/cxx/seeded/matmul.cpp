// A product in slices of the inner dimension: two buffers in L1 and in L0, an accumulator for each tile of columns.
#include "../kernels/common.hpp"

constexpr int kM = 32;
constexpr int kN = 32;
constexpr int kStep = 64;
constexpr int kInner = 256;
constexpr int kWide = 64;
using ATile = MatTile<half, kM, kStep>;
using BTile = MatTile<half, kStep, kN>;
using Left = TileLeft<half, kM, kStep>;
using Right = TileRight<half, kStep, kN>;
using Acc = TileAcc<float, kM, kN>;

__global__ AICORE void matmul(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    ATile aTile[2];
    BTile bTile[2];
    Left left[2];
    Right right[2];
    Acc acc[2];
    for (int k = 0; k < 2; ++k) {
        TASSIGN(aTile[k], k * 0x1000);
        TASSIGN(bTile[k], 0x2000 + k * 0x1000);
        TASSIGN(left[k], k * 0x1000);
        TASSIGN(right[k], k * 0x1000);
        TASSIGN(acc[k], k * 0x1000);
    }
    set_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID1);
    set_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
    set_flag(PIPE_M, PIPE_MTE1, EVENT_ID1);
    set_flag(PIPE_FIX, PIPE_M, EVENT_ID0);
    set_flag(PIPE_FIX, PIPE_M, EVENT_ID1);
    const int row = static_cast<int>(get_block_idx()) * kM;
    int round = 0;
    for (int j = 0; j < kWide / kN; ++j) {
        const event_t column = static_cast<event_t>(j % 2);
        wait_flag(PIPE_FIX, PIPE_M, column);
        for (int i = 0; i < kInner / kStep; ++i, ++round) {
            const int now = round % 2;
            const event_t id = static_cast<event_t>(now);
            Matrix<half, kM, kStep, kInner> aGlobal(a + row * kInner + i * kStep);
            Matrix<half, kStep, kN, kWide> bGlobal(b + i * kStep * kWide + j * kN);
            wait_flag(PIPE_MTE1, PIPE_MTE2, id);
            TLOAD(aTile[now], aGlobal);
            TLOAD(bTile[now], bGlobal);
            set_flag(PIPE_MTE2, PIPE_MTE1, id);
            wait_flag(PIPE_MTE2, PIPE_MTE1, id);
            wait_flag(PIPE_M, PIPE_MTE1, id);
            TMOV(left[now], aTile[now]);
            TMOV(right[now], bTile[now]);
            set_flag(PIPE_MTE1, PIPE_MTE2, id);
            set_flag(PIPE_MTE1, PIPE_M, id);
            wait_flag(PIPE_MTE1, PIPE_M, id);
            if (i == 0) {
                TMATMUL(acc[j % 2], left[now], right[now]);
            } else {
                TMATMUL_ACC(acc[j % 2], acc[j % 2], left[now], right[now]);
            }
            set_flag(PIPE_M, PIPE_MTE1, id);
        }
        set_flag(PIPE_M, PIPE_FIX, column);
        wait_flag(PIPE_M, PIPE_FIX, column);
        Matrix<float, kM, kN, kWide> outGlobal(out + row * kWide + j * kN);
        TSTORE(outGlobal, acc[j % 2]);
        set_flag(PIPE_FIX, PIPE_M, column);
    }
    wait_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID1);
    wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID1);
    wait_flag(PIPE_FIX, PIPE_M, EVENT_ID0);
    wait_flag(PIPE_FIX, PIPE_M, EVENT_ID1);
}

extern "C" void launch_matmul(float *out, half *a, half *b, void *stream)
{
    matmul<<<2, nullptr, stream>>>(out, a, b);
}
