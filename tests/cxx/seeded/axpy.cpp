// out = 3 x + y: rows in tiles, two buffers, the last tile of a block may have fewer rows.
#include "../kernels/common.hpp"

constexpr int kTile = 16;
constexpr int kCols = 64;
constexpr uint64_t kBytes = kTile * kCols * sizeof(float);
using Part = Tile<TileType::Vec, float, kTile, kCols, BLayout::RowMajor, -1, kCols>;

__global__ AICORE void axpy(__gm__ float *out, __gm__ float *x, __gm__ float *y, int32_t rows)
{
    const int share = rows / static_cast<int>(get_block_num());
    const int first = static_cast<int>(get_block_idx()) * share;
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
    int round = 0;
    for (int done = 0; done < share; done += kTile, ++round) {
        const int n = share - done < kTile ? share - done : kTile;
        const int buffer = round % 2;
        const event_t id = static_cast<event_t>(buffer);
        const int at = (first + done) * kCols;
        Part xTile(n), yTile(n), sum(n);
        TASSIGN(xTile, buffer * kBytes);
        TASSIGN(yTile, (2 + buffer) * kBytes);
        TASSIGN(sum, (4 + buffer) * kBytes);
        auto xGlobal = SomeRows<float, kCols>(x + at, n);
        auto yGlobal = SomeRows<float, kCols>(y + at, n);
        auto outGlobal = SomeRows<float, kCols>(out + at, n);
        wait_flag(PIPE_V, PIPE_MTE2, id);
        TLOAD(xTile, xGlobal);
        TLOAD(yTile, yGlobal);
        set_flag(PIPE_MTE2, PIPE_V, id);
        wait_flag(PIPE_MTE2, PIPE_V, id);
        TMULS(xTile, xTile, 3.0f);
        pipe_barrier(PIPE_V);
        wait_flag(PIPE_MTE3, PIPE_V, id);
        TADD(sum, xTile, yTile);
        set_flag(PIPE_V, PIPE_MTE2, id);
        set_flag(PIPE_V, PIPE_MTE3, id);
        wait_flag(PIPE_V, PIPE_MTE3, id);
        TSTORE(outGlobal, sum);
        set_flag(PIPE_MTE3, PIPE_V, id);
    }
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
}

extern "C" void launch_axpy(float *out, float *x, float *y, int32_t rows, void *stream)
{
    axpy<<<2, nullptr, stream>>>(out, x, y, rows);
}
