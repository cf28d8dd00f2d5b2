// gathered_matmul (gathered_matmul.py:21) for a5, written by ptokit.
// rows = 64
// depth = 64
// oob = undefined
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

// The smaller number.
static AICORE inline int64_t least(int64_t a, int64_t b) { return b < a ? b : a; }

__global__ AICORE void gathered_matmul(__gm__ half* table, __gm__ int32_t* ids, __gm__ half* weights, __gm__ float* out) {
#if defined(__DAV_CUBE__)
    const int64_t block_idx_ = get_block_idx();
    const int64_t block_num_ = get_block_num();
    const int64_t begin = 6 * block_idx_ / block_num_;
    const int64_t end = 6 * (block_idx_ + 1) / block_num_;
    if (begin < end) {  // gathered_matmul.py:32
        Tile<TileType::Mat, half, 128, 32, BLayout::ColMajor, 72, 24, SLayout::RowMajor> right_matrix;  // gathered_matmul.py:33
        TASSIGN(right_matrix, 0x0);
        GlobalTensor<half, Shape<1, 1, 1, 72, 24>, Stride<1728, 1728, 1728, 24, 1>, Layout::ND> weights_view(weights);
        TLOAD(right_matrix, weights_view);  // gathered_matmul.py:34
        set_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
        set_flag(PIPE_M, PIPE_MTE1, EVENT_ID1);
        set_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID0);
        set_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID1);
        set_flag(PIPE_FIX, PIPE_M, EVENT_ID0);
        set_flag(PIPE_FIX, PIPE_M, EVENT_ID1);
        for (int64_t tile = begin; tile < end; ++tile) {  // gathered_matmul.py:35
            const int64_t tile_iteration = tile - begin;
            const int64_t first = tile * 64;
            const int64_t n = least(64, 333 - first);
            Tile<TileType::Mat, half, 64, 128, BLayout::ColMajor, -1, 72, SLayout::RowMajor> left_matrix(n);  // gathered_matmul.py:38
            TASSIGN(left_matrix, 8192 + tile_iteration % 2 * 16384);
            Tile<TileType::Acc, float, 64, 32, BLayout::ColMajor, -1, 24, SLayout::RowMajor, 1024> product(n);  // gathered_matmul.py:39
            TASSIGN(product, tile_iteration % 2 * 8192);
            wait_flag(PIPE_MTE1, PIPE_MTE2, static_cast<event_t>(tile_iteration % 2));
            GlobalTensor<half, Shape<1, 1, 1, 1000, 72>, Stride<72000, 72000, 72000, 72, 1>, Layout::ND> table_view(table);
            using ids_view_shape = Shape<1, 1, 1, 1, -1>;
            using ids_view_stride = Stride<333, 333, 333, 333, 1>;
            GlobalTensor<int32_t, ids_view_shape, ids_view_stride, Layout::ND> ids_view(
                ids + first, ids_view_shape(n), ids_view_stride());
            MGATHER<Coalesce::Row>(left_matrix, table_view, ids_view);  // gathered_matmul.py:40
            set_flag(PIPE_MTE2, PIPE_MTE1, static_cast<event_t>(tile_iteration % 2));
            wait_flag(PIPE_FIX, PIPE_M, static_cast<event_t>(tile_iteration % 2));
            wait_flag(PIPE_MTE2, PIPE_MTE1, static_cast<event_t>(tile_iteration % 2));
            for (int64_t k = 0; k < 72; k += 64) {  // gathered_matmul.py:41
                const int64_t k_iteration = k / 64;
                const int64_t size = least(64, 72 - k);
                Tile<TileType::Left, half, 64, 64, BLayout::ColMajor, -1, -1, SLayout::RowMajor> left(n, size);  // gathered_matmul.py:43
                TASSIGN(left, k_iteration % 2 * 8192);
                Tile<TileType::Right, half, 64, 32, BLayout::RowMajor, -1, 24, SLayout::ColMajor> right(size);  // gathered_matmul.py:44
                TASSIGN(right, k_iteration % 2 * 4096);
                wait_flag(PIPE_M, PIPE_MTE1, static_cast<event_t>(k_iteration % 2));
                TEXTRACT(left, left_matrix, 0, k);  // gathered_matmul.py:45
                TEXTRACT(right, right_matrix, k, 0);  // gathered_matmul.py:46
                set_flag(PIPE_MTE1, PIPE_M, static_cast<event_t>(2 + k_iteration % 2));
                wait_flag(PIPE_MTE1, PIPE_M, static_cast<event_t>(2 + k_iteration % 2));
                if (k == 0) {  // gathered_matmul.py:47
                    TMATMUL(product, left, right);  // gathered_matmul.py:48
                } else {
                    TMATMUL_ACC(product, product, left, right);  // gathered_matmul.py:50
                }
                set_flag(PIPE_M, PIPE_MTE1, static_cast<event_t>(k_iteration % 2));
            }
            set_flag(PIPE_MTE1, PIPE_MTE2, static_cast<event_t>(tile_iteration % 2));
            set_flag(PIPE_M, PIPE_FIX, static_cast<event_t>(2 + tile_iteration % 2));
            wait_flag(PIPE_M, PIPE_FIX, static_cast<event_t>(2 + tile_iteration % 2));
            using out_view_shape = Shape<1, 1, 1, -1, 24>;
            using out_view_stride = Stride<7992, 7992, 7992, 24, 1>;
            GlobalTensor<float, out_view_shape, out_view_stride, Layout::ND> out_view(
                out + first * 24, out_view_shape(n), out_view_stride());
            TSTORE(out_view, product);  // gathered_matmul.py:51
            set_flag(PIPE_FIX, PIPE_M, static_cast<event_t>(tile_iteration % 2));
        }
        wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
        wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID1);
        wait_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID0);
        wait_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID1);
        wait_flag(PIPE_FIX, PIPE_M, EVENT_ID0);
        wait_flag(PIPE_FIX, PIPE_M, EVENT_ID1);
    }
#endif
}

void launch_gathered_matmul(uint32_t blocks, void* stream, half* table, int32_t* ids, half* weights, float* out) {
    gathered_matmul<<<blocks, nullptr, stream>>>(table, ids, weights, out);
}
