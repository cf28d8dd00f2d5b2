// segment_max (histogram_segment_max.py:47) for cpu, written by ptokit.
// cols = 1024
// oob = skip
#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

// The smaller number.
static AICORE inline int64_t least(int64_t a, int64_t b) { return b < a ? b : a; }

__global__ AICORE void segment_max(__gm__ float* values, __gm__ int32_t* segments, __gm__ float* out) {
    const int64_t block_idx_ = get_block_idx();
    const int64_t block_num_ = get_block_num();
    for (int64_t tile = 5 * block_idx_ / block_num_, tile_end = 5 * (block_idx_ + 1) / block_num_; tile < tile_end; ++tile) {  // histogram_segment_max.py:53
        const int64_t tile_iteration = tile - 5 * block_idx_ / block_num_;
        const int64_t first = tile * 1024;
        const int64_t n = least(1024, 5000 - first);
        Tile<TileType::Vec, float, 1, 1024, BLayout::RowMajor, 1, -1> numbers(n);  // histogram_segment_max.py:56
        TASSIGN(numbers, tile_iteration % 2 * 4096);
        Tile<TileType::Vec, int32_t, 1, 1024, BLayout::RowMajor, 1, -1> cells(n);  // histogram_segment_max.py:57
        TASSIGN(cells, 8192 + tile_iteration % 2 * 4096);
        using values_view_shape = Shape<1, 1, 1, 1, -1>;
        using values_view_stride = Stride<5000, 5000, 5000, 5000, 1>;
        GlobalTensor<float, values_view_shape, values_view_stride, Layout::ND> values_view(
            values + first, values_view_shape(n), values_view_stride());
        TLOAD(numbers, values_view);  // histogram_segment_max.py:58
        using segments_view_shape = Shape<1, 1, 1, 1, -1>;
        using segments_view_stride = Stride<5000, 5000, 5000, 5000, 1>;
        GlobalTensor<int32_t, segments_view_shape, segments_view_stride, Layout::ND> segments_view(
            segments + first, segments_view_shape(n), segments_view_stride());
        TLOAD(cells, segments_view);  // histogram_segment_max.py:59
        GlobalTensor<float, Shape<1, 1, 1, 1, 100>, Stride<100, 100, 100, 100, 1>, Layout::ND> out_view(out);
        MSCATTER<Coalesce::Elem, ScatterAtomicOp::Max, ScatterOOB::Skip>(out_view, numbers, cells);  // histogram_segment_max.py:60
    }
}
