// Matrix products: L1, L0 and the accumulator, slices of the inner dimension, ping-pong buffers.
#include "common.hpp"

constexpr int kM = 32;
constexpr int kK = 64;
constexpr int kN = 48;
using AGlobal = Matrix<half, kM, kK>;
using BGlobal = Matrix<half, kK, kN>;
using CGlobal = Matrix<float, kM, kN>;
using AMat = MatTile<half, kM, kK>;
using BMat = MatTile<half, kK, kN>;
using ALeft = TileLeft<half, kM, kK>;
using BRight = TileRight<half, kK, kN>;
using CAcc = TileAcc<float, kM, kN>;

// --- One product ---------------------------------------------------------------------------------------------

__global__ AICORE void matmul(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    AMat aMat;
    BMat bMat;
    ALeft left;
    BRight right;
    CAcc acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(acc, 0x0);
    AGlobal aGlobal(a);
    BGlobal bGlobal(b);
    CGlobal outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    TMOV(left, aMat);
    TMOV(right, bMat);
    set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    TMATMUL(acc, left, right);
    set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
    wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
    TSTORE(outGlobal, acc);
}

extern "C" void launch_matmul(float *out, half *a, half *b, void *stream)
{
    matmul<<<1, nullptr, stream>>>(out, a, b);
}

__global__ AICORE void matmul_no_l1_flag(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    AMat aMat;
    BMat bMat;
    ALeft left;
    BRight right;
    CAcc acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(acc, 0x0);
    AGlobal aGlobal(a);
    BGlobal bGlobal(b);
    CGlobal outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    TMOV(left, aMat);  // fault: MTE2 to MTE1 is missing
    TMOV(right, bMat);
    Handshake<PIPE_MTE1, PIPE_M>();
    TMATMUL(acc, left, right);
    Handshake<PIPE_M, PIPE_FIX>();
    TSTORE(outGlobal, acc);
}

extern "C" void launch_matmul_no_l1_flag(float *out, half *a, half *b, void *stream)
{
    matmul_no_l1_flag<<<1, nullptr, stream>>>(out, a, b);
}

__global__ AICORE void matmul_no_l0_flag(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    AMat aMat;
    BMat bMat;
    ALeft left;
    BRight right;
    CAcc acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(acc, 0x0);
    AGlobal aGlobal(a);
    BGlobal bGlobal(b);
    CGlobal outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    TMOV(left, aMat);
    TMOV(right, bMat);
    TMATMUL(acc, left, right);  // fault: MTE1 to M is missing
    set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
    wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
    TSTORE(outGlobal, acc);
}

extern "C" void launch_matmul_no_l0_flag(float *out, half *a, half *b, void *stream)
{
    matmul_no_l0_flag<<<1, nullptr, stream>>>(out, a, b);
}

__global__ AICORE void matmul_wrong_pipe(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    AMat aMat;
    BMat bMat;
    ALeft left;
    BRight right;
    CAcc acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(acc, 0x0);
    AGlobal aGlobal(a);
    BGlobal bGlobal(b);
    CGlobal outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    TMOV(left, aMat);
    TMOV(right, bMat);
    set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    TMATMUL(acc, left, right);
    set_flag(PIPE_MTE1, PIPE_FIX, EVENT_ID0);
    wait_flag(PIPE_MTE1, PIPE_FIX, EVENT_ID0);
    TSTORE(outGlobal, acc);  // fault: the flag is MTE1 to FIX instead of M to FIX
}

extern "C" void launch_matmul_wrong_pipe(float *out, half *a, half *b, void *stream)
{
    matmul_wrong_pipe<<<1, nullptr, stream>>>(out, a, b);
}

