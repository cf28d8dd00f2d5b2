// embedding_gradient (embedding_gradient.py:21) for cpu, written by ptokit.
// rows = 32
// oob = skip
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

// The smaller number.
static AICORE inline int64_t least(int64_t a, int64_t b) { return b < a ? b : a; }

__global__ AICORE void embedding_gradient(__gm__ float* gradient, __gm__ int32_t* tokens, __gm__ float* out) {
    const int64_t block_idx_ = get_block_idx();
    const int64_t block_num_ = get_block_num();
    for (int64_t tile = 11 * block_idx_ / block_num_, tile_end = 11 * (block_idx_ + 1) / block_num_; tile < tile_end; ++tile) {  // embedding_gradient.py:28
        const int64_t tile_iteration = tile - 11 * block_idx_ / block_num_;
        const int64_t first = tile * 32;
        const int64_t n = least(32, 333 - first);
        Tile<TileType::Vec, int32_t, 1, 32, BLayout::RowMajor, 1, -1> ids(n);  // embedding_gradient.py:31
        TASSIGN(ids, tile_iteration % 2 * 128);
        Tile<TileType::Vec, float, 32, 32, BLayout::RowMajor, -1, 20> vectors(n);  // embedding_gradient.py:32
        TASSIGN(vectors, 256 + tile_iteration % 2 * 4096);
        using tokens_view_shape = Shape<1, 1, 1, 1, -1>;
        using tokens_view_stride = Stride<333, 333, 333, 333, 1>;
        GlobalTensor<int32_t, tokens_view_shape, tokens_view_stride, Layout::ND> tokens_view(
            tokens + first, tokens_view_shape(n), tokens_view_stride());
        TLOAD(ids, tokens_view);  // embedding_gradient.py:33
        using gradient_view_shape = Shape<1, 1, 1, -1, 20>;
        using gradient_view_stride = Stride<6660, 6660, 6660, 20, 1>;
        GlobalTensor<float, gradient_view_shape, gradient_view_stride, Layout::ND> gradient_view(
            gradient + first * 20, gradient_view_shape(n), gradient_view_stride());
        TLOAD(vectors, gradient_view);  // embedding_gradient.py:34
        GlobalTensor<float, Shape<1, 1, 1, 400, 20>, Stride<8000, 8000, 8000, 20, 1>, Layout::ND> out_view(out);
        MSCATTER<Coalesce::Row, ScatterAtomicOp::Add, ScatterOOB::Skip>(out_view, vectors, ids);  // embedding_gradient.py:35
    }
}
