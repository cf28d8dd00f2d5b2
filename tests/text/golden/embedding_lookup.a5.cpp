// embedding_lookup (embedding_lookup.py:21) for a5, written by ptokit.
// rows = 32
// oob = zero
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

// The smaller number.
static AICORE inline int64_t least(int64_t a, int64_t b) { return b < a ? b : a; }

__global__ AICORE void embedding_lookup(__gm__ float* table, __gm__ int32_t* tokens, __gm__ float* out) {
#if defined(__DAV_VEC__)
    const int64_t block_idx_ = get_block_idx();
    const int64_t block_num_ = get_block_num();
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
    for (int64_t tile = 11 * block_idx_ / block_num_, tile_end = 11 * (block_idx_ + 1) / block_num_; tile < tile_end; ++tile) {  // embedding_lookup.py:28
        const int64_t tile_iteration = tile - 11 * block_idx_ / block_num_;
        const int64_t first = tile * 32;
        const int64_t n = least(32, 333 - first);
        Tile<TileType::Vec, int32_t, 1, 32, BLayout::RowMajor, 1, -1> ids(n);  // embedding_lookup.py:31
        TASSIGN(ids, tile_iteration % 2 * 128);
        Tile<TileType::Vec, float, 32, 32, BLayout::RowMajor, -1, 20> vectors(n);  // embedding_lookup.py:32
        TASSIGN(vectors, 256 + tile_iteration % 2 * 4096);
        wait_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(tile_iteration % 2));
        using tokens_view_shape = Shape<1, 1, 1, 1, -1>;
        using tokens_view_stride = Stride<333, 333, 333, 333, 1>;
        GlobalTensor<int32_t, tokens_view_shape, tokens_view_stride, Layout::ND> tokens_view(
            tokens + first, tokens_view_shape(n), tokens_view_stride());
        TLOAD(ids, tokens_view);  // embedding_lookup.py:33
        set_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(tile_iteration % 2));
        wait_flag(PIPE_MTE3, PIPE_V, static_cast<event_t>(tile_iteration % 2));
        wait_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(tile_iteration % 2));
        GlobalTensor<float, Shape<1, 1, 1, 5000, 20>, Stride<100000, 100000, 100000, 20, 1>, Layout::ND> table_view(table);
        MGATHER<Coalesce::Row, GatherOOB::Zero>(vectors, table_view, ids);  // embedding_lookup.py:34
        set_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(tile_iteration % 2));
        set_flag(PIPE_V, PIPE_MTE3, static_cast<event_t>(2 + tile_iteration % 2));
        wait_flag(PIPE_V, PIPE_MTE3, static_cast<event_t>(2 + tile_iteration % 2));
        using out_view_shape = Shape<1, 1, 1, -1, 20>;
        using out_view_stride = Stride<6660, 6660, 6660, 20, 1>;
        GlobalTensor<float, out_view_shape, out_view_stride, Layout::ND> out_view(
            out + first * 20, out_view_shape(n), out_view_stride());
        TSTORE(out_view, vectors);  // embedding_lookup.py:35
        set_flag(PIPE_MTE3, PIPE_V, static_cast<event_t>(tile_iteration % 2));
    }
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
#endif
}

void launch_embedding_lookup(uint32_t blocks, void* stream, float* table, int32_t* tokens, float* out) {
    embedding_lookup<<<blocks, nullptr, stream>>>(table, tokens, out);
}