__global__ AICORE void matmul_ragged(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    MatTile<half, 32, 64, 27, 50> aMat;
    MatTile<half, 64, 48, 50, 40> bMat;
    TileLeft<half, 32, 64, 27, 50> left;
    TileRight<half, 64, 48, 50, 40> right;
    TileAcc<float, 32, 48, 27, 40> acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(acc, 0x0);
    Matrix<half, 27, 50> aGlobal(a);
    Matrix<half, 50, 40> bGlobal(b);
    Matrix<float, 27, 40> outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE1>();
    TMOV(left, aMat);
    TMOV(right, bMat);
    Handshake<PIPE_MTE1, PIPE_M>();
    TMATMUL(acc, left, right);
    Handshake<PIPE_M, PIPE_FIX>();
    TSTORE(outGlobal, acc);
}

extern "C" void launch_matmul_ragged(float *out, half *a, half *b, void *stream)
{
    matmul_ragged<<<1, nullptr, stream>>>(out, a, b);
}

__global__ AICORE void matmul_inner_differs(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    AMat aMat;
    MatTile<half, 32, kN> bMat;
    ALeft left;
    TileRight<half, 32, kN> right;
    CAcc acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(acc, 0x0);
    AGlobal aGlobal(a);
    Matrix<half, 32, kN> bGlobal(b);
    CGlobal outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE1>();
    TMOV(left, aMat);
    TMOV(right, bMat);
    Handshake<PIPE_MTE1, PIPE_M>();
    TMATMUL(acc, left, right);  // fault: 64 columns times 32 rows
    Handshake<PIPE_M, PIPE_FIX>();
    TSTORE(outGlobal, acc);
}

extern "C" void launch_matmul_inner_differs(float *out, half *a, half *b, void *stream)
{
    matmul_inner_differs<<<1, nullptr, stream>>>(out, a, b);
}

__global__ AICORE void matmul_half_sum(__gm__ half *out, __gm__ half *a, __gm__ half *b)
{
    AMat aMat;
    BMat bMat;
    ALeft left;
    BRight right;
    TileAcc<half, kM, kN> acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(acc, 0x0);
    AGlobal aGlobal(a);
    BGlobal bGlobal(b);
    Matrix<half, kM, kN> outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE1>();
    TMOV(left, aMat);
    TMOV(right, bMat);
    Handshake<PIPE_MTE1, PIPE_M>();
    TMATMUL(acc, left, right);  // fault: the accumulator has no half
    Handshake<PIPE_M, PIPE_FIX>();
    TSTORE(outGlobal, acc);
}

extern "C" void launch_matmul_half_sum(half *out, half *a, half *b, void *stream)
{
    matmul_half_sum<<<1, nullptr, stream>>>(out, a, b);
}

__global__ AICORE void matmul_l0_full(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    AMat aMat;
    BMat bMat;
    ALeft left;
    BRight right;
    CAcc acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0xF800);  // fault: L0A has 64 KB, the tile ends 2 KB behind them
    TASSIGN(right, 0x0);
    TASSIGN(acc, 0x0);
    AGlobal aGlobal(a);
    BGlobal bGlobal(b);
    CGlobal outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE1>();
    TMOV(left, aMat);
    TMOV(right, bMat);
    Handshake<PIPE_MTE1, PIPE_M>();
    TMATMUL(acc, left, right);
    Handshake<PIPE_M, PIPE_FIX>();
    TSTORE(outGlobal, acc);
}

extern "C" void launch_matmul_l0_full(float *out, half *a, half *b, void *stream)
{
    matmul_l0_full<<<1, nullptr, stream>>>(out, a, b);
}

// --- Slices of the inner dimension ---------------------------------------------------------------------------

constexpr int kInner = 256;
constexpr int kSlice = 64;
using WideA = MatTile<half, kM, kInner>;
using WideB = MatTile<half, kInner, kN>;
using SliceLeft = TileLeft<half, kM, kSlice>;
using SliceRight = TileRight<half, kSlice, kN>;

template <typename Acc, typename Left, typename Right>
AICORE inline void Accumulate(Acc &acc, Left &left, Right &right, int slice)
{
    if (slice == 0) {
        TMATMUL(acc, left, right);
    } else {
        TMATMUL_ACC(acc, acc, left, right);
    }
}

