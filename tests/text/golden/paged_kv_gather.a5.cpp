// paged_kv_gather (paged_kv_gather.py:22) for a5, written by ptokit.
// page_keys = 16
// pages = 8
// oob = undefined
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

// Division that rounds towards minus infinity.
static AICORE inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// A remainder with the divisor's sign.
static AICORE inline int64_t floor_mod(int64_t a, int64_t b) { return (a % b + b) % b; }

// The smaller number.
static AICORE inline int64_t least(int64_t a, int64_t b) { return b < a ? b : a; }

__global__ AICORE void paged_kv_gather(__gm__ float* cache, __gm__ int32_t* block_table, __gm__ int32_t* lengths, __gm__ float* out) {
#if defined(__DAV_VEC__)
    const int64_t block_idx_ = get_block_idx();
    const int64_t block_num_ = get_block_num();
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID2);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID3);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID2);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID3);
    for (int64_t item = 36 * block_idx_ / block_num_, item_end = 36 * (block_idx_ + 1) / block_num_; item < item_end; ++item) {  // paged_kv_gather.py:32
        const int64_t item_iteration = item - 36 * block_idx_ / block_num_;
        const int64_t sequence = item / 6;
        const int64_t length = lengths[sequence];  // paged_kv_gather.py:34
        const int64_t full = floor_div(length, 16);
        const int64_t chunk = item % 6;
        const int64_t first = chunk * 8;
        const int64_t n = least(8, full - first);
        if (n > 0) {  // paged_kv_gather.py:38
            Tile<TileType::Vec, int32_t, 1, 8, BLayout::RowMajor, 1, -1> page_ids(n);  // paged_kv_gather.py:39
            TASSIGN(page_ids, item_iteration % 2 * 32);
            Tile<TileType::Vec, float, 8, 128, BLayout::RowMajor, -1> keys(n);  // paged_kv_gather.py:40
            TASSIGN(keys, 64 + item_iteration % 2 * 4096);
            wait_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(item_iteration % 2));
            using block_table_view_shape = Shape<1, 1, 1, 1, -1>;
            using block_table_view_stride = Stride<264, 264, 264, 44, 1>;
            GlobalTensor<int32_t, block_table_view_shape, block_table_view_stride, Layout::ND> block_table_view(
                block_table + sequence * 44 + first, block_table_view_shape(n), block_table_view_stride());
            TLOAD(page_ids, block_table_view);  // paged_kv_gather.py:41
            set_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(item_iteration % 2));
            wait_flag(PIPE_MTE3, PIPE_V, static_cast<event_t>(item_iteration % 2));
            wait_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(item_iteration % 2));
            GlobalTensor<float, Shape<1, 1, 1, 78, 128>, Stride<9984, 9984, 9984, 128, 1>, Layout::ND> cache_view(cache);
            MGATHER<Coalesce::Row>(keys, cache_view, page_ids);  // paged_kv_gather.py:42
            set_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(item_iteration % 2));
            set_flag(PIPE_V, PIPE_MTE3, static_cast<event_t>(4 + item_iteration % 2));
            wait_flag(PIPE_V, PIPE_MTE3, static_cast<event_t>(4 + item_iteration % 2));
            using out_view_shape = Shape<1, 1, 1, -1, 128>;
            using out_view_stride = Stride<33792, 33792, 5632, 128, 1>;
            GlobalTensor<float, out_view_shape, out_view_stride, Layout::ND> out_view(
                out + sequence * 5632 + first * 128, out_view_shape(n), out_view_stride());
            TSTORE(out_view, keys);  // paged_kv_gather.py:43
            set_flag(PIPE_MTE3, PIPE_V, static_cast<event_t>(item_iteration % 2));
        }
        const int64_t rest = floor_mod(length, 16);
        if ((rest > 0) && (floor_div(full, 8) == chunk)) {  // paged_kv_gather.py:44
            Tile<TileType::Vec, int32_t, 1, 8, BLayout::RowMajor, 1, 1> last_id;  // paged_kv_gather.py:45
            TASSIGN(last_id, 8256 + item_iteration % 2 * 32);
            Tile<TileType::Vec, float, 1, 128> last_keys;  // paged_kv_gather.py:46
            TASSIGN(last_keys, 8320 + item_iteration % 2 * 512);
            wait_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(2 + item_iteration % 2));
            GlobalTensor<int32_t, Shape<1, 1, 1, 1, 1>, Stride<264, 264, 264, 44, 1>, Layout::ND> block_table_view_1(block_table + sequence * 44 + full);
            TLOAD(last_id, block_table_view_1);  // paged_kv_gather.py:47
            set_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(2 + item_iteration % 2));
            wait_flag(PIPE_MTE3, PIPE_V, static_cast<event_t>(2 + item_iteration % 2));
            wait_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(2 + item_iteration % 2));
            GlobalTensor<float, Shape<1, 1, 1, 78, 128>, Stride<9984, 9984, 9984, 128, 1>, Layout::ND> cache_view_1(cache);
            MGATHER<Coalesce::Row>(last_keys, cache_view_1, last_id);  // paged_kv_gather.py:48
            set_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(2 + item_iteration % 2));
            set_flag(PIPE_V, PIPE_MTE3, static_cast<event_t>(6 + item_iteration % 2));
            wait_flag(PIPE_V, PIPE_MTE3, static_cast<event_t>(6 + item_iteration % 2));
            using out_view_1_shape = Shape<1, 1, 1, 1, -1>;
            using out_view_1_stride = Stride<33792, 33792, 5632, 128, 1>;
            GlobalTensor<float, out_view_1_shape, out_view_1_stride, Layout::ND> out_view_1(
                out + sequence * 5632 + full * 128, out_view_1_shape(rest * 8), out_view_1_stride());
            Tile<TileType::Vec, float, 1, 128, BLayout::RowMajor, 1, -1> last_keys_part(rest * 8);
            TASSIGN(last_keys_part, 8320 + item_iteration % 2 * 512);
            TSTORE(out_view_1, last_keys_part);  // paged_kv_gather.py:50
            set_flag(PIPE_MTE3, PIPE_V, static_cast<event_t>(2 + item_iteration % 2));
        }
    }
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID2);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID3);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID2);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID3);
#endif
}

void launch_paged_kv_gather(uint32_t blocks, void* stream, float* cache, int32_t* block_table, int32_t* lengths, float* out) {
    paged_kv_gather<<<blocks, nullptr, stream>>>(cache, block_table, lengths, out);
}
