// Memory that one call hands to another: accumulators by unit flags, parts of wider rows, parts of slots.
#include "../kernels/cores.hpp"

constexpr int kSize = 16;

struct Operands {
    MatTile<half, kSize, kSize> one, other;
    TileLeft<half, kSize, kSize> left;
    TileRight<half, kSize, kSize> right;
    TileAcc<float, kSize, kSize> sum;

    AICORE Operands() {
        TASSIGN(one, 0x10000);
        TASSIGN(other, 0x20000);
        TASSIGN(left, 0x0);
        TASSIGN(right, 0x0);
        TASSIGN(sum, 0x0);
    }
};

template <STPhase PHASE>
__global__ AICORE void by_unit_flags(__gm__ float* out, __gm__ half* a, __gm__ half* b) {
    if (!kOnCube) return;
    Operands at;
    for (int i = 0; i < 4; ++i) {
        Matrix<half, kSize, kSize> a_rows(a + i * kSize * kSize), b_rows(b);
        Matrix<float, kSize, kSize> to(out + i * kSize * kSize);
        TLOAD(at.one, a_rows);
        TLOAD(at.other, b_rows);
        Handshake<PIPE_MTE2, PIPE_MTE1>();
        TMOV(at.left, at.one);
        TMOV(at.right, at.other);
        Handshake<PIPE_MTE1, PIPE_MTE2>();
        Handshake<PIPE_MTE1, PIPE_M>();
        TMATMUL<AccPhase::Partial>(at.sum, at.left, at.right);
        TMATMUL_ACC<AccPhase::Final>(at.sum, at.sum, at.left, at.right);
        Handshake<PIPE_M, PIPE_MTE1>();
        TSTORE<PHASE>(to, at.sum);
    }
}

extern "C" void unit_flags(float* out, half* a, half* b, void* stream) {
    by_unit_flags<STPhase::Final><<<1, nullptr, stream>>>(out, a, b);
}
extern "C" void no_phase(float* out, half* a, half* b, void* stream) {
    by_unit_flags<STPhase::Unspecified><<<1, nullptr, stream>>>(out, a, b);
}

// Two loads fill the halves of rows that are then read as a whole. What lies beyond the second half is no padding.
template <int HALVES>
__global__ AICORE void in_halves(__gm__ float* out, __gm__ float* x) {
    if (kOnCube) return;
    VecTile<float, 8, 32> whole;
    TASSIGN(whole, 0x400);
    for (int half = 0; half < HALVES; ++half) {
        VecTile<float, 8, 32, 8, 16> part;
        TASSIGN(part, 0x400 + half * 16 * sizeof(float));
        Matrix<float, 8, 16> from(x + half * 8 * 16);
        TLOAD(part, from);
    }
    Handshake<PIPE_MTE2, PIPE_V>();
    TADDS(whole, whole, 1.0f);
    Handshake<PIPE_V, PIPE_MTE3>();
    Matrix<float, 8, 32> to(out);
    TSTORE(to, whole);
}

extern "C" void halves(float* out, float* x, void* stream) { in_halves<2><<<1, nullptr, stream>>>(out, x); }
extern "C" void one_half(float* out, float* x, void* stream) { in_halves<1><<<1, nullptr, stream>>>(out, x); }

// A tile of some columns lies in the rows of another one: from row 2 on, or in columns that are another tile's in part.
template <int AT, int COLS>
__global__ AICORE void in_rows(__gm__ float* out, __gm__ float* x) {
    if (kOnCube) return;
    VecTile<float, 8, 32, 8, COLS> whole;
    VecTile<float, 4, 32, 4, 16> part;
    TASSIGN(whole, 0x400);
    TASSIGN(part, 0x400 + AT);
    Matrix<float, 8, COLS> from(x), to(out);
    Matrix<float, 4, 16> other(x);
    TLOAD(whole, from);
    TLOAD(part, other);
    Handshake<PIPE_MTE2, PIPE_MTE3>();
    TSTORE(to, whole);
}

extern "C" void right_half(float* out, float* x, void* stream) { in_rows<64, 32><<<1, nullptr, stream>>>(out, x); }
extern "C" void from_row_2(float* out, float* x, void* stream) { in_rows<256, 32><<<1, nullptr, stream>>>(out, x); }
extern "C" void half_across(float* out, float* x, void* stream) { in_rows<64, 24><<<1, nullptr, stream>>>(out, x); }

// A load leaves padding in a tile in which a tile of another type begins, which is used no more.
__global__ AICORE void over_the_dead(__gm__ float* out, __gm__ float* x, __gm__ half* y) {
    if (kOnCube) return;
    VecTile<half, 4, 16> dead;
    VecTile<float, 8, 32, 8, 16> part;
    VecTile<float, 8, 32> whole;
    TASSIGN(dead, 0x440);
    TASSIGN(part, 0x400);
    TASSIGN(whole, 0x400);
    Matrix<half, 4, 16> before(y);
    Matrix<float, 8, 16> from(x);
    Matrix<float, 8, 32> to(out);
    TLOAD(dead, before);
    TLOAD(part, from);
    Handshake<PIPE_MTE2, PIPE_MTE3>();
    TSTORE(to, whole);
}

