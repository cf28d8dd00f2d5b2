// Sums of columns: each block adds its own to the array, atomically.
#include "../kernels/common.hpp"

constexpr int kRows = 32;
constexpr int kCols = 64;
using Part = VecTile<float, kRows, kCols>;
using Work = VecTile<float, kRows / 2, kCols>;
using Row = VecTile<float, 1, kCols>;

__global__ AICORE void column_sums(__gm__ float *out, __gm__ float *x, int32_t tiles)
{
    Part a[2];
    Work tmp;
    Row part, total;
    TASSIGN(a[0], 0x0);
    TASSIGN(a[1], 0x2000);
    TASSIGN(tmp, 0x4000);
    TASSIGN(part, 0x5000);
    TASSIGN(total, 0x5100);
    TEXPANDS(total, 0.0f);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    for (int i = 0; i < tiles; ++i) {
        const event_t id = static_cast<event_t>(i % 2);
        Matrix<float, kRows, kCols> xGlobal(x + (static_cast<int>(get_block_idx()) * tiles + i) * kRows * kCols);
        wait_flag(PIPE_V, PIPE_MTE2, id);
        TLOAD(a[i % 2], xGlobal);
        set_flag(PIPE_MTE2, PIPE_V, id);
        wait_flag(PIPE_MTE2, PIPE_V, id);
        TCOLSUM(part, a[i % 2], tmp, true);
        set_flag(PIPE_V, PIPE_MTE2, id);
        pipe_barrier(PIPE_V);
        TADD(total, total, part);
        pipe_barrier(PIPE_V);
    }
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    Matrix<float, 1, kCols> outGlobal(out);
    TSTORE<Row, Matrix<float, 1, kCols>, AtomicType::AtomicAdd>(outGlobal, total);
}

extern "C" void launch_column_sums(float *out, float *x, int32_t tiles, void *stream)
{
    column_sums<<<2, nullptr, stream>>>(out, x, tiles);
}
