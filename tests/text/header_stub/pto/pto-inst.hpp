// Declarations of the PTO intrinsics, written for the tests: signatures, and cheap assertions. The calls of the random
// kernels have a body, so that they can run: block after block, in program order, on plain row-major tiles.
// PTO_A2A3, PTO_A5 or PTO_CPU selects the target.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define AICORE
#define block_idx (block.idx)
#define block_num (block.num)
#define status get_status()
#define __global__
#define __gm__

struct half {
    uint16_t bits = 0;
    explicit half(float) {}
};
struct bfloat16_t {
    uint16_t bits = 0;
    explicit bfloat16_t(float) {}
};
struct float8_e4m3_t {
    uint8_t bits = 0;
    explicit float8_e4m3_t(float) {}
};
struct float8_e5m2_t {
    uint8_t bits = 0;
    explicit float8_e5m2_t(float) {}
};
struct float8_e8m0_t {
    uint8_t bits = 0;
    explicit float8_e8m0_t(float) {}
};
struct hifloat8_t {
    uint8_t bits = 0;
    explicit hifloat8_t(float) {}
};

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };
enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };
inline void set_flag(pipe_t, pipe_t, event_t) {}
inline void wait_flag(pipe_t, pipe_t, event_t) {}
inline void pipe_barrier(pipe_t) {}
inline int64_t get_subblockid() { return 0; }
#ifdef PTO_A2A3
inline void ffts_cross_core_sync(pipe_t, uint64_t) {}
inline void wait_flag_dev(int64_t) {}
inline void set_ffts_base_addr(uint64_t) {}
namespace pto {
inline uint16_t getFFTSMsg(uint16_t mode, uint16_t id) { return 1 + (mode << 4) + (id << 8); }
}
#endif
#ifdef PTO_A5
inline void set_intra_block(pipe_t, uint64_t) {}
inline void wait_intra_block(pipe_t, uint64_t) {}
#endif
inline int64_t thisBlock = 0, allBlocks = 1;
inline int64_t get_block_idx() { return thisBlock; }
inline int64_t get_block_num() { return allBlocks; }
alignas(32) inline unsigned char ub[1 << 20];

// kernel<<<blocks, dynUBufSize, stream>>>(...) is no C++; the tests write pto_launch(kernel, ...)(...) for it.
template <typename... A>
auto pto_launch(void (*kernel)(A...), uint32_t, std::nullptr_t, void*) { return kernel; }
template <typename... A>
auto pto_launch(void (*kernel)(A...), uint32_t, uint32_t, void*) { return kernel; }

