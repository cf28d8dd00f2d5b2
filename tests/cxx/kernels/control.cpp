// Scalar control flow: loops and branches that depend on arguments, block numbers and values in tiles; helper functions.
#include "common.hpp"

using Block = VecTile<float, 8, 32>;
using Global = Matrix<float, 8, 32>;
constexpr int kStep = 8 * 32;
using Counts = VecTile<int32_t, 1, 8>;
using CountsGlobal = Matrix<int32_t, 1, 8>;

template <pipe_t From, pipe_t To>
AICORE inline void SetFlag(uint32_t id)
{
    set_flag(From, To, static_cast<event_t>(id));
}

template <pipe_t From, pipe_t To>
AICORE inline void WaitFlag(uint32_t id)
{
    wait_flag(From, To, static_cast<event_t>(id));
}

// --- Values in tiles -----------------------------------------------------------------------------------------

__global__ AICORE void repeat_by_count(__gm__ float *out, __gm__ float *x, __gm__ int32_t *counts)
{
    Block a;
    Counts count;
    TASSIGN(a, 0x0);
    TASSIGN(count, 0x1000);
    Global xGlobal(x), outGlobal(out);
    CountsGlobal countsGlobal(counts);
    TLOAD(count, countsGlobal);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_S, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_S, EVENT_ID0);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
    const int n = count.GetValue(0);
    for (int i = 0; i < n; ++i) {
        TADDS(a, a, 1.0f);
        pipe_barrier(PIPE_V);
    }
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_repeat_by_count(float *out, float *x, int32_t *counts, void *stream)
{
    repeat_by_count<<<1, nullptr, stream>>>(out, x, counts);
}

