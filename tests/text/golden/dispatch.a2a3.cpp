// dispatch (moe_dispatch_combine.py:22) for a2a3, written by ptokit.
// rows = 32
// oob = skip
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

// The smaller number.
static AICORE inline int64_t least(int64_t a, int64_t b) { return b < a ? b : a; }

__global__ AICORE void dispatch(__gm__ float* tokens, __gm__ int32_t* slots, __gm__ float* out) {
#if defined(__DAV_VEC__)
    const int64_t block_idx_ = get_block_idx();
    const int64_t block_num_ = get_block_num();
    for (int64_t tile = 11 * block_idx_ / block_num_, tile_end = 11 * (block_idx_ + 1) / block_num_; tile < tile_end; ++tile) {  // moe_dispatch_combine.py:29
        const int64_t tile_iteration = tile - 11 * block_idx_ / block_num_;
        const int64_t first = tile * 32;
        const int64_t n = least(32, 333 - first);
        Tile<TileType::Vec, float, 32, 32, BLayout::RowMajor, -1, 20> vectors(n);  // moe_dispatch_combine.py:32
        TASSIGN(vectors, tile_iteration % 2 * 4096);
        using tokens_view_shape = Shape<1, 1, 1, -1, 20>;
        using tokens_view_stride = Stride<6660, 6660, 6660, 20, 1>;
        GlobalTensor<float, tokens_view_shape, tokens_view_stride, Layout::ND> tokens_view(
            tokens + first * 20, tokens_view_shape(n), tokens_view_stride());
        TLOAD(vectors, tokens_view);  // moe_dispatch_combine.py:33
        for (int64_t k = 0; k < 2; ++k) {  // moe_dispatch_combine.py:34
            Tile<TileType::Vec, int32_t, 1, 32, BLayout::RowMajor, 1, -1> chosen(n);  // moe_dispatch_combine.py:35
            TASSIGN(chosen, 8192 + k % 2 * 128);
            using slots_view_shape = Shape<1, 1, 1, 1, -1>;
            using slots_view_stride = Stride<666, 666, 666, 333, 1>;
            GlobalTensor<int32_t, slots_view_shape, slots_view_stride, Layout::ND> slots_view(
                slots + k * 333 + first, slots_view_shape(n), slots_view_stride());
            TLOAD(chosen, slots_view);  // moe_dispatch_combine.py:36
            GlobalTensor<float, Shape<1, 1, 1, 560, 20>, Stride<11200, 11200, 11200, 20, 1>, Layout::ND> out_view(out);
            MSCATTER<Coalesce::Row, ScatterAtomicOp::None, ScatterOOB::Skip>(out_view, vectors, chosen);  // moe_dispatch_combine.py:37
        }
    }
#endif
}

void launch_dispatch(uint32_t blocks, void* stream, float* tokens, int32_t* slots, float* out) {
    dispatch<<<blocks, nullptr, stream>>>(tokens, slots, out);
}
