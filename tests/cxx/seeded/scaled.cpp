// Tiles of rows are scaled by both vector cores and multiplied by the cube core: a ring of two slots in memory.
#include "../kernels/cores.hpp"

constexpr int kSize = 32;
constexpr int kHalf = kSize / 2;
constexpr int kTile = kSize * kSize;

__global__ AICORE void scaled(
    __gm__ uint64_t *flags, __gm__ float *out, __gm__ half *work, __gm__ half *a, __gm__ half *b, int32_t tiles)
{
    BEGIN_FLAGS(flags);
    const int block = static_cast<int>(get_block_idx());
    work += block * 2 * kTile;
    a += block * tiles * kTile;
    out += block * tiles * kTile;
    if constexpr (kOnVector) {
        VecTile<half, kHalf, kSize> part[2];
        TASSIGN(part[0], 0x0);
        TASSIGN(part[1], 0x400);
        const int mine = static_cast<int>(get_subblockid()) * kHalf * kSize;
        set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
        for (int i = 0; i < tiles; ++i) {
            const event_t id = static_cast<event_t>(i % 2);
            Matrix<half, kHalf, kSize> from(a + i * kTile + mine), to(work + i % 2 * kTile + mine);
            wait_flag(PIPE_MTE3, PIPE_MTE2, id);
            TLOAD(part[i % 2], from);
            set_flag(PIPE_MTE2, PIPE_V, id);
            wait_flag(PIPE_MTE2, PIPE_V, id);
            TMULS(part[i % 2], part[i % 2], (half)2.0f);
            set_flag(PIPE_V, PIPE_MTE3, id);
            wait_flag(PIPE_V, PIPE_MTE3, id);
            if (i >= 2) {
                WAIT_OF_VECTOR(PIPE_MTE3, 1);
            }
            TSTORE(to, part[i % 2]);
            SET_OF_VECTOR(PIPE_MTE3, 0);
            set_flag(PIPE_MTE3, PIPE_MTE2, id);
        }
        wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
        WAIT_OF_VECTOR(PIPE_MTE3, 1);
        WAIT_OF_VECTOR(PIPE_MTE3, 1);
    }
    if constexpr (kOnCube) {
        MatTile<half, kSize, kSize> one, other;
        TileLeft<half, kSize, kSize> left;
        TileRight<half, kSize, kSize> right;
        TileAcc<float, kSize, kSize> acc;
        TASSIGN(one, 0x0);
        TASSIGN(other, 0x1000);
        TASSIGN(left, 0x0);
        TASSIGN(right, 0x0);
        TASSIGN(acc, 0x0);
        Matrix<half, kSize, kSize> bGlobal(b);
        TLOAD(other, bGlobal);
        Handshake<PIPE_MTE2, PIPE_MTE1>();
        TMOV(right, other);
        for (int i = 0; i < tiles; ++i) {
            Matrix<half, kSize, kSize> workGlobal(work + i % 2 * kTile);
            Matrix<float, kSize, kSize> outGlobal(out + i * kTile);
            WAIT_OF_CUBE(PIPE_MTE2, 0);
            TLOAD(one, workGlobal);
            SET_OF_CUBE(PIPE_MTE2, 1);
            Handshake<PIPE_MTE2, PIPE_MTE1>();
            TMOV(left, one);
            Handshake<PIPE_MTE1, PIPE_M>();
            TMATMUL(acc, left, right);
            Handshake<PIPE_M, PIPE_FIX>();
            TSTORE(outGlobal, acc);
            Handshake<PIPE_FIX, PIPE_M>();
            Handshake<PIPE_M, PIPE_MTE1>();
            Handshake<PIPE_MTE1, PIPE_MTE2>();
        }
    }
}

extern "C" void launch_scaled(
    uint64_t *flags, float *out, half *work, half *a, half *b, int32_t tiles, void *stream)
{
    scaled<<<2, nullptr, stream>>>(flags, out, work, a, b, tiles);
}
