// gathered_softmax (gathered_softmax.py:22) for a5, written by ptokit.
// rows = 16
// oob = clamp
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

// The smaller number.
static AICORE inline int64_t least(int64_t a, int64_t b) { return b < a ? b : a; }

__global__ AICORE void gathered_softmax(__gm__ float* logits, __gm__ int32_t* candidates, __gm__ float* out) {
#if defined(__DAV_VEC__)
    const int64_t block_idx_ = get_block_idx();
    const int64_t block_num_ = get_block_num();
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
    for (int64_t tile = 7 * block_idx_ / block_num_, tile_end = 7 * (block_idx_ + 1) / block_num_; tile < tile_end; ++tile) {  // gathered_softmax.py:29
        const int64_t tile_iteration = tile - 7 * block_idx_ / block_num_;
        const int64_t first = tile * 16;
        const int64_t n = least(16, 100 - first);
        Tile<TileType::Vec, int32_t, 16, 48, BLayout::RowMajor, -1, 37> ids(n);  // gathered_softmax.py:32
        TASSIGN(ids, tile_iteration % 2 * 3072);
        Tile<TileType::Vec, float, 16, 48, BLayout::RowMajor, -1, 37> scores(n);  // gathered_softmax.py:33
        TASSIGN(scores, 6144 + tile_iteration % 2 * 3072);
        Tile<TileType::Vec, float, 16, 1, BLayout::ColMajor, -1> highest(n);  // gathered_softmax.py:34
        TASSIGN(highest, 12288 + tile_iteration % 2 * 64);
        Tile<TileType::Vec, float, 16, 1, BLayout::ColMajor, -1> total(n);  // gathered_softmax.py:35
        TASSIGN(total, 12416 + tile_iteration % 2 * 64);
        wait_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(tile_iteration % 2));
        using candidates_view_shape = Shape<1, 1, 1, -1, 37>;
        using candidates_view_stride = Stride<3700, 3700, 3700, 37, 1>;
        GlobalTensor<int32_t, candidates_view_shape, candidates_view_stride, Layout::ND> candidates_view(
            candidates + first * 37, candidates_view_shape(n), candidates_view_stride());
        TLOAD(ids, candidates_view);  // gathered_softmax.py:36
        set_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(tile_iteration % 2));
        wait_flag(PIPE_MTE3, PIPE_V, static_cast<event_t>(tile_iteration % 2));
        wait_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(tile_iteration % 2));
        GlobalTensor<float, Shape<1, 1, 1, 1, 10001>, Stride<10001, 10001, 10001, 10001, 1>, Layout::ND> logits_view(logits);
        MGATHER<Coalesce::Elem, GatherOOB::Clamp>(scores, logits_view, ids);  // gathered_softmax.py:37
        set_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(tile_iteration % 2));
        Tile<TileType::Vec, float, 16, 48> tmp;
        TASSIGN(tmp, 0x3100);
        TROWMAX(highest, scores, tmp);  // gathered_softmax.py:38
        TROWEXPANDSUB(scores, scores, highest);  // gathered_softmax.py:39
        TEXP(scores, scores);  // gathered_softmax.py:40
        Tile<TileType::Vec, float, 16, 48> tmp_1;
        TASSIGN(tmp_1, 0x3100);
        TROWSUM(total, scores, tmp_1);  // gathered_softmax.py:41
        TROWEXPANDDIV(scores, scores, total);  // gathered_softmax.py:42
        set_flag(PIPE_V, PIPE_MTE3, static_cast<event_t>(2 + tile_iteration % 2));
        wait_flag(PIPE_V, PIPE_MTE3, static_cast<event_t>(2 + tile_iteration % 2));
        using out_view_shape = Shape<1, 1, 1, -1, 37>;
        using out_view_stride = Stride<3700, 3700, 3700, 37, 1>;
        GlobalTensor<float, out_view_shape, out_view_stride, Layout::ND> out_view(
            out + first * 37, out_view_shape(n), out_view_stride());
        TSTORE(out_view, scores);  // gathered_softmax.py:43
        set_flag(PIPE_MTE3, PIPE_V, static_cast<event_t>(tile_iteration % 2));
    }
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID1);
#endif
}

void launch_gathered_softmax(uint32_t blocks, void* stream, float* logits, int32_t* candidates, float* out) {
    gathered_softmax<<<blocks, nullptr, stream>>>(logits, candidates, out);
}