namespace pto {

enum class TileType { Vec, Mat, Left, Right, Acc, Bias, Scaling, ScaleLeft, ScaleRight };
enum class BLayout { RowMajor, ColMajor };
enum class SLayout { NoneBox, RowMajor, ColMajor };
enum class PadValue { Null, Zero, Max, Min };
enum class Layout { ND, DN, NZ, MX_A_ND, MX_A_DN, MX_A_ZZ, MX_B_ND, MX_B_DN, MX_B_NN };
enum class Coalesce : uint8_t { Row = 0, Elem = 1 };
enum class GatherOOB { Undefined, Clamp, Wrap, Zero };
enum class GatherExec { Scalar, Simt };
enum class ScatterOOB { Undefined, Skip, Clamp, Wrap };
enum class ScatterAtomicOp { None, Add, Max, Min };
enum class ScatterConflict { Last, Default };
enum class ReluPreMode { NoRelu, NormalRelu };
enum class AtomicType { AtomicNone, AtomicAdd };
enum class RoundMode { CAST_NONE, CAST_RINT, CAST_ROUND, CAST_FLOOR, CAST_CEIL, CAST_TRUNC, CAST_ODD };
enum class SaturationMode { ON, OFF };
enum class CmpMode { EQ, NE, LT, LE, GT, GE };
struct RecordEvent {};

template <int... N>
struct Extents {
    static_assert(sizeof...(N) == 5 && ((N >= -1) && ...));
    static constexpr int value[5] = {N...};
    static constexpr int dynamic = ((N == -1) + ...);
    template <std::convertible_to<int64_t>... A>
        requires(sizeof...(A) == dynamic)
    explicit Extents(A... given) {
        int64_t numbers[] = {given..., 0}, *next = numbers;
        for (int k = 0; k < 5; ++k) at[k] = value[k] == -1 ? *next++ : value[k];
    }
    int64_t at[5];
};
template <int... N>
struct Shape : Extents<N...> {
    using Extents<N...>::Extents;
};
template <int... N>
struct Stride : Extents<N...> {
    using Extents<N...>::Extents;
};

template <typename T, typename S, typename D, Layout L>
struct GlobalTensor {
    using DType = T;
    static constexpr Layout layout = L;
    using Sizes = S;
    explicit GlobalTensor(T* first)
        requires(S::dynamic == 0 && D::dynamic == 0)
        : data(first) {}
    GlobalTensor(T* first, const S& sizes, const D& steps) : data(first), shape(sizes), stride(steps) {}
    T& operator()(int64_t r, int64_t c) { return data[r * stride.at[3] + c * stride.at[4]]; }
    T* data;
    S shape;
    D stride;
};

template <TileType Loc, typename T, int R, int C, BLayout B = BLayout::RowMajor, int VR = R, int VC = C,
          SLayout S = SLayout::NoneBox, int Fractal = 512, PadValue Pad = PadValue::Null>
struct Tile {
    using DType = T;
    static constexpr TileType loc = Loc;
    static constexpr int rows = R, cols = C, validRow = VR, validCol = VC;
    static constexpr BLayout blayout = B;
    static constexpr bool boxed = S != SLayout::NoneBox;
    static constexpr int inner = Fractal == 1024 ? 16 : (Fractal == 32 ? 2 : 32) / sizeof(T);
    static_assert(VR <= R && VC <= C && VR >= -1 && VC >= -1);
    static_assert(Fractal == 512 || Fractal == 1024 || Fractal == 32);
    static_assert(boxed || (B == BLayout::RowMajor ? C : R) * sizeof(T) % 32 == 0, "32-byte blocks");
    static_assert(!boxed || C % (S == SLayout::RowMajor ? inner : 16) == 0, "whole boxes");
    template <std::convertible_to<int64_t>... A>
        requires(sizeof...(A) == (VR == -1) + (VC == -1))
    explicit Tile(A... given) {
        int64_t numbers[] = {given..., 0}, *next = numbers;
        if (VR == -1) vr = *next++;
        if (VC == -1) vc = *next++;
    }
    T* data() { return reinterpret_cast<T*>(ub + at); }
    T& operator()(int64_t r, int64_t c) { return data()[B == BLayout::RowMajor ? r * C + c : c * R + r]; }
    int64_t at = 0, vr = VR, vc = VC;
};

template <typename T>
concept IsTile = requires { T::validRow; };
template <typename T>
concept IsTensor = requires { T::layout; };
template <typename T>
concept IsVec = IsTile<T> && T::loc == TileType::Vec;
template <typename T>
concept IsIndex = std::same_as<typename T::DType, int32_t> || std::same_as<typename T::DType, uint32_t>;
template <typename A, typename... B>
concept SameType = (std::same_as<typename A::DType, typename B::DType> && ...);

void TASSIGN(IsTile auto& tile, int64_t at) { tile.at = at; }
template <IsTile T>
void each(T& tile, auto work) {
    for (int64_t r = 0; r < tile.vr; ++r)
        for (int64_t c = 0; c < tile.vc; ++c) work(r, c);
}

constexpr bool fits(int tensor, int tile) { return tensor == tile || tensor == -1 || tile == -1; }
template <IsTile T, IsTensor G>
constexpr bool moves() {
    constexpr const int* shape = G::Sizes::value;
    static_assert(SameType<T, G>);
    static_assert(G::layout == Layout::NZ || shape[0] * shape[1] * shape[2] != 1 ||
                  (fits(shape[3], T::validRow) && fits(shape[4], T::validCol)));
    return true;
}
template <IsTile T, IsTensor G>
    requires(moves<T, G>())
RecordEvent TLOAD(T& tile, G& memory) {
    each(tile, [&](auto r, auto c) { tile(r, c) = memory(r, c); });
    return {};
}
template <IsTile T, IsTensor G>
    requires(moves<T, G>())
RecordEvent TSTORE(G& memory, T& tile) {
    each(tile, [&](auto r, auto c) { memory(r, c) = tile(r, c); });
    return {};
}
template <IsTile T, IsTensor G, AtomicType A>
    requires(moves<T, G>())
RecordEvent TSTORE(G& memory, T& tile) {
    each(tile, [&](auto r, auto c) { memory(r, c) += tile(r, c); });
    return {};
}
template <IsTile T, IsTensor G>
    requires(T::loc == TileType::Acc)
RecordEvent TSTORE(G&, T&, uint64_t scale);
template <IsTile T, IsTensor G, AtomicType A, ReluPreMode R>
    requires(T::loc == TileType::Acc)
RecordEvent TSTORE(G&, T&);
template <IsTile T, IsTensor G, AtomicType A, ReluPreMode R>
    requires(T::loc == TileType::Acc)
RecordEvent TSTORE(G&, T&, uint64_t scale);
template <IsTile T, IsTensor G, IsTile F, AtomicType A = AtomicType::AtomicNone, ReluPreMode R = ReluPreMode::NoRelu>
    requires(T::loc == TileType::Acc && F::loc == TileType::Scaling)
RecordEvent TSTORE_FP(G&, T&, F&);
template <IsTile D, IsTile S>
    requires SameType<D, S>
RecordEvent TMOV(D&, S&);
template <IsTile D, IsTile S, ReluPreMode R>
    requires(S::loc == TileType::Acc)
RecordEvent TMOV(D&, S&);
template <IsTile D, IsTile S, ReluPreMode R = ReluPreMode::NoRelu>
    requires(S::loc == TileType::Acc)
RecordEvent TMOV(D&, S&, uint64_t scale);
template <IsTile D, IsTile S, IsTile F, ReluPreMode R = ReluPreMode::NoRelu>
    requires(S::loc == TileType::Acc && F::loc == TileType::Scaling)
RecordEvent TMOV_FP(D&, S&, F&);

template <IsTile D, typename I>
constexpr bool rowIndex() {
    if constexpr (IsTensor<I>) {
        return D::loc == TileType::Mat;
    } else {
        return I::rows == 1 && I::blayout == BLayout::RowMajor && fits(I::validCol, D::validRow);
    }
}
template <IsTile D, IsTile I>
constexpr bool elemIndex() { return fits(I::validRow, D::validRow) && fits(I::validCol, D::validCol); }

template <typename O>
bool inside(uint32_t& row, uint32_t count, O policy) {
    if (policy == O::Clamp) row = row < count ? row : count - 1;
    if (policy == O::Wrap) row %= count;
    return row < count;
}
template <Coalesce M = Coalesce::Row, GatherOOB O = GatherOOB::Undefined, GatherExec E = GatherExec::Scalar, IsTile D,
          IsTensor G, IsIndex I>
    requires SameType<D, G>
RecordEvent MGATHER(D& dst, G& table, I& idx) {
    if constexpr (M == Coalesce::Elem) {
        static_assert(elemIndex<D, I>());
    } else if constexpr (IsTile<I>) {
        static_assert(rowIndex<D, I>());
        each(dst, [&](auto r, auto c) {
            uint32_t row = idx(0, r);
            if (inside(row, table.shape.at[3], O)) dst(r, c) = table(row, c);
            else std::memset(static_cast<void*>(&dst(r, c)), 0, sizeof dst(r, c));
        });
    } else {
        static_assert(rowIndex<D, I>());
    }
    return {};
}
template <Coalesce M, GatherOOB O = GatherOOB::Undefined, GatherExec E = GatherExec::Scalar, IsTile D, IsTensor G,
          IsTensor I, IsTensor W>
    requires(SameType<D, G, W> && IsIndex<I> && M == Coalesce::Elem && D::loc == TileType::Mat)
RecordEvent MGATHER(D&, G&, I&, W&);

template <typename T, typename... U>
concept OneOf = (std::same_as<T, U> || ...);
template <Coalesce M, ScatterAtomicOp A, typename T, typename S, typename I>
constexpr bool scatters() {
    static_assert(SameType<T, S> && IsIndex<I>);
    if constexpr (M == Coalesce::Row) {
        static_assert(rowIndex<S, I>());
    } else {
        static_assert(elemIndex<S, I>());
    }
#if defined(PTO_A2A3)
    static_assert(A == ScatterAtomicOp::None || A == ScatterAtomicOp::Add);
    static_assert(A == ScatterAtomicOp::None ||
                  OneOf<typename S::DType, int8_t, int16_t, int32_t, half, bfloat16_t, float>);
#elif defined(PTO_A5)
    static_assert(A != ScatterAtomicOp::Add || OneOf<typename S::DType, int32_t, uint32_t, float, half, bfloat16_t>);
    static_assert(A == ScatterAtomicOp::None || A == ScatterAtomicOp::Add ||
                  OneOf<typename S::DType, int32_t, uint32_t, float>);
#endif
    return true;
}
template <Coalesce M, ScatterAtomicOp A, ScatterOOB O>
RecordEvent scatter(auto& table, auto& src, auto& idx) {
    if constexpr (M == Coalesce::Row && std::same_as<std::remove_cvref_t<decltype(src(0, 0))>, float>) {
        each(src, [&](auto r, auto c) {
            uint32_t row = idx(0, r);
            if (!inside(row, table.shape.at[3], O)) return;
            table(row, c) = A == ScatterAtomicOp::Add ? table(row, c) + src(r, c) : src(r, c);
        });
    }
    return {};
}
#if defined(PTO_A2A3)
template <Coalesce M = Coalesce::Row, ScatterAtomicOp A = ScatterAtomicOp::None, ScatterOOB O = ScatterOOB::Undefined,
          IsTensor T, IsVec S, IsVec I>
    requires(scatters<M, A, T, S, I>())
RecordEvent MSCATTER(T& table, S& src, I& idx) { return scatter<M, A, O>(table, src, idx); }
#else
#if defined(PTO_A5)
inline constexpr ScatterConflict usual = ScatterConflict::Last;
#else
inline constexpr ScatterConflict usual = ScatterConflict::Default;
#endif
template <Coalesce M = Coalesce::Row, ScatterAtomicOp A = ScatterAtomicOp::None, ScatterOOB O = ScatterOOB::Undefined,
          ScatterConflict C = usual, IsTensor T, IsVec S, IsVec I>
    requires(scatters<M, A, T, S, I>())
RecordEvent MSCATTER(T& table, S& src, I& idx) { return scatter<M, A, O>(table, src, idx); }
#endif

template <IsVec D, IsVec S, IsVec I>
    requires(SameType<D, S> && sizeof(typename I::DType) == (sizeof(typename D::DType) == 4 ? 4 : 2))
RecordEvent TSCATTER(D& dst, S& src, I& idx) {
#if !defined(PTO_CPU)
    std::memset(static_cast<void*>(dst.data()), 0, sizeof(typename D::DType) * D::rows * D::cols);
#endif
    each(idx, [&](auto r, auto c) { dst.data()[idx(r, c)] = src(r, c); });
    return {};
}

#define PTO_UNARY(NAME)          \
    template <IsVec D, IsVec S>  \
        requires SameType<D, S>  \
    RecordEvent NAME(D&, S&);
PTO_UNARY(TABS)
PTO_UNARY(TNEG)
PTO_UNARY(TEXP)
PTO_UNARY(TLOG)
PTO_UNARY(TSQRT)
PTO_UNARY(TRECIP)
PTO_UNARY(TRSQRT)
PTO_UNARY(TRELU)
PTO_UNARY(TNOT)

// Integers wrap.
#define PTO_BINARY(NAME, FORMULA)                                                    \
    template <IsVec D, IsVec A, IsVec B>                                             \
        requires SameType<D, A, B>                                                   \
    RecordEvent NAME(D& dst, A& one, B& other) {                                     \
        using T = typename D::DType;                                                 \
        if constexpr (std::is_arithmetic_v<T>) {                                     \
            each(dst, [&](auto r, auto c) {                                          \
                const T a = one(r, c), b = other(r, c);                              \
                dst(r, c) = static_cast<T>(FORMULA);                                 \
            });                                                                      \
        }                                                                            \
        return {};                                                                   \
    }
#define PTO_ARITHMETIC(NAME, FORMULA)                                                \
    PTO_BINARY(NAME, FORMULA)                                                        \
    template <IsVec D, IsVec S>                                                      \
        requires SameType<D, S>                                                      \
    RecordEvent NAME##S(D& dst, S& src, typename D::DType b) {                       \
        using T = typename D::DType;                                                 \
        if constexpr (std::is_arithmetic_v<T>) {                                     \
            each(dst, [&](auto r, auto c) {                                          \
                const T a = src(r, c);                                               \
                dst(r, c) = static_cast<T>(FORMULA);                                 \
            });                                                                      \
        }                                                                            \
        return {};                                                                   \
    }
