// Kernels of both cores of a block: what one core orders does not order the other.
#include "cores.hpp"

constexpr int kSize = 16;
using HalfGlobal = Matrix<half, kSize, kSize>;
using FloatGlobal = Matrix<float, kSize, kSize>;

/// The product of two tiles, with barriers.
AICORE inline void ProductOf(__gm__ float *product, __gm__ half *a, __gm__ half *b)
{
    MatTile<half, kSize, kSize> one, other;
    TileLeft<half, kSize, kSize> left;
    TileRight<half, kSize, kSize> right;
    TileAcc<float, kSize, kSize> result;
    TASSIGN(one, 0x0);
    TASSIGN(other, 0x1000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(result, 0x0);
    HalfGlobal aGlobal(a), bGlobal(b);
    FloatGlobal productGlobal(product);
    TLOAD(one, aGlobal);
    TLOAD(other, bGlobal);
    pipe_barrier(PIPE_ALL);
    TMOV(left, one);
    TMOV(right, other);
    pipe_barrier(PIPE_ALL);
    TMATMUL(result, left, right);
    pipe_barrier(PIPE_ALL);
    TSTORE(productGlobal, result);
}

// --- Barriers of one core ------------------------------------------------------------------------------------

#if defined(PTO_NPU_ARCH_A5)

template <bool Ordered>
AICORE inline void Barriers(__gm__ float *out, __gm__ float *product, __gm__ half *a, __gm__ half *b, __gm__ float *x)
{
    if constexpr (kOnCube) {
        wait_intra_block(PIPE_S, 0);
        ProductOf(product, a, b);
        set_intra_block(PIPE_FIX, 1);
    }
    if constexpr (kOnVector) {
        if (get_subblockid() != 0) {
            return;
        }
        VecTile<float, kSize, kSize> v;
        TASSIGN(v, 0x0);
        FloatGlobal xGlobal(x), outGlobal(out);
        set_intra_block(PIPE_S, 0);
        TLOAD(v, xGlobal);
        wait_intra_block(PIPE_V, 1);
        if constexpr (Ordered) {
            Handshake<PIPE_MTE2, PIPE_V>();
        }
        TADDS(v, v, 1.0f);  // fault: the barriers of the cube core order nothing here
        Handshake<PIPE_V, PIPE_MTE3>();
        TSTORE(outGlobal, v);
    }
}

__global__ AICORE void own_barrier(
    __gm__ float *out, __gm__ float *product, __gm__ half *a, __gm__ half *b, __gm__ float *x)
{
    Barriers<true>(out, product, a, b, x);
}

extern "C" void launch_own_barrier(float *out, float *product, half *a, half *b, float *x, void *stream)
{
    own_barrier<<<1, nullptr, stream>>>(out, product, a, b, x);
}

__global__ AICORE void barrier_of_the_other(
    __gm__ float *out, __gm__ float *product, __gm__ half *a, __gm__ half *b, __gm__ float *x)
{
    Barriers<false>(out, product, a, b, x);
}

extern "C" void launch_barrier_of_the_other(float *out, float *product, half *a, half *b, float *x, void *stream)
{
    barrier_of_the_other<<<1, nullptr, stream>>>(out, product, a, b, x);
}

// --- A flag of one core between pipes that both have ---------------------------------------------------------

template <bool Ordered>
AICORE inline void Flags(__gm__ float *out, __gm__ float *product, __gm__ half *a, __gm__ half *b, __gm__ float *x)
{
    if constexpr (kOnCube) {
        wait_intra_block(PIPE_S, 0);
        Handshake<PIPE_MTE2, PIPE_S>();
        ProductOf(product, a, b);
        set_intra_block(PIPE_FIX, 1);
    }
    if constexpr (kOnVector) {
        if (get_subblockid() != 0) {
            return;
        }
        VecTile<float, kSize, kSize> v;
        TASSIGN(v, 0x0);
        FloatGlobal xGlobal(x), outGlobal(out);
        set_intra_block(PIPE_S, 0);
        TLOAD(v, xGlobal);
        wait_intra_block(PIPE_S, 1);
        if constexpr (Ordered) {
            Handshake<PIPE_MTE2, PIPE_S>();
        }
        v.SetValue(0, 7.0f);  // fault: the flag of the cube core orders nothing here
        Handshake<PIPE_S, PIPE_MTE3>();
        TSTORE(outGlobal, v);
    }
}

__global__ AICORE void own_flag(
    __gm__ float *out, __gm__ float *product, __gm__ half *a, __gm__ half *b, __gm__ float *x)
{
    Flags<true>(out, product, a, b, x);
}

extern "C" void launch_own_flag(float *out, float *product, half *a, half *b, float *x, void *stream)
{
    own_flag<<<1, nullptr, stream>>>(out, product, a, b, x);
}

__global__ AICORE void flag_of_the_other(
    __gm__ float *out, __gm__ float *product, __gm__ half *a, __gm__ half *b, __gm__ float *x)
{
    Flags<false>(out, product, a, b, x);
}

extern "C" void launch_flag_of_the_other(float *out, float *product, half *a, half *b, float *x, void *stream)
{
    flag_of_the_other<<<1, nullptr, stream>>>(out, product, a, b, x);
}

#endif

// --- A ring of slots: in global memory on A2/A3, in UB on A5 -------------------------------------------------

constexpr uint32_t kSlots = 2;
using Ring = TPipe<0, Direction::DIR_C2V, sizeof(float) * kSize * kSize, kSlots, kSlots, true>;

template <bool Ordered>
AICORE inline void Pushed(__gm__ float *out, __gm__ float *slots, __gm__ half *a, __gm__ half *b, int32_t trips)
{
    Ring ring((__gm__ void *)slots, 0x0, 0x0);
    if constexpr (kOnCube) {
        MatTile<half, kSize, kSize> one, other;
        TileLeft<half, kSize, kSize> left;
        TileRight<half, kSize, kSize> right;
        TileAcc<float, kSize, kSize> product;
        TASSIGN(one, 0x0);
        TASSIGN(other, 0x1000);
        TASSIGN(left, 0x0);
        TASSIGN(right, 0x0);
        TASSIGN(product, 0x0);
        for (int i = 0; i < trips; ++i) {
            HalfGlobal aGlobal(a + i * kSize * kSize), bGlobal(b);
            TLOAD(one, aGlobal);
            TLOAD(other, bGlobal);
            Handshake<PIPE_MTE2, PIPE_MTE1>();
            TMOV(left, one);
            TMOV(right, other);
            Handshake<PIPE_MTE1, PIPE_M>();
            TMATMUL(product, left, right);
            Handshake<PIPE_M, PIPE_FIX>();
            TPUSH<Ring, TileAcc<float, kSize, kSize>, TileSplitAxis::TILE_NO_SPLIT>(ring, product);
            pipe_barrier(PIPE_ALL);
        }
    }
    if constexpr (kOnVector) {
        // both vector cores have all of the product; each stores a half
        using RowsGlobal = GlobalTensor<float, Shape<1, 1, 1, kSize / 2, kSize>, Stride<1, 1, 1, kSize, 1>>;
        const int half = get_subblockid() * kSize / 2 * kSize;
        VecTile<float, kSize, kSize> popped, sum;
        VecTile<float, kSize / 2, kSize> part;
        TASSIGN(sum, 0x2000);
        TASSIGN(part, 0x2000 + half * sizeof(float));
        for (int i = 0; i < trips; ++i) {
            RowsGlobal outGlobal(out + i * kSize * kSize + half);
            TPOP<Ring, VecTile<float, kSize, kSize>, TileSplitAxis::TILE_NO_SPLIT>(ring, popped);
            if constexpr (Ordered) {
                Handshake<PIPE_MTE2, PIPE_V>();
            }
            TADDS(sum, popped, 1.0f);  // fault: the pop loads the tile, and nothing waits for that
            Handshake<PIPE_V, PIPE_MTE3>();
            TFREE<Ring, TileSplitAxis::TILE_NO_SPLIT>(ring);
            TSTORE(outGlobal, part);
            pipe_barrier(PIPE_ALL);
        }
    }
}

__global__ AICORE void pushed(__gm__ float *out, __gm__ float *slots, __gm__ half *a, __gm__ half *b, int32_t trips)
{
    Pushed<true>(out, slots, a, b, trips);
}

extern "C" void launch_pushed(float *out, float *slots, half *a, half *b, int32_t trips, void *stream)
{
    pushed<<<1, nullptr, stream>>>(out, slots, a, b, trips);
}

__global__ AICORE void pushed_not_awaited(
    __gm__ float *out, __gm__ float *slots, __gm__ half *a, __gm__ half *b, int32_t trips)
{
    Pushed<false>(out, slots, a, b, trips);
}

extern "C" void launch_pushed_not_awaited(float *out, float *slots, half *a, half *b, int32_t trips, void *stream)
{
    pushed_not_awaited<<<1, nullptr, stream>>>(out, slots, a, b, trips);
}

// --- Barriers of all blocks ----------------------------------------------------------------------------------

template <bool Met>
AICORE inline void FirstOfBlocks(__gm__ float *out, __gm__ float *work, __gm__ float *x)
{
    if constexpr (kOnCube) {
        return;
    }
    VecTile<float, kSize, kSize> v;
    TASSIGN(v, 0x0);
    const int own = get_block_idx() * kSize * kSize;
    FloatGlobal xGlobal(x + own), mine(work + own), first(work), outGlobal(out + own);
    TLOAD(v, xGlobal);
    pipe_barrier(PIPE_ALL);
    TSTORE(mine, v);
    pipe_barrier(PIPE_ALL);
    if constexpr (Met) {
        SYNCALL<SyncCoreType::AIVOnly>();  // fault: blocks are ordered, but run one after the other
    }
    TLOAD(v, first);  // fault: the first block may not have stored it yet
    pipe_barrier(PIPE_ALL);
    TSTORE(outGlobal, v);
}

__global__ AICORE void first_of_blocks(__gm__ float *out, __gm__ float *work, __gm__ float *x)
{
    FirstOfBlocks<true>(out, work, x);
}

extern "C" void launch_first_of_blocks(float *out, float *work, float *x, void *stream)
{
    first_of_blocks<<<2, nullptr, stream>>>(out, work, x);
}

__global__ AICORE void first_of_blocks_too_early(__gm__ float *out, __gm__ float *work, __gm__ float *x)
{
    FirstOfBlocks<false>(out, work, x);
}

extern "C" void launch_first_of_blocks_too_early(float *out, float *work, float *x, void *stream)
{
    first_of_blocks_too_early<<<2, nullptr, stream>>>(out, work, x);
}

// --- Tokens of buffers ---------------------------------------------------------------------------------------

template <int Loaded>
AICORE inline void Tokens(__gm__ float *out, __gm__ float *x, int32_t trips)
{
    if constexpr (kOnCube) {
        return;
    }
    VecTile<float, kSize, kSize> v;
    TASSIGN(v, 0x0);
    for (int i = 0; i < trips; ++i) {
        FloatGlobal xGlobal(x + i * kSize * kSize), outGlobal(out + i * kSize * kSize);
        get_buf(PIPE_MTE2, Loaded, 0);
        TLOAD(v, xGlobal);
        rls_buf(PIPE_MTE2, Loaded, 0);
        get_buf(PIPE_V, 0, 0);
        TADDS(v, v, 1.0f);  // fault: the load had the token of another buffer
        rls_buf(PIPE_V, 0, 0);
        get_buf(PIPE_MTE3, 0, 0);
        TSTORE(outGlobal, v);
        rls_buf(PIPE_MTE3, 0, 0);
    }
}

__global__ AICORE void tokens(__gm__ float *out, __gm__ float *x, int32_t trips)
{
    Tokens<0>(out, x, trips);
}

extern "C" void launch_tokens(float *out, float *x, int32_t trips, void *stream)
{
    tokens<<<1, nullptr, stream>>>(out, x, trips);
}

__global__ AICORE void tokens_of_two(__gm__ float *out, __gm__ float *x, int32_t trips)
{
    Tokens<1>(out, x, trips);
}

extern "C" void launch_tokens_of_two(float *out, float *x, int32_t trips, void *stream)
{
    tokens_of_two<<<1, nullptr, stream>>>(out, x, trips);
}
