// both_ways for cpu, written by ptokit.
// order = right
// event = 0
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

__global__ AICORE void both_ways(__gm__ half* x, __gm__ half* y, __gm__ half* work, __gm__ float* back, __gm__ float* out) {
    Tile<TileType::Vec, half, 16, 16> a;
    TASSIGN(a, 0x0);
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
    Tile<TileType::Vec, float, 16, 16> v;
    TASSIGN(v, 0x2000);
    GlobalTensor<half, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>, Layout::ND> x_view(x);
    TLOAD(a, x_view);
    set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    GlobalTensor<half, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>, Layout::ND> work_view(work);
    TSTORE(work_view, a);
    GlobalTensor<half, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>, Layout::ND> y_view(y);
    TLOAD(self_other, y_view);
    TLOAD(self_one, work_view);
    set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    TMOV(self_left, self_one);
    TMOV(self_right, self_other);
    set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    TMATMUL(self_product, self_left, self_right);
    set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
    wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
    GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>, Layout::ND> back_view(back);
    TSTORE(back_view, self_product);
    TLOAD(v, back_view);
    set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID2);
    wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID2);
    GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>, Layout::ND> out_view(out);
    TSTORE(out_view, v);
}