PTO_ARITHMETIC(TSUB, a - b)
PTO_ARITHMETIC(TMUL, a * b)
PTO_ARITHMETIC(TMAX, a > b ? a : b)
PTO_ARITHMETIC(TMIN, a < b ? a : b)
PTO_ARITHMETIC(PLUS, a + b)
#if defined(PTO_CPU)
template <IsVec T>
RecordEvent TADD(T& dst, T& one, T& other) { return PLUS(dst, one, other); }
#else
RecordEvent TADD(auto& dst, auto& one, auto& other) { return PLUS(dst, one, other); }
#endif
template <IsVec D, IsVec S>
RecordEvent TADDS(D& dst, S& src, typename D::DType number) { return PLUSS(dst, src, number); }

#define PTO_OTHERS(NAME)                  \
    template <IsVec D, IsVec A, IsVec B>  \
        requires SameType<D, A, B>        \
    RecordEvent NAME(D&, A&, B&);
template <typename T>
constexpr bool isWhole = std::is_integral_v<typename T::DType>;
#define PTO_BITS(NAME, SYMBOL)                                                                \
    template <IsVec D, IsVec A, IsVec B>                                                      \
        requires(SameType<D, A, B> && isWhole<D>)                                             \
    RecordEvent NAME(D& dst, A& one, B& other) {                                              \
        each(dst, [&](auto r, auto c) { dst(r, c) = one(r, c) SYMBOL other(r, c); });         \
        return {};                                                                            \
    }