__global__ AICORE void matmul_slices(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    WideA aMat;
    WideB bMat;
    SliceLeft left[2];
    SliceRight right[2];
    CAcc acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    for (int k = 0; k < 2; ++k) {
        TASSIGN(left[k], k * 0x8000);
        TASSIGN(right[k], k * 0x8000);
    }
    TASSIGN(acc, 0x0);
    Matrix<half, kM, kInner> aGlobal(a);
    Matrix<half, kInner, kN> bGlobal(b);
    CGlobal outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE1>();
    set_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
    set_flag(PIPE_M, PIPE_MTE1, EVENT_ID1);
    for (int i = 0; i < kInner / kSlice; ++i) {
        const event_t id = static_cast<event_t>(i % 2);
        wait_flag(PIPE_M, PIPE_MTE1, id);
        TEXTRACT(left[i % 2], aMat, 0, i * kSlice);
        TEXTRACT(right[i % 2], bMat, i * kSlice, 0);
        set_flag(PIPE_MTE1, PIPE_M, id);
        wait_flag(PIPE_MTE1, PIPE_M, id);
        Accumulate(acc, left[i % 2], right[i % 2], i);
        set_flag(PIPE_M, PIPE_MTE1, id);
    }
    wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID1);
    Handshake<PIPE_M, PIPE_FIX>();
    TSTORE(outGlobal, acc);
}

extern "C" void launch_matmul_slices(float *out, half *a, half *b, void *stream)
{
    matmul_slices<<<1, nullptr, stream>>>(out, a, b);
}

__global__ AICORE void matmul_slices_no_reverse(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    WideA aMat;
    WideB bMat;
    SliceLeft left[2];
    SliceRight right[2];
    CAcc acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    for (int k = 0; k < 2; ++k) {
        TASSIGN(left[k], k * 0x8000);
        TASSIGN(right[k], k * 0x8000);
    }
    TASSIGN(acc, 0x0);
    Matrix<half, kM, kInner> aGlobal(a);
    Matrix<half, kInner, kN> bGlobal(b);
    CGlobal outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE1>();
    for (int i = 0; i < kInner / kSlice; ++i) {
        const event_t id = static_cast<event_t>(i % 2);
        TEXTRACT(left[i % 2], aMat, 0, i * kSlice);  // fault: the product two slices before may still read
        TEXTRACT(right[i % 2], bMat, i * kSlice, 0);
        set_flag(PIPE_MTE1, PIPE_M, id);
        wait_flag(PIPE_MTE1, PIPE_M, id);
        Accumulate(acc, left[i % 2], right[i % 2], i);
    }
    Handshake<PIPE_M, PIPE_FIX>();
    TSTORE(outGlobal, acc);
}

extern "C" void launch_matmul_slices_no_reverse(float *out, half *a, half *b, void *stream)
{
    matmul_slices_no_reverse<<<1, nullptr, stream>>>(out, a, b);
}

