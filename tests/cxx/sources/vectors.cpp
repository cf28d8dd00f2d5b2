// Kernels whose cube core does not wait for both vector cores, or waits in vain for the second.
#include "../kernels/common.hpp"

constexpr int kSize = 16;
constexpr int kHalf = kSize / 2;
using HalfGlobal = Matrix<half, kSize, kSize>;
using FloatGlobal = Matrix<float, kSize, kSize>;
template <typename T>
using Part = Matrix<T, kHalf, kSize>;
template <typename T>
using PartTile = VecTile<T, kHalf, kSize>;

#if defined(__DAV_CUBE__)
constexpr bool kOnCube = true;
#else
constexpr bool kOnCube = false;
#endif
#if defined(__DAV_VEC__)
constexpr bool kOnVector = true;
#else
constexpr bool kOnVector = false;
#endif

#if defined(PTO_NPU_ARCH_A5)
#define BEGIN_FLAGS(memory) (void)(memory)
#define SET_OF_VECTOR(pipe, id) set_intra_block(pipe, id)
#define WAIT_OF_VECTOR(pipe, id) wait_intra_block(pipe, id)
#define SET_OF_CUBE(pipe, id) set_intra_block(pipe, id), set_intra_block(pipe, id + 16)
#define WAIT_OF_CUBE(pipe, id) wait_intra_block(pipe, id), wait_intra_block(pipe, id + 16)
#else
#define BEGIN_FLAGS(memory) set_ffts_base_addr(reinterpret_cast<uint64_t>(memory))
#define SET_OF_VECTOR(pipe, id) ffts_cross_core_sync(pipe, getFFTSMsg(0x2, id))
#define WAIT_OF_VECTOR(pipe, id) wait_flag_dev(id)
#define SET_OF_CUBE(pipe, id) SET_OF_VECTOR(pipe, id)
#define WAIT_OF_CUBE(pipe, id) wait_flag_dev(id)
#endif

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

__global__ AICORE void one_sets(
    __gm__ uint64_t *flags, __gm__ float *out, __gm__ half *work, __gm__ half *a, __gm__ half *b)
{
    BEGIN_FLAGS(flags);
    if constexpr (kOnVector) {
        const int at = get_subblockid() * kHalf * kSize;
        DoubleRows(work + at, a + at);
        if (get_subblockid() == 0) {
            SET_OF_VECTOR(PIPE_MTE3, 0);
        }
    }
    if constexpr (kOnCube) {
        Cube cube;
        HalfGlobal workGlobal(work), bGlobal(b);
        FloatGlobal outGlobal(out);
        TLOAD(cube.other, bGlobal);
        WAIT_OF_CUBE(PIPE_MTE2, 0);  // fault: the second vector core does not set it
        TLOAD(cube.one, workGlobal);
        cube.Multiply();
        TSTORE(outGlobal, cube.product);
    }
}

extern "C" void launch_one_sets(uint64_t *flags, float *out, half *work, half *a, half *b, void *stream)
{
    one_sets<<<1, nullptr, stream>>>(flags, out, work, a, b);
}

#if defined(PTO_NPU_ARCH_A5)

__global__ AICORE void waits_for_one(__gm__ float *out, __gm__ half *work, __gm__ half *a, __gm__ half *b)
{
    if constexpr (kOnVector) {
        const int at = get_subblockid() * kHalf * kSize;
        DoubleRows(work + at, a + at);
        set_intra_block(PIPE_MTE3, 0);
    }
    if constexpr (kOnCube) {
        Cube cube;
        HalfGlobal workGlobal(work), bGlobal(b);
        FloatGlobal outGlobal(out);
        TLOAD(cube.other, bGlobal);
        wait_intra_block(PIPE_MTE2, 0);
        TLOAD(cube.one, workGlobal);  // fault: the flag of the second vector core has id 16
        cube.Multiply();
        TSTORE(outGlobal, cube.product);
    }
}

extern "C" void launch_waits_for_one(float *out, half *work, half *a, half *b, void *stream)
{
    waits_for_one<<<1, nullptr, stream>>>(out, work, a, b);
}

#endif