extern "C" void padding(float* out, float* x, half* y, void* stream) { over_the_dead<<<1, nullptr, stream>>>(out, x, y); }

// A vector core pushes 16 rows into a slot of `ROWS`; the second one pushes the others, if there are any.
template <int ROWS>
__global__ AICORE void to_the_cube(__gm__ float* out, __gm__ half* a, __gm__ half* b) {
    constexpr TileSplitAxis split = ROWS == kSize ? TileSplitAxis::TILE_NO_SPLIT : TileSplitAxis::TILE_UP_DOWN;
    using Ring = TPipe<0, Direction::DIR_V2C, sizeof(half) * ROWS * kSize, 2, 2, ROWS == kSize>;
    using Pushed = Tile<TileType::Vec, half, kSize, kSize, BLayout::ColMajor, kSize, kSize, SLayout::RowMajor, 512>;
    using Popped = MatTile<half, ROWS, kSize>;
    Ring ring((__gm__ void*)nullptr, 0x0, 0x0);
    if constexpr (kOnCube) {
        Operands at;
        TileLeft<half, ROWS, kSize> left;
        TileAcc<float, ROWS, kSize> sum;
        TASSIGN(left, 0x0);
        TASSIGN(sum, 0x0);
        Matrix<half, kSize, kSize> b_rows(b);
        Matrix<float, ROWS, kSize> to(out);
        Popped popped;
        TLOAD(at.other, b_rows);
        Handshake<PIPE_MTE2, PIPE_MTE1>();
        TPOP<Ring, Popped, split>(ring, popped);
        TMOV(left, popped);
        TFREE<Ring, split>(ring);
        TMOV(at.right, at.other);
        Handshake<PIPE_MTE1, PIPE_M>();
        TMATMUL(sum, left, at.right);
        Handshake<PIPE_M, PIPE_FIX>();
        TSTORE(to, sum);
    } else {
        if (split == TileSplitAxis::TILE_NO_SPLIT && get_subblockid() != 0) {
            return;
        }
        Pushed part;
        TASSIGN(part, 0x0);
        GlobalTensor<half, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>, Layout::NZ> from(a);
        TLOAD(part, from);
        Handshake<PIPE_MTE2, PIPE_MTE3>();
        TPUSH<Ring, Pushed, split>(ring, part);
    }
}

extern "C" void pushed_by_one(float* out, half* a, half* b, void* stream) {
    to_the_cube<kSize><<<1, nullptr, stream>>>(out, a, b);
}
extern "C" void pushed_by_two(float* out, half* a, half* b, void* stream) {
    to_the_cube<2 * kSize><<<1, nullptr, stream>>>(out, a, b);
}

// A window of rows of 4 elements at every 8th element: the windows overlap, and none overlaps itself.
__global__ AICORE void in_windows(__gm__ float* out, __gm__ float* x) {
    if (kOnCube) return;
    using Window = GlobalTensor<float, Shape<1, 1, 2, 4, 8>, Stride<4096, 4096, 64, 8, 1>>;
    VecTile<float, 8, 8> part;
    TASSIGN(part, 0x0);
    Matrix<float, 8, 8> from(x);
    TLOAD(part, from);
    Handshake<PIPE_MTE2, PIPE_MTE3>();
    for (int i = 0; i < 3; ++i) {
        Window to(out + i * i * 40);
        TSTORE(to, part);
    }
}

extern "C" void windows(float* out, float* x, void* stream) { in_windows<<<1, nullptr, stream>>>(out, x); }

// An insert that is not modelled, into a tile that nothing has written.
__global__ AICORE void both_at_once(__gm__ half* a, __gm__ half* b) {
    if (!kOnCube) return;
    Operands at;
    VecTile<float, kSize, kSize, kSize / 2, kSize> half_of_it;
    TASSIGN(half_of_it, 0x0);
    Matrix<half, kSize, kSize> a_rows(a), b_rows(b);
    TLOAD(at.one, a_rows);
    TLOAD(at.other, b_rows);
    Handshake<PIPE_MTE2, PIPE_MTE1>();
    TMOV(at.left, at.one);
    TMOV(at.right, at.other);
    Handshake<PIPE_MTE1, PIPE_M>();
    TMATMUL(at.sum, at.left, at.right);
    Handshake<PIPE_M, PIPE_FIX>();
    TINSERT<decltype(half_of_it), decltype(at.sum), AccToVecMode::DualModeSplitM>(half_of_it, at.sum, 0, 0);
}

extern "C" void insert(half* a, half* b, void* stream) { both_at_once<<<1, nullptr, stream>>>(a, b); }