__global__ AICORE void matmul_slices_buffers_overlap(__gm__ float *out, __gm__ half *a, __gm__ half *b)
{
    WideA aMat;
    WideB bMat;
    SliceLeft left;
    SliceRight right, spare;
    CAcc acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(spare, 0x1000);  // fault: right takes 0x1800 bytes
    TASSIGN(acc, 0x0);
    Matrix<half, kM, kInner> aGlobal(a);
    Matrix<half, kInner, kN> bGlobal(b);
    CGlobal outGlobal(out);
    TLOAD(aMat, aGlobal);
    TLOAD(bMat, bGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE1>();
    TEXTRACT(left, aMat, 0, 0);
    TEXTRACT(right, bMat, 0, 0);
    TEXTRACT(spare, bMat, kSlice, 0);
    Handshake<PIPE_MTE1, PIPE_M>();
    TMATMUL(acc, left, right);
    TMATMUL_ACC(acc, acc, left, spare);
    Handshake<PIPE_M, PIPE_FIX>();
    TSTORE(outGlobal, acc);
}

extern "C" void launch_matmul_slices_buffers_overlap(float *out, half *a, half *b, void *stream)
{
    matmul_slices_buffers_overlap<<<1, nullptr, stream>>>(out, a, b);
}

// --- Blocks of rows ------------------------------------------------------------------------------------------

__global__ AICORE void matmul_blocks(__gm__ float *out, __gm__ half *a, __gm__ half *b, int32_t tiles)
{
    AMat aMat[2];
    BMat bMat;
    ALeft left;
    BRight right;
    CAcc acc;
    TASSIGN(aMat[0], 0x0);
    TASSIGN(aMat[1], 0x2000);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(acc, 0x0);
    BGlobal bGlobal(b);
    TLOAD(bMat, bGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE1>(EVENT_ID2);
    TMOV(right, bMat);
    set_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID1);
    set_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
    set_flag(PIPE_FIX, PIPE_M, EVENT_ID0);
    int round = 0;
    for (int i = static_cast<int>(get_block_idx()); i < tiles; i += static_cast<int>(get_block_num())) {
        const event_t id = static_cast<event_t>(round % 2);
        AGlobal aGlobal(a + i * kM * kK);
        CGlobal outGlobal(out + i * kM * kN);
        wait_flag(PIPE_MTE1, PIPE_MTE2, id);
        TLOAD(aMat[round % 2], aGlobal);
        set_flag(PIPE_MTE2, PIPE_MTE1, id);
        wait_flag(PIPE_MTE2, PIPE_MTE1, id);
        wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
        TMOV(left, aMat[round % 2]);
        set_flag(PIPE_MTE1, PIPE_MTE2, id);
        set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
        wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
        wait_flag(PIPE_FIX, PIPE_M, EVENT_ID0);
        TMATMUL(acc, left, right);
        set_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
        set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
        wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
        TSTORE(outGlobal, acc);
        set_flag(PIPE_FIX, PIPE_M, EVENT_ID0);
        ++round;
    }
    wait_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_MTE1, PIPE_MTE2, EVENT_ID1);
    wait_flag(PIPE_M, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_FIX, PIPE_M, EVENT_ID0);
}

extern "C" void launch_matmul_blocks(float *out, half *a, half *b, int32_t tiles, void *stream)
{
    matmul_blocks<<<2, nullptr, stream>>>(out, a, b, tiles);
}

__global__ AICORE void matmul_blocks_no_store_flag(__gm__ float *out, __gm__ half *a, __gm__ half *b, int32_t tiles)
{
    AMat aMat;
    BMat bMat;
    ALeft left;
    BRight right;
    CAcc acc;
    TASSIGN(aMat, 0x0);
    TASSIGN(bMat, 0x20000);
    TASSIGN(left, 0x0);
    TASSIGN(right, 0x0);
    TASSIGN(acc, 0x0);
    BGlobal bGlobal(b);
    TLOAD(bMat, bGlobal);
    Handshake<PIPE_MTE2, PIPE_MTE1>(EVENT_ID2);
    TMOV(right, bMat);
    for (int i = 0; i < tiles; ++i) {
        AGlobal aGlobal(a + i * kM * kK);
        CGlobal outGlobal(out + i * kM * kN);
        TLOAD(aMat, aGlobal);
        Handshake<PIPE_MTE2, PIPE_MTE1>();
        TMOV(left, aMat);
        Handshake<PIPE_MTE1, PIPE_MTE2>();
        Handshake<PIPE_MTE1, PIPE_M>();
        TMATMUL(acc, left, right);  // fault: the store before may still read the accumulator
        Handshake<PIPE_M, PIPE_MTE1>();
        set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
        wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
        TSTORE(outGlobal, acc);
    }
}

extern "C" void launch_matmul_blocks_no_store_flag(float *out, half *a, half *b, int32_t tiles, void *stream)
{
    matmul_blocks_no_store_flag<<<1, nullptr, stream>>>(out, a, b, tiles);
}