PTO_BITS(TAND, &)
PTO_BITS(TOR, |)
PTO_OTHERS(TDIV)
PTO_OTHERS(TSHL)
PTO_OTHERS(TSHR)
PTO_OTHERS(TFMOD)
#define PTO_OTHERS_WITH_TMP(NAME)                 \
    template <IsVec D, IsVec A, IsVec B, IsVec W> \
        requires SameType<D, A, B>                \
    RecordEvent NAME(D&, A&, B&, W&);
PTO_OTHERS(TPARTADD)
PTO_OTHERS(TMULADDDST)
PTO_OTHERS(TFUSEDMULADD)
PTO_OTHERS(TFUSEDMULADDRELU)
PTO_OTHERS(TSUBRELU)
PTO_OTHERS(TPARTMUL)
PTO_OTHERS(TPARTMAX)
PTO_OTHERS(TPARTMIN)
PTO_OTHERS(TCONCAT)
PTO_OTHERS_WITH_TMP(TXOR)
PTO_OTHERS_WITH_TMP(TPRELU)
PTO_OTHERS_WITH_TMP(TREM)
PTO_OTHERS_WITH_TMP(TPOW)
PTO_OTHERS(TROWEXPANDEXPDIF)
PTO_OTHERS(TCOLEXPANDEXPDIF)
PTO_OTHERS(TROWEXPANDADD)
PTO_OTHERS(TROWEXPANDMAX)
PTO_OTHERS(TROWEXPANDMIN)
PTO_OTHERS(TCOLEXPANDADD)
PTO_OTHERS(TCOLEXPANDSUB)
PTO_OTHERS(TCOLEXPANDMUL)
PTO_OTHERS(TCOLEXPANDDIV)
PTO_OTHERS(TCOLEXPANDMAX)
PTO_OTHERS(TCOLEXPANDMIN)
PTO_OTHERS(TROWEXPANDMUL)
PTO_OTHERS(TROWEXPANDDIV)
template <IsVec D, IsVec A, IsVec B>
    requires SameType<D, A, B>
