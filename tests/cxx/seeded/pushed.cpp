// Products that the cube core pushes to both vector cores, half of the rows to each; they add a number and store them.
#include "../kernels/cores.hpp"

constexpr int kSize = 32;
constexpr int kHalf = kSize / 2;
constexpr uint32_t kSlots = 2;
using Ring = TPipe<0, Direction::DIR_C2V, sizeof(float) * kSize * kSize, kSlots>;
using Acc = TileAcc<float, kSize, kSize>;
using Half = VecTile<float, kHalf, kSize>;

__global__ AICORE void pushed(
    __gm__ uint64_t *flags, __gm__ float *out, __gm__ float *slots, __gm__ half *a, __gm__ half *b, int32_t tiles)
{
    BEGIN_FLAGS(flags);
    Ring ring((__gm__ void *)slots, 0x0, 0x0);
    if constexpr (kOnCube) {
        MatTile<half, kSize, kSize> one, other;
        TileLeft<half, kSize, kSize> left;
        TileRight<half, kSize, kSize> right;
        Acc acc;
        TASSIGN(one, 0x0);
        TASSIGN(other, 0x1000);
        TASSIGN(left, 0x0);
        TASSIGN(right, 0x0);
        TASSIGN(acc, 0x0);
        Matrix<half, kSize, kSize> bGlobal(b);
        TLOAD(other, bGlobal);
        Handshake<PIPE_MTE2, PIPE_MTE1>(EVENT_ID1);
        TMOV(right, other);
        for (int i = 0; i < tiles; ++i) {
            Matrix<half, kSize, kSize> aGlobal(a + i * kSize * kSize);
            TLOAD(one, aGlobal);
            Handshake<PIPE_MTE2, PIPE_MTE1>();
            TMOV(left, one);
            Handshake<PIPE_MTE1, PIPE_MTE2>();
            Handshake<PIPE_MTE1, PIPE_M>();
            TMATMUL(acc, left, right);
            Handshake<PIPE_M, PIPE_MTE1>();
            Handshake<PIPE_M, PIPE_FIX>();
            TPUSH<Ring, Acc, TileSplitAxis::TILE_UP_DOWN>(ring, acc);
            Handshake<PIPE_FIX, PIPE_M>();
        }
    }
    if constexpr (kOnVector) {
        Half popped, sum;
        TASSIGN(sum, 0x4000);
        const int mine = static_cast<int>(get_subblockid()) * kHalf * kSize;
        for (int i = 0; i < tiles; ++i) {
            Matrix<float, kHalf, kSize> outGlobal(out + i * kSize * kSize + mine);
            TPOP<Ring, Half, TileSplitAxis::TILE_UP_DOWN>(ring, popped);
            Handshake<PIPE_MTE2, PIPE_V>();
            TADDS(sum, popped, 1.0f);
            Handshake<PIPE_V, PIPE_MTE2>();
            TFREE<Ring, TileSplitAxis::TILE_UP_DOWN>(ring);
            Handshake<PIPE_V, PIPE_MTE3>();
            TSTORE(outGlobal, sum);
            Handshake<PIPE_MTE3, PIPE_V>();
        }
    }
}

extern "C" void launch_pushed(
    uint64_t *flags, float *out, float *slots, half *a, half *b, int32_t tiles, void *stream)
{
    pushed<<<1, nullptr, stream>>>(flags, out, slots, a, b, tiles);
}
