// embedding_bag (embedding_bag.py:24) for a2a3, written by ptokit.
// per = 6
// bags = 8
// oob = zero
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

// The smaller number.
static AICORE inline int64_t least(int64_t a, int64_t b) { return b < a ? b : a; }

__global__ AICORE void embedding_bag(__gm__ float* table, __gm__ int32_t* ids, __gm__ float* weights, __gm__ float* out) {
#if defined(__DAV_VEC__)
    const int64_t block_idx_ = get_block_idx();
    const int64_t block_num_ = get_block_num();
    for (int64_t tile = 17 * block_idx_ / block_num_, tile_end = 17 * (block_idx_ + 1) / block_num_; tile < tile_end; ++tile) {  // embedding_bag.py:32
        const int64_t tile_iteration = tile - 17 * block_idx_ / block_num_;
        const int64_t first = tile * 8;
        const int64_t n = least(8, 133 - first);
        Tile<TileType::Vec, int32_t, 1, 48, BLayout::RowMajor, 1, -1> chosen(n * 6);  // embedding_bag.py:35
        TASSIGN(chosen, tile_iteration % 2 * 192);
        Tile<TileType::Vec, float, 48, 1, BLayout::ColMajor, -1> weight(n * 6);  // embedding_bag.py:36
        TASSIGN(weight, 384 + tile_iteration % 2 * 192);
        Tile<TileType::Vec, float, 48, 32, BLayout::RowMajor, -1, 20> vectors(n * 6);  // embedding_bag.py:37
        TASSIGN(vectors, 768 + tile_iteration % 2 * 6144);
        using ids_view_shape = Shape<1, 1, 1, 1, -1>;
        using ids_view_stride = Stride<798, 798, 798, 798, 1>;
        GlobalTensor<int32_t, ids_view_shape, ids_view_stride, Layout::ND> ids_view(
            ids + first * 6, ids_view_shape(n * 6), ids_view_stride());
        TLOAD(chosen, ids_view);  // embedding_bag.py:39
        set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
        using weights_view_shape = Shape<1, 1, 1, -1, 1>;
        using weights_view_stride = Stride<798, 798, 798, 1, 1>;
        GlobalTensor<float, weights_view_shape, weights_view_stride, Layout::DN> weights_view(
            weights + first * 6, weights_view_shape(n * 6), weights_view_stride());
        TLOAD(weight, weights_view);  // embedding_bag.py:40
        wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);
        GlobalTensor<float, Shape<1, 1, 1, 5000, 20>, Stride<100000, 100000, 100000, 20, 1>, Layout::ND> table_view(table);
        MGATHER<Coalesce::Row, GatherOOB::Zero>(vectors, table_view, chosen);  // embedding_bag.py:41
        pipe_barrier(PIPE_V);
        TROWEXPANDMUL(vectors, vectors, weight);  // embedding_bag.py:42
        pipe_barrier(PIPE_V);
        for (int64_t bag = 0; bag < n; ++bag) {  // embedding_bag.py:43
            pipe_barrier(PIPE_V);
            Tile<TileType::Vec, float, 1, 32, BLayout::RowMajor, 1, 20> sums_slice;
            TASSIGN(sums_slice, 13056 + tile_iteration % 2 * 1024 + bag * 32 * 4);
            const int64_t start = bag * 6;
            Tile<TileType::Vec, float, 6, 32, BLayout::RowMajor, 6, 20> vectors_slice;
            TASSIGN(vectors_slice, 768 + tile_iteration % 2 * 6144 + start * 32 * 4);
            TCOLSUM(sums_slice, vectors_slice);  // embedding_bag.py:45
        }
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        using out_view_shape = Shape<1, 1, 1, -1, 20>;
        using out_view_stride = Stride<2660, 2660, 2660, 20, 1>;
        GlobalTensor<float, out_view_shape, out_view_stride, Layout::ND> out_view(
            out + first * 20, out_view_shape(n), out_view_stride());
        Tile<TileType::Vec, float, 8, 32, BLayout::RowMajor, -1, 20> sums(n);
        TASSIGN(sums, 13056 + tile_iteration % 2 * 1024);
        TSTORE(out_view, sums);  // embedding_bag.py:46
    }
#endif
}

void launch_embedding_bag(uint32_t blocks, void* stream, float* table, int32_t* ids, float* weights, float* out) {
    embedding_bag<<<blocks, nullptr, stream>>>(table, ids, weights, out);
}