RecordEvent TROWEXPANDSUB(D& dst, A& one, B& column) {
    using T = typename D::DType;
    if constexpr (std::is_arithmetic_v<T> && B::blayout == BLayout::ColMajor) {
        each(dst, [&](auto r, auto c) { dst(r, c) = static_cast<T>(one(r, c) - column(r, 0)); });
    }
    return {};
}

#define PTO_SCALAR(NAME)         \
    template <IsVec D, IsVec S>  \
        requires SameType<D, S>  \
    RecordEvent NAME(D&, S&, typename D::DType);
PTO_SCALAR(TDIVS)
PTO_SCALAR(TANDS)
PTO_SCALAR(TORS)
PTO_SCALAR(TSHLS)
PTO_SCALAR(TSHRS)
PTO_SCALAR(TLRELU)
PTO_SCALAR(TFMODS)
template <IsVec D, IsVec S, IsVec W>
    requires SameType<D, S, W>
RecordEvent TXORS(D&, S&, typename D::DType, W&);
template <IsVec D, IsVec S, IsVec W>
    requires SameType<D, S, W>
RecordEvent TREMS(D&, S&, typename D::DType, W&);
template <IsVec D, IsVec S, IsVec W>
    requires SameType<D, S, W>
RecordEvent TPOWS(D&, S&, typename D::DType, W&);
template <IsVec D, IsVec S>
RecordEvent TDIVS(D&, typename D::DType, S&);
template <IsTile D>
RecordEvent TEXPANDS(D& dst, typename D::DType number) {
    each(dst, [&](auto r, auto c) { dst(r, c) = number; });
    return {};
}
template <IsVec D, typename T, int descending>
    requires(std::same_as<T, typename D::DType> && D::rows == 1)
