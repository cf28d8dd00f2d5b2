// A5: the cube core writes a product into the UB of both vector cores, half of the rows to each; two slots.
#include "../kernels/cores.hpp"

#if defined(PTO_NPU_ARCH_A5)

constexpr int kSize = 32;
constexpr int kHalf = kSize / 2;
using Acc = TileAcc<float, kSize, kSize>;
using Both = VecTile<float, kSize, kSize>;
using Mine = VecTile<float, kHalf, kSize>;

__global__ AICORE void split(__gm__ float *out, __gm__ half *a, __gm__ half *b, int32_t tiles)
{
    if constexpr (kOnCube) {
        MatTile<half, kSize, kSize> one, other;
        TileLeft<half, kSize, kSize> left;
        TileRight<half, kSize, kSize> right;
        Acc acc;
        Both slot[2];
        TASSIGN(one, 0x0);
        TASSIGN(other, 0x1000);
        TASSIGN(left, 0x0);
        TASSIGN(right, 0x0);
        TASSIGN(acc, 0x0);
        TASSIGN(slot[0], 0x0);
        TASSIGN(slot[1], 0x1000);
        Matrix<half, kSize, kSize> bGlobal(b);
        TLOAD(other, bGlobal);
        for (int i = 0; i < tiles; ++i) {
            Matrix<half, kSize, kSize> aGlobal(a + i * kSize * kSize);
            TLOAD(one, aGlobal);
            Handshake<PIPE_MTE2, PIPE_MTE1>();
            TMOV(left, one);
            TMOV(right, other);
            Handshake<PIPE_MTE1, PIPE_M>();
            TMATMUL(acc, left, right);
            Handshake<PIPE_M, PIPE_FIX>();
            if (i >= 2) {
                WAIT_OF_CUBE(PIPE_FIX, 1);
            }
            TMOV<Both, Acc, AccToVecMode::DualModeSplitM>(slot[i % 2], acc);
            SET_OF_CUBE(PIPE_FIX, 0);
            pipe_barrier(PIPE_ALL);
        }
        WAIT_OF_CUBE(PIPE_FIX, 1);
        WAIT_OF_CUBE(PIPE_FIX, 1);
    }
    if constexpr (kOnVector) {
        Mine slot[2], sum;
        TASSIGN(slot[0], 0x0);
        TASSIGN(slot[1], 0x1000);
        TASSIGN(sum, 0x2000);
        const int mine = static_cast<int>(get_subblockid()) * kHalf * kSize;
        for (int i = 0; i < tiles; ++i) {
            Matrix<float, kHalf, kSize> outGlobal(out + i * kSize * kSize + mine);
            WAIT_OF_VECTOR(PIPE_V, 0);
            TADDS(sum, slot[i % 2], 1.0f);
            SET_OF_VECTOR(PIPE_V, 1);
            Handshake<PIPE_V, PIPE_MTE3>();
            TSTORE(outGlobal, sum);
            Handshake<PIPE_MTE3, PIPE_V>();
        }
    }
}

extern "C" void launch_split(float *out, half *a, half *b, int32_t tiles, void *stream)
{
    split<<<1, nullptr, stream>>>(out, a, b, tiles);
}

#endif
