// The largest 32 of 256 numbers of each row and their places: blocks of 32 are sorted, then merged.
#include "../kernels/common.hpp"

constexpr int kCols = 256;
constexpr int kTop = 32;
using Values = VecTile<float, 1, kCols>;
using Places = VecTile<uint32_t, 1, kCols>;
using Pairs = VecTile<float, 1, 2 * kCols>;
using FirstPairs = VecTile<float, 1, 2 * kCols, 1, 2 * kTop>;
using TopPairs = VecTile<float, 1, 2 * kTop>;
using Top = VecTile<float, 1, kTop>;
using TopPlaces = VecTile<uint32_t, 1, kTop>;
using PlacePairs = VecTile<uint32_t, 1, 2 * kTop>;

__global__ AICORE void topk(
    __gm__ float *out, __gm__ uint32_t *places, __gm__ float *x, __gm__ uint32_t *numbers)
{
    Values values;
    Places index;
    Pairs sorted, merged, all;
    VecTile<float, 1, kCols> low, high;
    VecTile<float, 1, 2 * kCols> work;
    TopPairs first;
    PlacePairs firstPlaces;
    Top top;
    TopPlaces topPlaces;
    TASSIGN(values, 0x0);
    TASSIGN(index, 0x400);
    TASSIGN(sorted, 0x800);
    TASSIGN(merged, 0x1000);
    TASSIGN(low, 0x1000);
    TASSIGN(high, 0x1400);
    TASSIGN(all, 0x1800);
    TASSIGN(work, 0x2000);
    TASSIGN(first, 0x1800);
    TASSIGN(firstPlaces, 0x1800);
    TASSIGN(top, 0x2800);
    TASSIGN(topPlaces, 0x2880);
    const int row = static_cast<int>(get_block_idx());
    Matrix<float, 1, kCols> xGlobal(x + row * kCols);
    Matrix<uint32_t, 1, kCols> numbersGlobal(numbers);
    Matrix<float, 1, kTop> outGlobal(out + row * kTop);
    Matrix<uint32_t, 1, kTop> placesGlobal(places + row * kTop);
    TLOAD(values, xGlobal);
    TLOAD(index, numbersGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TSORT32(sorted, values, index);
    pipe_barrier(PIPE_V);
    TMRGSORT(merged, sorted, 64);
    pipe_barrier(PIPE_V);
    MrgSortExecutedNumList executed;
    TMRGSORT<Pairs, Pairs, Values, Values, false>(all, executed, work, low, high);
    pipe_barrier(PIPE_V);
    TGATHER<Top, TopPairs, MaskPattern::P0101>(top, first);
    TGATHER<TopPlaces, PlacePairs, MaskPattern::P1010>(topPlaces, firstPlaces);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, top);
    TSTORE(placesGlobal, topPlaces);
}

extern "C" void launch_topk(float *out, uint32_t *places, float *x, uint32_t *numbers, void *stream)
{
    topk<<<2, nullptr, stream>>>(out, places, x, numbers);
}