RecordEvent TCI(D& dst, T start) {
    each(dst, [&](auto r, auto c) { dst(r, c) = static_cast<T>(descending ? start - c : start + c); });
    return {};
}

template <IsVec D, IsVec A, IsVec B>
    requires SameType<A, B>
RecordEvent TCMP(D&, A&, B&, CmpMode);
template <IsVec D, IsVec S>
RecordEvent TCMPS(D&, S&, typename S::DType, CmpMode);
template <IsVec D, IsVec M, IsVec A, IsVec B, IsVec W>
    requires(SameType<D, A, B> && std::same_as<typename W::DType, uint32_t>)
RecordEvent TSEL(D&, M&, A&, B&, W&);
template <IsVec D, IsVec M, IsVec S, IsVec W>
    requires SameType<D, S, W>
RecordEvent TSELS(D&, M&, S&, W&, typename D::DType);
template <IsVec D, IsVec S>
RecordEvent TCVT(D&, S&, RoundMode, SaturationMode);
template <IsVec D, IsVec S, IsVec W>
RecordEvent TCVT(D&, S&, W&, RoundMode, SaturationMode);

#define PTO_REDUCE(NAME)                  \
    template <IsVec D, IsVec S, IsVec W>  \
        requires SameType<D, S, W>        \
    RecordEvent NAME(D&, S&, W&);
PTO_REDUCE(TROWSUM)
PTO_REDUCE(TROWMAX)
PTO_REDUCE(TROWMIN)
PTO_REDUCE(TROWPROD)
#define PTO_SEARCH(NAME)                                                               \
    template <IsVec D, IsVec S, IsVec W>                                               \
        requires(SameType<S, W> && isWhole<D> && sizeof(typename D::DType) == 4)        \
    RecordEvent NAME(D&, S&, W&);
PTO_SEARCH(TROWARGMAX)
PTO_SEARCH(TROWARGMIN)
PTO_SEARCH(TCOLARGMAX)
PTO_SEARCH(TCOLARGMIN)
PTO_REDUCE(TTRANS)
#define PTO_ONE_SOURCE(NAME)       \
    template <IsVec D, IsVec S>    \
        requires SameType<D, S>    \
    RecordEvent NAME(D&, S&);
PTO_ONE_SOURCE(TCOLSUM)
PTO_ONE_SOURCE(TCOLMAX)
PTO_ONE_SOURCE(TCOLMIN)
PTO_ONE_SOURCE(TCOLPROD)
template <IsTile D, IsTile S>
    requires SameType<D, S>
RecordEvent TFILLPAD(D&, S&);
PTO_ONE_SOURCE(TFILLPAD_INPLACE)
PTO_ONE_SOURCE(TFILLPAD_EXPAND)
template <IsVec D, IsVec S>
RecordEvent TAXPY(D&, S&, typename S::DType);
template <IsVec D, IsVec A, IsVec B>
    requires SameType<D, A, B>
RecordEvent TADDC(D&, D&, A&, B&);
template <IsVec D, IsVec A, IsVec B>
    requires SameType<D, A, B>
RecordEvent TSUBC(D&, D&, A&, B&);
template <IsVec D>
RecordEvent TADDSC(D&, D&, typename D::DType, D&);
template <IsVec D>
RecordEvent TSUBSC(D&, D&, typename D::DType, D&);
template <IsVec D, IsVec S>
    requires SameType<D, S>
RecordEvent TINTERLEAVE(D&, D&, S&, S&);
template <IsVec D, IsVec S>
    requires SameType<D, S>
RecordEvent TDEINTERLEAVE(D&, D&, S&, S&);
template <IsVec D, IsVec A, IsVec B>
    requires SameType<A, B>
RecordEvent TADDRELUCONV(D&, A&, B&);
template <IsVec D, IsVec A, IsVec B>
    requires SameType<A, B>
RecordEvent TSUBRELUCONV(D&, A&, B&);
template <IsVec D, IsVec A, IsVec B, IsVec W>
    requires SameType<A, B>
