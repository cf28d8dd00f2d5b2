// ring for a5, written by ptokit.
// trips = 4
// slots = 2
// prime = 2
// free = sync
// ready = 1
// drain = 2
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

__global__ AICORE void ring(__gm__ half* x, __gm__ half* w, __gm__ float* out) {
#if defined(__DAV_VEC__) || defined(__DAV_CUBE__)
#if defined(__DAV_VEC__)
    if (get_subblockid() != 0) {
        return;
    }
#endif
#if defined(__DAV_CUBE__)
    Tile<TileType::Mat, half, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor> self_one;
    TASSIGN(self_one, 0x0);
    Tile<TileType::Mat, half, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor> self_other;
    TASSIGN(self_other, 0x1000);
    Tile<TileType::Left, half, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor> self_left;
    TASSIGN(self_left, 0x0);
    Tile<TileType::Right, half, 16, 16, BLayout::RowMajor, 16, 16, SLayout::ColMajor> self_right;
    TASSIGN(self_right, 0x0);
    Tile<TileType::Acc, float, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor, 1024> self_product;
    TASSIGN(self_product, 0x0);
#endif
#if defined(__DAV_VEC__)
    set_intra_block(PIPE_MTE3, 1);
    set_intra_block(PIPE_MTE3, 1);
#endif
    for (int64_t i = 0; i < 4; ++i) {
        Tile<TileType::Vec, float, 16, 16> a;
        TASSIGN(a, i % 2 * 4096);
        GlobalTensor<half, Shape<1, 1, 1, 16, 16>, Stride<1024, 1024, 1024, 16, 1>, Layout::ND> x_view(x + i * 16 * 16);
#if defined(__DAV_CUBE__)
        TLOAD(self_one, x_view);
#endif
        GlobalTensor<half, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>, Layout::ND> w_view(w);
#if defined(__DAV_CUBE__)
        TLOAD(self_other, w_view);
        set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
        TMOV(self_left, self_one);
        TMOV(self_right, self_other);
        set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
        wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
        TMATMUL(self_product, self_left, self_right);
        set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
        wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
        wait_intra_block(PIPE_FIX, 1);
        TMOV(a, self_product);
        set_intra_block(PIPE_FIX, 0);
#endif
        pipe_barrier(PIPE_ALL);
#if defined(__DAV_VEC__)
        wait_intra_block(PIPE_V, 0);
        TADDS(a, a, 1.0f);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
#endif
        GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<1024, 1024, 1024, 16, 1>, Layout::ND> out_view(out + i * 16 * 16);
#if defined(__DAV_VEC__)
        TSTORE(out_view, a);
        set_intra_block(PIPE_MTE3, 1);
#endif
    }
#if defined(__DAV_CUBE__)
    wait_intra_block(PIPE_FIX, 1);
    wait_intra_block(PIPE_FIX, 1);
#endif
#endif
}

void launch_ring(uint32_t blocks, void* stream, half* x, half* w, float* out) {
    ring<<<blocks, nullptr, stream>>>(x, w, out);
}
