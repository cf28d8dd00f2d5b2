// Small kernels, each about one family of the surface. They are compiled and run, and what they record is compared.
#include <pto/pto-inst.hpp>
#include <pto/common/constants.hpp>
#include "acl/acl.h"

using namespace pto;

template <typename T, int R, int C>
__global__ AICORE void add(__gm__ T __out__* out, __gm__ T __in__* a, __gm__ T __in__* b)
{
    using Global = GlobalTensor<T, Shape<1, 1, 1, R, C>, Stride<1, 1, 1, C, 1>>;
    using TileT = Tile<TileType::Vec, T, R, C, BLayout::RowMajor, -1, -1>;
    TileT x(R, C), y(R, C);
    TASSIGN(x, 0x0);
    TASSIGN(y, 0x1000);
    Global gx(a), gy(b), gout(out);
    Event<Op::TLOAD, Op::TADD> loaded;
    Event<Op::TADD, Op::TSTORE_VEC> added;
    TLOAD(x, gx);
    loaded = TLOAD(y, gy);
    added = TADD(x, x, y, loaded);
    TSTORE(gout, x, added);
}

template <typename T, int R, int C>
void LaunchAdd(T* out, T* a, T* b, void* stream)
{
    if constexpr (std::is_same_v<T, aclFloat16>)
        add<half, R, C><<<1, nullptr, stream>>>((half*)out, (half*)a, (half*)b);
    else
        add<T, R, C>
            <<<2, nullptr, stream>>>(out, a, b);
}
template void LaunchAdd<float, 8, 16>(float* out, float* a, float* b, void* stream);
template void LaunchAdd<aclFloat16, 16, 16>(aclFloat16* out, aclFloat16* a, aclFloat16* b, void* stream);

namespace inner {
AICORE inline void body(__gm__ int32_t* data, int n)
{
    using Row = Tile<TileType::Vec, int32_t, 1, 8>;
    Row row, part;
    TASSIGN<0x40>(row);
    TSUBVIEW(part, row, 0, 4);
    row.SetValue(3, n + (int)get_block_idx());
    TADDS(row, row, row.GetValue(3));
    TMULS(part, row, 2.0f);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
    wait_flag(PIPE_V, PIPE_MTE3, (event_t)(n - 1));
    pipe_barrier(PIPE_ALL);
    using Dynamic = GlobalTensor<int32_t, Shape<1, 1, 1, -1, -1>, Stride<1, 1, 1, -1, 1>, Layout::ND>;
    Dynamic global(data + 8, {1, n}, {8});
    TSTORE<Row, Dynamic, AtomicType::AtomicAdd>(global, row);
}
extern "C" __global__ AICORE void scalars(__gm__ int32_t* data, int n) { body(data, n); }
void launch_scalars(int32_t* data, int n, aclrtStream stream) { scalars<<<n, nullptr, stream>>>(data, n); }
} // namespace inner

extern "C" __global__ AICORE void values(__gm__ half* table, __gm__ half* out)
{
    Tile<TileType::Vec, half, 16, 16, BLayout::RowMajor, 16, 16, SLayout::NoneBox, 512, PadValue::Max> tile;
    Tile<TileType::Vec, int32_t, 1, 16> index;
    Tile<TileType::Vec, uint8_t, 16, 32> mask;
    TASSIGN(tile, 0);
    TASSIGN(index, 0x200);
    TASSIGN(mask, (uint64_t)(index.data() + 16));
    GlobalTensor<half, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>> g(table);
    MGATHER<Coalesce::Row, GatherOOB::Clamp>(tile, g, index);
    MSCATTER<Coalesce::Row, ScatterAtomicOp::Add>(g, tile, index);
    TCVT(index, index, RoundMode::CAST_FLOOR, SaturationMode::OFF);
    TCMPS(mask, tile, 0.5f, CmpMode::GE);
    TCI<decltype(index), int32_t, 1>(index, 3);
    TEXPANDS(tile, 1);
    TSYNC<Op::TLOAD>();
}

extern "C" __global__ AICORE void cube(__gm__ half* a, __gm__ float* c)
{
    Tile<TileType::Mat, half, 32, 32, BLayout::ColMajor, 32, 32, SLayout::RowMajor> l1;
    TileLeft<half, 32, 32> left;
    TileRight<half, 32, 32> right;
    TileAcc<float, 32, 32> acc;
    TASSIGN(l1, 0);
    TASSIGN(left, 0);
    TASSIGN(right, 0);
    TASSIGN(acc, 0);
    GlobalTensor<half, TileShape2D<half, 32, 32, Layout::NZ>, BaseShape2D<half, 32, 32, Layout::NZ>, Layout::NZ> g(a);
    GlobalTensor<float, TileShape2D<float, 32, 32>, BaseShape2D<float, -1, -1>> out(c, {}, {32, 32});
    TLOAD(l1, g);
    TMOV(left, l1);
    TEXTRACT(right, l1, 0, 0);
    TMATMUL<AccPhase::Final>(acc, left, right);
    TMATMUL_ACC(acc, acc, left, right);
    TSTORE<STPhase::Final, decltype(acc), decltype(out), AtomicType::AtomicNone>(out, acc);
}

extern "C" __global__ AICORE void arithmetic(__gm__ float* out)
{
    half h = 1.0f;
    h += 2048;                 // 2049 is not a half: the tie goes to 2048
    bfloat16_t b = 1.00390625; // a tie between 1 and 1.0078125
    const half product = half(0.1f) * half(3);
    Tile<TileType::Vec, half, 1, 16> t;
    TASSIGN(t, 0);
    TADDS(t, t, h);
    TADDS(t, t, (float)b);
    TADDS(t, t, product);
    TADDS(t, t, (half)float8_e4m3_t(300.0f) / half(2));
    TADDS(t, t, (float)hifloat8_t(3.0f) + (float)float8_e8m0_t(0.5f) + float4_e2m1x2_t(3.0f, -6.0f).high());
}