RecordEvent TADDDEQRELU(D&, A&, B&, float, W&);
template <IsVec D, IsVec S>
    requires SameType<D, S>
RecordEvent TPAIRREDUCESUM(D&, S&);
template <IsVec D, IsVec A, IsVec B, IsVec DI, IsVec AI, IsVec BI>
    requires(SameType<D, A, B> && SameType<DI, AI, BI>)
RecordEvent TPARTARGMAX(D&, A&, B&, DI&, AI&, BI&);
template <IsVec D, IsVec A, IsVec B, IsVec DI, IsVec AI, IsVec BI>
    requires(SameType<D, A, B> && SameType<DI, AI, BI>)
RecordEvent TPARTARGMIN(D&, A&, B&, DI&, AI&, BI&);
template <IsVec D, IsVec S, IsVec O>
    requires std::same_as<typename O::DType, uint32_t>
RecordEvent TGATHERB(D&, S&, O&);
enum class HistByte { BYTE_0, BYTE_1, BYTE_2, BYTE_3 };
template <HistByte byte, IsVec D, IsVec S, IsVec I>
    requires(std::same_as<typename D::DType, uint32_t> && std::same_as<typename I::DType, uint8_t>)
RecordEvent THISTOGRAM(D&, S&, I&);
template <IsVec D, IsVec S, IsVec I>
    requires(SameType<D, S> && std::same_as<typename I::DType, uint32_t>)
RecordEvent TSORT32(D&, S&, I&);
template <IsVec D, IsVec S, IsVec F>
    requires SameType<D, F>
RecordEvent TDEQUANT(D&, S&, F&, F&);
enum class QuantType { MXFP8, MXFP4_E2M1, INT8_SYM, INT8_ASYM };
template <QuantType kind, IsVec D, IsVec S, IsVec F, IsVec W>
    requires(SameType<S, F> && SameType<S, W>)
RecordEvent TQUANT(D&, S&, F&, W&, F* = nullptr);
template <QuantType kind, IsVec D, IsVec S, IsVec F>
    requires SameType<S, F>
RecordEvent TQUANT(D&, S&, F&, F* = nullptr);
struct MrgSortExecutedNumList {};
template <IsVec D, IsVec S>
    requires SameType<D, S>
RecordEvent TMRGSORT(D&, S&, uint32_t);
template <IsVec D, IsVec W, IsVec A, IsVec B, bool exhausted>
    requires SameType<D, W, A, B>
RecordEvent TMRGSORT(D&, MrgSortExecutedNumList&, W&, A&, B&);
template <IsVec D, IsVec W, IsVec A, IsVec B, IsVec C, bool exhausted>
    requires SameType<D, W, A, B, C>
RecordEvent TMRGSORT(D&, MrgSortExecutedNumList&, W&, A&, B&, C&);
template <IsVec D, IsVec W, IsVec A, IsVec B, IsVec C, IsVec E, bool exhausted>
    requires SameType<D, W, A, B, C, E>
RecordEvent TMRGSORT(D&, MrgSortExecutedNumList&, W&, A&, B&, C&, E&);
enum class MaskPattern : uint8_t { P0101 = 1, P1010, P0001, P0010, P0100, P1000, P1111 };
template <IsVec D, IsVec S, MaskPattern pattern>
    requires(sizeof(typename D::DType) == sizeof(typename S::DType))
RecordEvent TGATHER(D&, S&);
template <IsVec D, int upper>
    requires(upper == 0 || upper == 1)
RecordEvent TTRI(D&, int);
PTO_ONE_SOURCE(TROWEXPAND)
PTO_ONE_SOURCE(TCOLEXPAND)
template <IsVec D, IsVec S, IsVec I, IsVec W>
    requires(SameType<D, S> && SameType<I, W> && fits(I::validRow, W::validRow) && fits(I::validCol, W::validCol))
RecordEvent TGATHER(D&, S&, I&, W&);

template <IsTile C, IsTile A, IsTile B>
constexpr bool multiplies() {
    return C::loc == TileType::Acc && A::loc == TileType::Left && B::loc == TileType::Right && A::rows == C::rows &&
           A::cols == B::rows && B::cols == C::cols;
}
template <IsTile C, IsTile A, IsTile B>
    requires(multiplies<C, A, B>())
RecordEvent TMATMUL(C&, A&, B&);
template <IsTile C, IsTile I, IsTile A, IsTile B>
    requires(multiplies<C, A, B>() && multiplies<I, A, B>())
