// combine (moe_dispatch_combine.py:40) for a5, written by ptokit.
// rows = 32
// oob = zero
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

// The smaller number.
static AICORE inline int64_t least(int64_t a, int64_t b) { return b < a ? b : a; }

__global__ AICORE void combine(__gm__ float* answers, __gm__ int32_t* slots, __gm__ float* gates, __gm__ float* out) {
#if defined(__DAV_VEC__)
    const int64_t block_idx_ = get_block_idx();
    const int64_t block_num_ = get_block_num();
    set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID2);
    set_flag(PIPE_V, PIPE_MTE2, EVENT_ID3);
    for (int64_t tile = 11 * block_idx_ / block_num_, tile_end = 11 * (block_idx_ + 1) / block_num_; tile < tile_end; ++tile) {  // moe_dispatch_combine.py:47
        const int64_t first = tile * 32;
        const int64_t n = least(32, 333 - first);
        Tile<TileType::Vec, float, 32, 32, BLayout::RowMajor, -1, 20> total(n);  // moe_dispatch_combine.py:50
        TASSIGN(total, 0x0);
        wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
        TEXPANDS(total, 0.0f);  // moe_dispatch_combine.py:51
        for (int64_t k = 0; k < 2; ++k) {  // moe_dispatch_combine.py:52
            Tile<TileType::Vec, int32_t, 1, 32, BLayout::RowMajor, 1, -1> chosen(n);  // moe_dispatch_combine.py:53
            TASSIGN(chosen, 4096 + k % 2 * 128);
            Tile<TileType::Vec, float, 32, 32, BLayout::RowMajor, -1, 20> answer(n);  // moe_dispatch_combine.py:54
            TASSIGN(answer, 4352 + k % 2 * 4096);
            wait_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(k % 2));
            using slots_view_shape = Shape<1, 1, 1, 1, -1>;
            using slots_view_stride = Stride<666, 666, 666, 333, 1>;
            GlobalTensor<int32_t, slots_view_shape, slots_view_stride, Layout::ND> slots_view(
                slots + k * 333 + first, slots_view_shape(n), slots_view_stride());
            TLOAD(chosen, slots_view);  // moe_dispatch_combine.py:55
            set_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(k % 2));
            wait_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(k % 2));
            GlobalTensor<float, Shape<1, 1, 1, 560, 20>, Stride<11200, 11200, 11200, 20, 1>, Layout::ND> answers_view(answers);
            MGATHER<Coalesce::Row, GatherOOB::Zero>(answer, answers_view, chosen);  // moe_dispatch_combine.py:56
            set_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(k % 2));
            Tile<TileType::Vec, float, 32, 16, BLayout::RowMajor, -1, 1> loaded(n);  // moe_dispatch_combine.py:68
            TASSIGN(loaded, 12544 + k % 2 * 2048);
            Tile<TileType::Vec, float, 32, 1, BLayout::ColMajor, -1> weight(n);  // moe_dispatch_combine.py:69
            TASSIGN(weight, 16640 + k % 2 * 128);
            wait_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(2 + k % 2));
            using gates_view_shape = Shape<1, 1, 1, -1, 1>;
            using gates_view_stride = Stride<666, 666, 666, 2, 1>;
            GlobalTensor<float, gates_view_shape, gates_view_stride, Layout::ND> gates_view(
                gates + first * 2 + k, gates_view_shape(n), gates_view_stride());
            TLOAD(loaded, gates_view);  // moe_dispatch_combine.py:70
            set_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(2 + k % 2));
            wait_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(2 + k % 2));
            Tile<TileType::Vec, float, 32, 16> tmp;
            TASSIGN(tmp, 0x4200);
            TROWSUM(weight, loaded, tmp);  // moe_dispatch_combine.py:71
            set_flag(PIPE_V, PIPE_MTE2, static_cast<event_t>(2 + k % 2));
            TROWEXPANDMUL(answer, answer, weight);  // moe_dispatch_combine.py:58
            TADD(total, total, answer);  // moe_dispatch_combine.py:59
        }
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID4);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID4);
        using out_view_shape = Shape<1, 1, 1, -1, 20>;
        using out_view_stride = Stride<6660, 6660, 6660, 20, 1>;
        GlobalTensor<float, out_view_shape, out_view_stride, Layout::ND> out_view(
            out + first * 20, out_view_shape(n), out_view_stride());
        TSTORE(out_view, total);  // moe_dispatch_combine.py:60
        set_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    }
    wait_flag(PIPE_MTE3, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID1);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID2);
    wait_flag(PIPE_V, PIPE_MTE2, EVENT_ID3);
#endif
}

void launch_combine(uint32_t blocks, void* stream, float* answers, int32_t* slots, float* gates, float* out) {
    combine<<<blocks, nullptr, stream>>>(answers, slots, gates, out);
}
