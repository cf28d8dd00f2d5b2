// Kernels that both vector cores of a block run, with a cube core or alone.
#include "cores.hpp"

constexpr int kSize = 16;
constexpr int kHalf = kSize / 2;
using HalfGlobal = Matrix<half, kSize, kSize>;
using FloatGlobal = Matrix<float, kSize, kSize>;
template <typename T>
using Part = Matrix<T, kHalf, kSize>;
template <typename T>
using PartTile = VecTile<T, kHalf, kSize>;

/// The tiles of the cube core, and a product.
struct Cube {
    MatTile<half, kSize, kSize> one, other;
    TileLeft<half, kSize, kSize> left;
    TileRight<half, kSize, kSize> right;
    TileAcc<float, kSize, kSize> product;

    AICORE inline Cube()
    {
        TASSIGN(one, 0x0);
        TASSIGN(other, 0x1000);
        TASSIGN(left, 0x0);
        TASSIGN(right, 0x0);
        TASSIGN(product, 0x0);
    }

    AICORE inline void Multiply()
    {
        Handshake<PIPE_MTE2, PIPE_MTE1>();
        TMOV(left, one);
        TMOV(right, other);
        Handshake<PIPE_MTE1, PIPE_M>();
        TMATMUL(product, left, right);
        Handshake<PIPE_M, PIPE_FIX>();
    }
};

/// Adds a number to the rows of one vector core.
AICORE inline void AddToRows(__gm__ float *out, __gm__ float *x)
{
    PartTile<float> v;
    TASSIGN(v, 0x0);
    Part<float> from(x), to(out);
    TLOAD(v, from);
    Handshake<PIPE_MTE2, PIPE_V>();
    TADDS(v, v, 1.0f);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(to, v);
}

// --- Vector cores alone --------------------------------------------------------------------------------------

__global__ AICORE void halves(__gm__ float *out, __gm__ float *x)
{
    if constexpr (kOnVector) {
        const int at = (get_block_idx() * 2 + get_subblockid()) * kHalf * kSize;
        AddToRows(out + at, x + at);
    }
}

extern "C" void launch_halves(float *out, float *x, void *stream)
{
    halves<<<2, nullptr, stream>>>(out, x);
}

__global__ AICORE void halves_overlap(__gm__ float *out, __gm__ float *x)
{
    if constexpr (kOnVector) {
        PartTile<float> v;
        TASSIGN(v, 0x0);
        const int at = get_subblockid() * (kHalf - 1) * kSize;
        Part<float> from(x + at), to(out + at);
        TLOAD(v, from);
        Handshake<PIPE_MTE2, PIPE_MTE3>();
        TSTORE(to, v);  // fault: row 7 is written by both
    }
}

extern "C" void launch_halves_overlap(float *out, float *x, void *stream)
{
    halves_overlap<<<1, nullptr, stream>>>(out, x);
}

__global__ AICORE void halves_no_flag(__gm__ float *out, __gm__ float *x)
{
    if constexpr (kOnVector) {
        PartTile<float> v;
        TASSIGN(v, 0x0);
        const int at = get_subblockid() * kHalf * kSize;
        Part<float> from(x + at), to(out + at);
        TLOAD(v, from);
        if (get_subblockid() == 0) {
            Handshake<PIPE_MTE2, PIPE_MTE3>();
        }
        TSTORE(to, v);  // fault: the second vector core does not wait for its load
    }
}

extern "C" void launch_halves_no_flag(float *out, float *x, void *stream)
{
    halves_no_flag<<<1, nullptr, stream>>>(out, x);
}

// --- From the cube core to both ------------------------------------------------------------------------------

__global__ AICORE void product_to_both(
    __gm__ uint64_t *flags, __gm__ float *out, __gm__ float *work, __gm__ half *a, __gm__ half *b)
{
    BEGIN_FLAGS(flags);
    if constexpr (kOnCube) {
        Cube cube;
        HalfGlobal aGlobal(a), bGlobal(b);
        FloatGlobal workGlobal(work);
        TLOAD(cube.one, aGlobal);
        TLOAD(cube.other, bGlobal);
        cube.Multiply();
        TSTORE(workGlobal, cube.product);
        SET_OF_CUBE(PIPE_FIX, 0);
    }
    if constexpr (kOnVector) {
        WAIT_OF_VECTOR(PIPE_MTE2, 0);
        const int at = get_subblockid() * kHalf * kSize;
        AddToRows(out + at, work + at);
    }
}

extern "C" void launch_product_to_both(uint64_t *flags, float *out, float *work, half *a, half *b, void *stream)
{
    product_to_both<<<1, nullptr, stream>>>(flags, out, work, a, b);
}

__global__ AICORE void product_to_both_same_rows(
    __gm__ uint64_t *flags, __gm__ float *out, __gm__ float *work, __gm__ half *a, __gm__ half *b)
{
    BEGIN_FLAGS(flags);
    if constexpr (kOnCube) {
        Cube cube;
        HalfGlobal aGlobal(a), bGlobal(b);
        FloatGlobal workGlobal(work);
        TLOAD(cube.one, aGlobal);
        TLOAD(cube.other, bGlobal);
        cube.Multiply();
        TSTORE(workGlobal, cube.product);
        SET_OF_CUBE(PIPE_FIX, 0);
    }
    if constexpr (kOnVector) {
        PartTile<float> v;
        TASSIGN(v, 0x0);
        Part<float> from(work), to(out);
        WAIT_OF_VECTOR(PIPE_MTE2, 0);
        TLOAD(v, from);
        Handshake<PIPE_MTE2, PIPE_MTE3>();
        TSTORE(to, v);  // fault: both vector cores write these rows
    }
}

extern "C" void launch_product_to_both_same_rows(
    uint64_t *flags, float *out, float *work, half *a, half *b, void *stream)
{
    product_to_both_same_rows<<<1, nullptr, stream>>>(flags, out, work, a, b);
}

// --- From both to the cube core ------------------------------------------------------------------------------

/// Stores the double of the rows of one vector core.
AICORE inline void DoubleRows(__gm__ half *to, __gm__ half *from)
{
    PartTile<half> v;
    TASSIGN(v, 0x0);
    Part<half> fromGlobal(from), toGlobal(to);
    TLOAD(v, fromGlobal);
    Handshake<PIPE_MTE2, PIPE_V>();
    TADD(v, v, v);
    Handshake<PIPE_V, PIPE_MTE3>();
    TSTORE(toGlobal, v);
}

__global__ AICORE void both_to_product(
    __gm__ uint64_t *flags, __gm__ float *out, __gm__ half *work, __gm__ half *a, __gm__ half *b)
{
    BEGIN_FLAGS(flags);
    if constexpr (kOnVector) {
        const int at = get_subblockid() * kHalf * kSize;
        DoubleRows(work + at, a + at);
        SET_OF_VECTOR(PIPE_MTE3, 0);
    }
    if constexpr (kOnCube) {
        Cube cube;
        HalfGlobal workGlobal(work), bGlobal(b);
        FloatGlobal outGlobal(out);
        TLOAD(cube.other, bGlobal);
        WAIT_OF_CUBE(PIPE_MTE2, 0);
        TLOAD(cube.one, workGlobal);
        cube.Multiply();
        TSTORE(outGlobal, cube.product);
    }
}

extern "C" void launch_both_to_product(uint64_t *flags, float *out, half *work, half *a, half *b, void *stream)
{
    both_to_product<<<1, nullptr, stream>>>(flags, out, work, a, b);
}
