// Conversions to float8_e4m3 with an exponent for each 32 elements of a row.
#include <pto/pto-inst.hpp>
using namespace pto;
template <typename T, QuantScaleAlg ALG, int ROWS = 1, int R = 4, int C = 256>
AICORE inline void quantised(__gm__ float8_e4m3_t *out, __gm__ uint8_t *powers, __gm__ T *x)
{
    constexpr int G = R * C / 32 / ROWS, P = ROWS == 1 ? G : 32;
    Tile<TileType::Vec, T, R, C> src;
    Tile<TileType::Vec, float8_e4m3_t, R, C> dst;
    Tile<TileType::Vec, uint8_t, ROWS, P, BLayout::RowMajor, ROWS, G> exp;
    Tile<TileType::Vec, T, 1, R * C / 32> max, scaling;
    TASSIGN(src, 0);
    TASSIGN(dst, 0x8000);
    TASSIGN(exp, 0xc000);
    TASSIGN(max, 0xd000);
    TASSIGN(scaling, 0xe000);
    GlobalTensor<T, Shape<1, 1, 1, R, C>, Stride<R * C, R * C, R * C, C, 1>> from(x);
    GlobalTensor<float8_e4m3_t, Shape<1, 1, 1, R, C>, Stride<R * C, R * C, R * C, C, 1>> to(out);
    GlobalTensor<uint8_t, Shape<1, 1, 1, ROWS, G>, Stride<R * G, R * G, R * G, G, 1>> exponents(powers);
    TLOAD(src, from);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TQUANT<QuantType::MXFP8, decltype(dst), decltype(src), decltype(exp), decltype(max), decltype(scaling), ALG>(
        dst, src, &exp, &max, &scaling);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(to, dst);
    TSTORE(exponents, exp);
}
#define QUANTISED(NAME, T, ...)                                                                              \
    extern "C" __global__ AICORE void NAME(__gm__ float8_e4m3_t *out, __gm__ uint8_t *powers, __gm__ T *x)   \
    {                                                                                                        \
        quantised<T, __VA_ARGS__>(out, powers, x);                                                           \
    }
QUANTISED(ocp, float, QuantScaleAlg::OCP)
QUANTISED(nv, float, QuantScaleAlg::NV)
QUANTISED(by_rows, float, QuantScaleAlg::OCP, 4)
QUANTISED(brain, bfloat16_t, QuantScaleAlg::OCP)
QUANTISED(halves, half, QuantScaleAlg::OCP)