__global__ AICORE void repeat_by_count_unordered(__gm__ float *out, __gm__ float *x, __gm__ int32_t *counts)
{
    Block a;
    Counts count;
    TASSIGN(a, 0x0);
    TASSIGN(count, 0x1000);
    Global xGlobal(x), outGlobal(out);
    CountsGlobal countsGlobal(counts);
    TLOAD(count, countsGlobal);
    TLOAD(a, xGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
    const int n = count.GetValue(0);  // fault: MTE2 to S is missing
    for (int i = 0; i < n; ++i) {
        TADDS(a, a, 1.0f);
        pipe_barrier(PIPE_V);
    }
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_repeat_by_count_unordered(float *out, float *x, int32_t *counts, void *stream)
{
    repeat_by_count_unordered<<<1, nullptr, stream>>>(out, x, counts);
}

__global__ AICORE void segments(__gm__ float *out, __gm__ float *x, __gm__ int32_t *starts)
{
    VecTile<float, 8, 32, -1, 32> part(8);
    Counts start;
    TASSIGN(part, 0x0);
    TASSIGN(start, 0x1000);
    CountsGlobal startsGlobal(starts);
    TLOAD(start, startsGlobal);
    Handshake<PIPE_MTE2, PIPE_S>();
    for (int s = 0; s + 1 < 8; ++s) {
        const int first = start.GetValue(s);
        const int n = start.GetValue(s + 1) - first;
        if (n == 0) {
            continue;
        }
        part.SetValidRow(n);
        auto xGlobal = SomeRows<float, 32>(x + first * 32, n);
        auto outGlobal = SomeRows<float, 32>(out + first * 32, n);
        TLOAD(part, xGlobal);
        Handshake<PIPE_MTE2, PIPE_V>();
        TMULS(part, part, static_cast<float>(s + 1));
        Handshake<PIPE_V, PIPE_MTE3>();
        TSTORE(outGlobal, part);
        Handshake<PIPE_MTE3, PIPE_MTE2>();
    }
}

extern "C" void launch_segments(float *out, float *x, int32_t *starts, void *stream)
{
    segments<<<1, nullptr, stream>>>(out, x, starts);
}

__global__ AICORE void sum_until(__gm__ float *out, __gm__ float *x, int32_t tiles)
{
    VecTile<float, 1, 8> sum;
    VecTile<float, 8, 32> a, tmp;
    ColumnTile<float, 8> rows;
    Block total;
    TASSIGN(sum, 0x0);
    TASSIGN(rows, 0x0);
    TASSIGN(a, 0x1000);
    TASSIGN(tmp, 0x2000);
    TASSIGN(total, 0x3000);
    Global outGlobal(out);
    TEXPANDS(total, 0.0f);
    int i = 0;
    float most = 0.0f;
    while (i < tiles && most < 100.0f) {
        Global xGlobal(x + i * kStep);
        TLOAD(a, xGlobal);
        Handshake<PIPE_MTE2, PIPE_V>();
        TADD(total, total, a);
        pipe_barrier(PIPE_V);
        TROWSUM(rows, total, tmp);
        Handshake<PIPE_V, PIPE_S>();
        most = sum.GetValue(0);
        Handshake<PIPE_S, PIPE_V>();
        Handshake<PIPE_V, PIPE_MTE2>();
        ++i;
    }
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(outGlobal, total);
}

extern "C" void launch_sum_until(float *out, float *x, int32_t tiles, void *stream)
{
    sum_until<<<1, nullptr, stream>>>(out, x, tiles);
}

__global__ AICORE void page_table(__gm__ float *out, __gm__ float *pages, __gm__ int32_t *table, int32_t count)
{
    Block a;
    Counts list;
    TASSIGN(a, 0x0);
    TASSIGN(list, 0x1000);
    CountsGlobal tableGlobal(table);
    TLOAD(list, tableGlobal);
    Handshake<PIPE_MTE2, PIPE_S>();
    for (int i = 0; i < count; ++i) {
        const int page = list.GetValue(i);
        Global from(pages + page * kStep), to(out + i * kStep);
        TLOAD(a, from);  // fault: a page number outside the pages, if the data have one
        Handshake<PIPE_MTE2, PIPE_MTE3>();
        TSTORE(to, a);
        Handshake<PIPE_MTE3, PIPE_MTE2>();
    }
}

extern "C" void launch_page_table(float *out, float *pages, int32_t *table, int32_t count, void *stream)
{
    page_table<<<1, nullptr, stream>>>(out, pages, table, count);
}

__global__ AICORE void set_values(__gm__ int32_t *out, int32_t first)
{
    Counts numbers;
    TASSIGN(numbers, 0x0);
    CountsGlobal outGlobal(out);
    for (int i = 0; i < 8; ++i) {
        numbers.SetValue(i, first + i * i);
    }
    Handshake<PIPE_S, PIPE_MTE3>();
    TSTORE(outGlobal, numbers);
}

extern "C" void launch_set_values(int32_t *out, int32_t first, void *stream)
{
    set_values<<<1, nullptr, stream>>>(out, first);
}

__global__ AICORE void set_values_unordered(__gm__ int32_t *out, int32_t first)
{
    Counts numbers;
    TASSIGN(numbers, 0x0);
    CountsGlobal outGlobal(out);
    for (int i = 0; i < 8; ++i) {
        numbers.SetValue(i, first + i * i);
    }
    TSTORE(outGlobal, numbers);  // fault: S to MTE3 is missing
}

extern "C" void launch_set_values_unordered(int32_t *out, int32_t first, void *stream)
{
    set_values_unordered<<<1, nullptr, stream>>>(out, first);
}

// --- Blocks --------------------------------------------------------------------------------------------------

__global__ AICORE void share_of_blocks(__gm__ float *out, __gm__ float *x, int32_t tiles)
{
    const int block = static_cast<int>(get_block_idx());
    const int blocks = static_cast<int>(get_block_num());
    const int begin = tiles * block / blocks;
    const int end = tiles * (block + 1) / blocks;
    if (begin == end) {
        return;
    }
    Block a;
    TASSIGN(a, 0x0);
    for (int i = begin; i < end; ++i) {
        Global xGlobal(x + i * kStep), outGlobal(out + i * kStep);
        TLOAD(a, xGlobal);
        Handshake<PIPE_MTE2, PIPE_V>();
        if (block % 2 == 0) {
            TADDS(a, a, 1.0f);
        } else {
            TMULS(a, a, 2.0f);
        }
        Handshake<PIPE_V, PIPE_MTE3>();
        TSTORE(outGlobal, a);
        Handshake<PIPE_MTE3, PIPE_MTE2>();
    }
}

extern "C" void launch_share_of_blocks(float *out, float *x, int32_t tiles, void *stream)
{
    share_of_blocks<<<4, nullptr, stream>>>(out, x, tiles);
}

__global__ AICORE void blocks_overlap(__gm__ float *out, __gm__ float *x)
{
    const int block = static_cast<int>(get_block_idx());
    Block a;
    TASSIGN(a, 0x0);
    Global xGlobal(x + block * kStep), outGlobal(out + block * 6 * 32);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE3>();
    TSTORE(outGlobal, a);  // fault: 8 rows from every sixth
}

extern "C" void launch_blocks_overlap(float *out, float *x, void *stream)
{
    blocks_overlap<<<4, nullptr, stream>>>(out, x);
}

__global__ AICORE void blocks_added(__gm__ float *out, __gm__ float *x)
{
    const int block = static_cast<int>(get_block_idx());
    Block a;
    TASSIGN(a, 0x0);
    Global xGlobal(x + block * kStep), outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE3>();
    TSTORE<Block, Global, AtomicType::AtomicAdd>(outGlobal, a);
}

extern "C" void launch_blocks_added(float *out, float *x, void *stream)
{
    blocks_added<<<4, nullptr, stream>>>(out, x);
}

__global__ AICORE void one_block_too_many(__gm__ float *out, __gm__ float *x)
{
    const int block = static_cast<int>(get_block_idx());
    Block a;
    TASSIGN(a, 0x0);
    Global xGlobal(x + block * kStep), outGlobal(out + block * kStep);
    TLOAD(a, xGlobal);  // fault: four tiles for five blocks
    Handshake<PIPE_MTE2, PIPE_MTE3>();
    TSTORE(outGlobal, a);
}

extern "C" void launch_one_block_too_many(float *out, float *x, void *stream)
{
    one_block_too_many<<<5, nullptr, stream>>>(out, x);
}

__global__ AICORE void flag_in_one_branch(__gm__ float *out, __gm__ float *x, int32_t twice)
{
    Block a;
    TASSIGN(a, 0x0);
    Global xGlobal(x), outGlobal(out);
    TLOAD(a, xGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    if (twice != 0) {
        TADD(a, a, a);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    }
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);  // fault: not set where `twice` is 0
    TSTORE(outGlobal, a);
}

extern "C" void launch_flag_in_one_branch(float *out, float *x, int32_t twice, void *stream)
{
    flag_in_one_branch<<<1, nullptr, stream>>>(out, x, twice);
}

// --- Helper functions ----------------------------------------------------------------------------------------

template <typename TileData, typename GlobalData>
AICORE inline void LoadAndWait(TileData &tile, GlobalData &global, uint32_t id)
{
    TLOAD(tile, global);
    SetFlag<PIPE_MTE2, PIPE_V>(id);
    WaitFlag<PIPE_MTE2, PIPE_V>(id);
}

template <typename TileData, typename GlobalData>
AICORE inline void LoadOnly(TileData &tile, GlobalData &global)
{
    TLOAD(tile, global);  // fault: the addition of the iteration before may still read
}

__global__ AICORE void through_helpers(__gm__ float *out, __gm__ float *x, int32_t tiles)
{
    Block a[2], b[2];
    for (int k = 0; k < 2; ++k) {
        TASSIGN(a[k], k * 0x400);
        TASSIGN(b[k], 0x1000 + k * 0x400);
    }
    for (uint32_t k = 0; k < 2; ++k) {
        SetFlag<PIPE_V, PIPE_MTE2>(k);
        SetFlag<PIPE_MTE3, PIPE_V>(k);
    }
    uint32_t now = 0;
    for (int i = 0; i < tiles; ++i) {
        Global xGlobal(x + i * kStep), outGlobal(out + i * kStep);
        WaitFlag<PIPE_V, PIPE_MTE2>(now);
        LoadAndWait(a[now], xGlobal, now);
        WaitFlag<PIPE_MTE3, PIPE_V>(now);
        TADD(b[now], a[now], a[now]);
        SetFlag<PIPE_V, PIPE_MTE2>(now);
        SetFlag<PIPE_V, PIPE_MTE3>(now);
        WaitFlag<PIPE_V, PIPE_MTE3>(now);
        TSTORE(outGlobal, b[now]);
        SetFlag<PIPE_MTE3, PIPE_V>(now);
        now ^= 1;
    }
    for (uint32_t k = 0; k < 2; ++k) {
        WaitFlag<PIPE_V, PIPE_MTE2>(k);
        WaitFlag<PIPE_MTE3, PIPE_V>(k);
    }
}

extern "C" void launch_through_helpers(float *out, float *x, int32_t tiles, void *stream)
{
    through_helpers<<<1, nullptr, stream>>>(out, x, tiles);
}

__global__ AICORE void through_helpers_no_reverse(__gm__ float *out, __gm__ float *x, int32_t tiles)
{
    Block a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    for (int i = 0; i < tiles; ++i) {
        Global xGlobal(x + i * kStep), outGlobal(out + i * kStep);
        LoadOnly(a, xGlobal);
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        TADD(b, a, a);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        TSTORE(outGlobal, b);
        set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
        wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    }
}

extern "C" void launch_through_helpers_no_reverse(float *out, float *x, int32_t tiles, void *stream)
{
    through_helpers_no_reverse<<<1, nullptr, stream>>>(out, x, tiles);
}

// --- Nested loops --------------------------------------------------------------------------------------------

__global__ AICORE void nested(__gm__ float *out, __gm__ float *x, int32_t rows, int32_t cols)
{
    VecTile<float, 8, 16> a;
    TASSIGN(a, 0x0);
    for (int i = 0; i < rows; i += 8) {
        for (int j = 0; j < cols; j += 16) {
            using Shape2 = Shape<1, 1, 1, 8, 16>;
            using Stride2 = Stride<1, 1, 1, -1, 1>;
            GlobalTensor<float, Shape2, Stride2> xGlobal(x + i * cols + j, Shape2(), Stride2(cols));
            GlobalTensor<float, Shape2, Stride2> outGlobal(out + i * cols + j, Shape2(), Stride2(cols));
            TLOAD(a, xGlobal);
            Handshake<PIPE_MTE2, PIPE_V>();
            TADDS(a, a, static_cast<float>(i + j));
            Handshake<PIPE_V, PIPE_MTE3>();
            TSTORE(outGlobal, a);
            Handshake<PIPE_MTE3, PIPE_MTE2>();
        }
    }
}

extern "C" void launch_nested(float *out, float *x, int32_t rows, int32_t cols, void *stream)
{
    nested<<<1, nullptr, stream>>>(out, x, rows, cols);
}

__global__ AICORE void same_event_for_all(__gm__ float *out, __gm__ float *x)
{
    Block a[4];
    for (int i = 0; i < 4; ++i) {
        TASSIGN(a[i], i * 0x400);
    }
    for (int i = 0; i < 4; ++i) {
        Global xGlobal(x + i * kStep), outGlobal(out + i * kStep);
        TLOAD(a[i], xGlobal);
        set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
        set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);  // fault: set again, and nothing has waited for it
        wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
        TSTORE(outGlobal, a[i]);
    }
}

extern "C" void launch_same_event_for_all(float *out, float *x, void *stream)
{
    same_event_for_all<<<1, nullptr, stream>>>(out, x);
}
