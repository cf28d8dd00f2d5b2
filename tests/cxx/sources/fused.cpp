// Instructions of one call each, in the style of the vendor's tests.
#include <pto/pto-inst.hpp>
using namespace pto;

template <typename T, int R, int C>
using Data = GlobalTensor<T, Shape<1, 1, 1, R, C>, Stride<1, 1, 1, C, 1>>;

template <typename T, int R, int C>
struct Block {
    Tile<TileType::Vec, T, R, C> tile;
    Data<T, R, C> data;
    AICORE Block(__gm__ T *at, int address) : data(at) { TASSIGN(tile, address); }
    AICORE void load() { TLOAD(tile, data); }
    AICORE void store() { TSTORE(data, tile); }
};

AICORE inline void loaded()
{
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
}

AICORE inline void computed()
{
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
}

#define ON_THREE(NAME)                                                                                  \
    extern "C" __global__ AICORE void NAME(__gm__ float *out, __gm__ float *x, __gm__ float *y)         \
    {                                                                                                   \
        Block<float, 4, 16> dst(out, 0), a(x, 0x1000), b(y, 0x2000);                                    \
        dst.load();                                                                                     \
        a.load();                                                                                       \
        b.load();                                                                                       \
        loaded();                                                                                       \
        NAME##_(dst.tile, a.tile, b.tile);                                                              \
        computed();                                                                                     \
        dst.store();                                                                                    \
    }
#define added_ TMULADDDST
#define fused_ TFUSEDMULADD
#define rectified_ TFUSEDMULADDRELU
#define subtracted_ TSUBRELU
ON_THREE(added)
ON_THREE(fused)
ON_THREE(rectified)
ON_THREE(subtracted)

extern "C" __global__ AICORE void three(__gm__ float *out, __gm__ float *x, __gm__ float *y)
{
    Block<float, 4, 16> c(out, 0), a(x, 0x1000), b(y, 0x2000);
    c.load();
    a.load();
    b.load();
    loaded();
    TADDC(a.tile, a.tile, b.tile, c.tile);
    TSUBSC(c.tile, a.tile, 0.5f, b.tile);
    computed();
    c.store();
}

#define IN_TURN(NAME, CALL)                                                                                        \
    extern "C" __global__ AICORE void NAME(__gm__ float *first, __gm__ float *second, __gm__ float *x, __gm__ float *y) \
    {                                                                                                              \
        Block<float, 4, 16> d0(first, 0), d1(second, 0x1000), a(x, 0x2000), b(y, 0x3000);                          \
        a.load();                                                                                                  \
        b.load();                                                                                                  \
        loaded();                                                                                                  \
        CALL(d1.tile, d0.tile, b.tile, a.tile);                                                                    \
        computed();                                                                                                \
        d0.store();                                                                                                \
        d1.store();                                                                                                \
    }
IN_TURN(in_turn, TINTERLEAVE)
IN_TURN(apart, TDEINTERLEAVE)

extern "C" __global__ AICORE void converted(__gm__ half *out, __gm__ float *x, __gm__ float *y)
{
    Block<half, 4, 16> dst(out, 0);
    Block<float, 4, 16> a(x, 0x1000), b(y, 0x2000);
    a.load();
    b.load();
    loaded();
    TADDRELUCONV(dst.tile, a.tile, b.tile);
    computed();
    dst.store();
}

extern "C" __global__ AICORE void scaled(__gm__ half *out, __gm__ int32_t *x, __gm__ int32_t *y)
{
    Block<half, 4, 16> dst(out, 0);
    Block<int32_t, 4, 16> a(x, 0x1000), b(y, 0x2000), tmp(y, 0x3000);
    a.load();
    b.load();
    loaded();
    TADDDEQRELU(dst.tile, a.tile, b.tile, 0.25f, tmp.tile);
    computed();
    dst.store();
}

extern "C" __global__ AICORE void best(
    __gm__ float *out, __gm__ int32_t *place, __gm__ float *x, __gm__ float *y, __gm__ int32_t *i, __gm__ int32_t *j)
{
    Block<float, 4, 16> dst(out, 0), a(x, 0x1000);
    Block<float, 2, 16> b(y, 0x2000);
    Block<int32_t, 4, 16> at(place, 0x3000), p(i, 0x4000);
    Block<int32_t, 2, 16> q(j, 0x5000);
    a.load();
    b.load();
    p.load();
    q.load();
    loaded();
    TPARTARGMAX(dst.tile, a.tile, b.tile, at.tile, p.tile, q.tile);
    computed();
    dst.store();
    at.store();
}

extern "C" __global__ AICORE void blocks(__gm__ float *out, __gm__ float *x, __gm__ uint32_t *offsets)
{
    Block<float, 4, 16> dst(out, 0), a(x, 0x1000);
    Tile<TileType::Vec, uint32_t, 4, 8, BLayout::RowMajor, 4, 2> each;
    TASSIGN(each, 0x2000);
    Data<uint32_t, 4, 2> table(offsets);
    a.load();
    TLOAD(each, table);
    loaded();
    TGATHERB(dst.tile, a.tile, each);
    computed();
    dst.store();
}

extern "C" __global__ AICORE void counted(__gm__ uint32_t *out, __gm__ uint16_t *x, __gm__ uint8_t *above)
{
#ifdef PTO_NPU_ARCH_A5
    Block<uint32_t, 2, 256> dst(out, 0);
    Block<uint16_t, 2, 64> a(x, 0x1000);
    using Column = Tile<TileType::Vec, uint8_t, 32, 1, BLayout::ColMajor, 2, 1>;
    Column filter;
    TASSIGN(filter, 0x2000);
    GlobalTensor<uint8_t, Shape<1, 1, 1, 2, 1>, Stride<1, 1, 1, 1, 1>, Layout::DN> column(above);
    a.load();
    TLOAD(filter, column);
    loaded();
    THISTOGRAM<HistByte::BYTE_0>(dst.tile, a.tile, filter);
    computed();
    dst.store();
#endif
}