RecordEvent TMATMUL_ACC(C&, I&, A&, B&);
template <IsTile C, IsTile A, IsTile B, IsTile V>
    requires(multiplies<C, A, B>() && V::loc == TileType::Bias)
RecordEvent TMATMUL_BIAS(C&, A&, B&, V&);
template <IsTile C, IsTile A, IsTile B>
constexpr bool multipliesRow() {
    return C::loc == TileType::Acc && A::loc == TileType::Left && B::loc == TileType::Right && A::rows == 1;
}
template <IsTile C, IsTile A, IsTile B>
    requires(multipliesRow<C, A, B>())
RecordEvent TGEMV(C&, A&, B&);
template <IsTile C, IsTile I, IsTile A, IsTile B>
    requires(multipliesRow<C, A, B>() && multipliesRow<I, A, B>())
RecordEvent TGEMV_ACC(C&, I&, A&, B&);
template <IsTile C, IsTile A, IsTile B, IsTile V>
    requires(multipliesRow<C, A, B>() && V::loc == TileType::Bias)
RecordEvent TGEMV_BIAS(C&, A&, B&, V&);
#ifdef PTO_A5
template <IsTile C, IsTile A, IsTile X, IsTile B, IsTile Y>
constexpr bool multipliesScaled() {
    return C::loc == TileType::Acc && A::loc == TileType::Left && B::loc == TileType::Right &&
           X::loc == TileType::ScaleLeft && Y::loc == TileType::ScaleRight && A::cols % 64 == 0;
}
#define PTO_SCALED(NAME)                                                                                       \
    template <IsTile C, IsTile A, IsTile X, IsTile B, IsTile Y>                                                \
        requires(multipliesScaled<C, A, X, B, Y>())                                                            \
    RecordEvent NAME(C&, A&, X&, B&, Y&);                                                                      \
    template <IsTile C, IsTile A, IsTile X, IsTile B, IsTile Y>                                                \
        requires(multipliesScaled<C, A, X, B, Y>())                                                            \
    RecordEvent NAME(C&, C&, A&, X&, B&, Y&);                                                                  \
    template <IsTile C, IsTile A, IsTile X, IsTile B, IsTile Y, IsTile V>                                      \
        requires(multipliesScaled<C, A, X, B, Y>() && V::loc == TileType::Bias)                                \
    RecordEvent NAME(C&, A&, X&, B&, Y&, V&);
PTO_SCALED(TMATMUL_MX)
PTO_SCALED(TGEMV_MX)
#endif
template <IsTile D, IsTile S>
RecordEvent TINSERT(D&, S&, uint16_t row, uint16_t col);
template <IsTile D, IsTile S, ReluPreMode R>
    requires(S::loc == TileType::Acc)
RecordEvent TINSERT(D&, S&, uint16_t row, uint16_t col);
template <IsTile D, IsTile S, ReluPreMode R = ReluPreMode::NoRelu>
    requires(S::loc == TileType::Acc)
RecordEvent TINSERT(D&, S&, uint64_t scale, uint16_t row, uint16_t col);
template <IsTile D, IsTile S, IsTile F, ReluPreMode R = ReluPreMode::NoRelu>
    requires(S::loc == TileType::Acc && F::loc == TileType::Scaling)
RecordEvent TINSERT_FP(D&, S&, F&, uint16_t row, uint16_t col);
template <IsTile D, IsTile S, ReluPreMode R>
    requires(S::loc == TileType::Acc)
RecordEvent TEXTRACT(D&, S&, uint16_t row, uint16_t col);
template <IsTile D, IsTile S, ReluPreMode R = ReluPreMode::NoRelu>
    requires(S::loc == TileType::Acc)
RecordEvent TEXTRACT(D&, S&, uint64_t scale, uint16_t row, uint16_t col);
template <IsTile D, IsTile S, IsTile F, ReluPreMode R = ReluPreMode::NoRelu>
    requires(S::loc == TileType::Acc && F::loc == TileType::Scaling)
RecordEvent TEXTRACT_FP(D&, S&, F&, uint16_t row, uint16_t col);
template <IsTile D, IsTile S>
    requires SameType<D, S>
RecordEvent TEXTRACT(D& dst, S& src, uint16_t row, uint16_t col) {
    if constexpr (D::loc == TileType::Vec) {
        each(dst, [&](auto r, auto c) { dst(r, c) = src(row + r, col + c); });
    }
    return {};
}

}  // namespace pto
