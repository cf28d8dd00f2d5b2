// Elements of a tile in another order, and back: TGATHER, TSCATTER, and every second one.
#include "../kernels/common.hpp"

constexpr int kRows = 8;
constexpr int kCols = 64;
using Part = VecTile<float, kRows, kCols>;
using Index = VecTile<int32_t, kRows, kCols>;
using Half = VecTile<float, kRows, kCols / 2>;

__global__ AICORE void local(__gm__ float *out, __gm__ float *back, __gm__ float *even, __gm__ float *x, __gm__ int32_t *ids)
{
    Part a, b, c;
    Index index, tmp;
    Half d;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x800);
    TASSIGN(c, 0x1000);
    TASSIGN(index, 0x1800);
    TASSIGN(tmp, 0x2000);
    TASSIGN(d, 0x2800);
    Matrix<float, kRows, kCols> xGlobal(x), outGlobal(out), backGlobal(back);
    Matrix<float, kRows, kCols / 2> evenGlobal(even);
    Matrix<int32_t, kRows, kCols> idsGlobal(ids);
    TLOAD(a, xGlobal);
    TLOAD(index, idsGlobal);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TGATHER(b, a, index, tmp);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    pipe_barrier(PIPE_V);
    TMULS(b, b, 2.0f);
    pipe_barrier(PIPE_V);
    TSCATTER(c, b, index);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
    TGATHER<Half, Part, MaskPattern::P0101>(d, a);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID2);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
    TSTORE(backGlobal, c);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID2);
    TSTORE(evenGlobal, d);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(outGlobal, b);
}

extern "C" void launch_local(float *out, float *back, float *even, float *x, int32_t *ids, void *stream)
{
    local<<<1, nullptr, stream>>>(out, back, even, x, ids);
}
