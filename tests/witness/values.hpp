// Executes functions of the vector unit on host memory, where `builtins.hpp` records them: lane by lane, under the mask
// or the counter, over repeats, strides of blocks and of repeats. Rows of the table in values.py name the operations.
#pragma once

#include <type_traits>

namespace ptokit::values {

using u64 = std::uint64_t;
constexpr int REPEAT = 256, BLOCK = 32, BLOCKS = 8;

// Registers of the core.
struct Core {
  bool counts = false;
  u64 high = ~u64{0}, low = ~u64{0};  // of the mask; the low half is the counter
  alignas(16) unsigned char compared[16] = {};
  u64 rows[8][8] = {};
  u64 pad = 0, kept = 0, merged = 0;
  float scale = 1;
};
inline Core core;

inline bool active(int lane) { return (lane < 64 ? core.low >> lane : core.high >> (lane - 64)) & 1; }

// Calls `body(step, is_active)` for each repeat over `width` lanes; the counter replaces the number of repeats.
template <typename F>
void each_step(int width, u64 repeats, F body) {
  bool lanes[REPEAT];
  const u64 steps = core.counts ? (core.low + width - 1) / width : repeats & 255;
  for (u64 step = 0; step < steps; ++step) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] = core.counts ? step * width + lane < core.low : active(lane);
    body(step, lanes);
  }
}

// An address in UB: one of the host, the low half of one, or a number that the headers do not map.
inline char* place(u64 address) {
  const u64 base = base_of(Memory::vec), half = 0xffffffff, bytes = 1 << 20;
  if (address < bytes) return (char*)(base + address);
  return (char*)(address > half ? address : base + ((address - base) & half));
}
inline char* on_chip(const void* address) { return place((u64)address); }

template <typename T>
T get(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T>
void put(void* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

// The lanes of an operand: strides in blocks of 32 bytes.
template <typename T>
struct Lanes {
  using Type = std::remove_cv_t<T>;
  char* start;
  int block, repeat;
  Lanes(T* start, long block, long repeat) : start(on_chip((void*)start)), block(block), repeat(repeat) {}
  char* at(u64 step, int lane) const {
    const int offset = lane * sizeof(T);
    return start + step * repeat * BLOCK + offset / BLOCK * block * BLOCK + offset % BLOCK;
  }
  Type get(u64 step, int lane) const { return values::get<Type>(at(step, lane)); }
  void put(u64 step, int lane, Type value) const { values::put(at(step, lane), value); }
};

// All lanes of a repeat are read before any is written.
template <typename F, typename D, typename... S>
void each_lane(F operation, u64 repeats, Lanes<D> to, Lanes<S>... from) {
  constexpr int width = REPEAT / (int)std::max({sizeof(D), sizeof(S)...});
  each_step(width, repeats, [&](u64 step, const bool* lanes) {
    std::remove_cv_t<D> results[REPEAT];
    for (int lane = 0; lane < width; ++lane)
      if (lanes[lane]) results[lane] = operation(from.get(step, lane)...);
    for (int lane = 0; lane < width; ++lane)
      if (lanes[lane]) to.put(step, lane, results[lane]);
  });
}

// ------------------------------------------------------------------------------------------------ arithmetic

template <typename T>
constexpr bool is_small = is_small_float<T>;

// Small floats are computed as floats and rounded once; integers wrap.
template <typename T, typename F>
T rounded(F function, T a, T b) {
  if constexpr (is_small<T>) return T(function((float)a, (float)b));
  else if constexpr (std::is_integral_v<T>) return (T)function((std::make_unsigned_t<T>)a, (std::make_unsigned_t<T>)b);
  else return function(a, b);
}
template <typename T> T plus(T a, T b) { return rounded([](auto a, auto b) { return a + b; }, a, b); }
template <typename T> T minus(T a, T b) { return rounded([](auto a, auto b) { return a - b; }, a, b); }
template <typename T> T times(T a, T b) {
  if constexpr (std::is_integral_v<T>) return (T)((u64)a * (u64)b);
  else return rounded([](auto a, auto b) { return a * b; }, a, b);
}
template <typename T> T over(T a, T b) { return rounded([](auto a, auto b) { return a / b; }, a, b); }
// No public document says what the vector unit makes of a NaN here: the first operand, as the simulator has it.
template <typename T> T larger(T a, T b) { return b > a ? b : a; }
template <typename T> T smaller(T a, T b) { return b < a ? b : a; }
template <typename T> T positive(T a) { return a < T(0) ? T(0) : a; }
template <typename T> T magnitude(T a) {
  if constexpr (std::is_integral_v<T>) return a < 0 ? (T)(0 - (u64)a) : a;
  else return T(std::fabs((float)a));
}
// Functions are exact: computed as doubles and rounded once.
template <typename T, typename F> T function(F of, T a) { return T(of((double)a)); }
template <typename D, typename S> D as(S a) {
  if constexpr (is_small<D> || is_small<S>) return D((float)a);
  else return (D)a;
}

// ------------------------------------------------------------------------------------------------ conversions

using Wide = long double;  // holds each number of 64 bits

// R: to nearest, ties to even; A: ties away from zero; F: down; C: up; Z: to zero; O: what is inexact becomes odd.
inline Wide whole(Wide value, char mode) {
  const Wide down = std::floor(value), rest = value - down;
  if (rest == 0) return value;
  switch (mode) {
    case 'f': return down;
    case 'c': return down + 1;
    case 'z': return std::trunc(value);
    case 'a': return rest == 0.5L ? (value < 0 ? down : down + 1) : rest > 0.5L ? down + 1 : down;
    case 'o': return std::fmod(down, 2) != 0 ? down : down + 1;
    default: return rest == 0.5L ? (std::fmod(down, 2) != 0 ? down + 1 : down) : rest > 0.5L ? down + 1 : down;
  }
}

// The number of a format with PRECISION bits and exponents from LEAST to MOST.
template <int PRECISION, int LEAST, int MOST>
double in_format(Wide value, char mode) {
  if (value != value || std::isinf(value) || value == 0) return (double)value;
  const int exponent = std::max(std::ilogb(value), LEAST) - PRECISION + 1;
  const Wide found = std::ldexp(whole(std::ldexp(value, -exponent), mode), exponent);
  const Wide most = std::ldexp(2 - std::ldexp((Wide)1, 1 - PRECISION), MOST);
  if (std::fabs(found) <= most) return std::copysign((double)found, (double)value);
  const bool stays = mode == 'z' || mode == 'o' || mode == (value < 0 ? 'c' : 'f');
  return std::copysign(stays ? (double)most : INFINITY, (double)value);
}

// Infinities that do not saturate become 0: no public document says more.
constexpr int SATURATION = 59;  // a bit of the control register: numbers do not saturate if it is set
inline bool saturates() { return !(::ptokit::control >> SATURATION & 1); }
inline double clamped(double value, double most) {
  return value != value || !saturates() ? value : std::max(-most, std::min(most, value));
}

template <typename D, typename S>
D converted(S value, char mode) {
  const Wide given = [&] {
    if constexpr (is_small<S>) return (Wide)(float)value;
    else return (Wide)value;
  }();
  if constexpr (std::is_same_v<D, Half>) return D(clamped(in_format<11, -14, 15>(given, mode), 65504));
  else if constexpr (std::is_same_v<D, Bfloat16>) return D(clamped(in_format<8, -126, 127>(given, mode), 0x1.fep127));
  else if constexpr (std::is_same_v<D, float>)
    return std::is_same_v<S, float> ? std::copysign((float)whole(given, mode), (float)given)
                                    : (float)in_format<24, -126, 127>(given, mode);
  else {
    if (given != given) return 0;
    const Wide found = std::isinf(given) ? given : whole(given, mode);
    const Wide least = std::numeric_limits<D>::min(), most = std::numeric_limits<D>::max();
    if (found >= least && found <= most) return (D)found;
    if (saturates()) return found < least ? (D)least : (D)most;
    return std::isinf(found) ? D(0) : (D)(std::uint64_t)(__int128)std::fmod(found, 0x1p64L);
  }
}

template <typename D, typename S>
void convert(char mode, D* to, S* from, u64 repeats, long to_block, long from_block, long to_repeat, long from_repeat) {
  each_lane([mode](S value) { return converted<D>(value, mode); }, repeats, Lanes<D>(to, to_block, to_repeat),
            Lanes<S>(from, from_block, from_repeat));
}

// ------------------------------------------------------------------------------------------------ reductions

// Lanes in pairs, then pairs of results, as long as there are some; a lane that is not active is not there.
template <typename T, typename F>
T tree(T* given, bool* lanes, int width, F combine) {
  for (; width > 1; width /= 2)
    for (int lane = 0; lane < width / 2; ++lane) {
      const int a = 2 * lane, b = a + 1;
      given[lane] = lanes[a] && lanes[b] ? combine(given[a], given[b]) : lanes[a] ? given[a] : given[b];
      lanes[lane] = lanes[a] || lanes[b];
    }
  return given[0];
}

// A result for each `part` lanes of a repeat, next to each other; results of repeats are `stride` bytes apart.
template <typename T, typename F>
void reduce(F combine, int part, T* to, T* from, u64 repeats, long stride, long block, long repeat) {
  constexpr int width = REPEAT / sizeof(T);
  const Lanes<T> source(from, block, repeat);
  each_step(width, repeats, [&](u64 step, const bool* lanes) {
    T given[width];
    bool present[width];
    for (int lane = 0; lane < width; ++lane) {
      if ((present[lane] = lanes[lane])) given[lane] = source.get(step, lane);
      else given[lane] = T(0);
    }
    for (int first = 0; first < width; first += part) {
      const T found = tree(given + first, present + first, part, combine);
      if (present[first]) put(on_chip(to) + step * stride + first / part * sizeof(T), found);
    }
  });
}

// The best lane and where it is, the first of equal ones. Order: value and place, the reverse, or one of them.
template <typename T, typename F>
void find(F better, T* to, T* from, u64 repeats, long stride, long block, long repeat, int order) {
  constexpr int width = REPEAT / sizeof(T);
  using Place = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
  const Lanes<T> source(from, block, repeat);
  each_step(width, repeats, [&](u64 step, const bool* lanes) {
    int best = -1;
    for (int lane = 0; lane < width; ++lane)
      if (lanes[lane] && (best < 0 || better(source.get(step, lane), source.get(step, best)))) best = lane;
    const T value = source.get(step, best);
    char* at = on_chip(to) + step * stride * (order < 2 ? 2 * sizeof(T) : order == 2 ? sizeof(T) : 4);
    if (order == 0) put(at, value), put<Place>(at + sizeof(T), best);
    else if (order == 1) put<Place>(at, best), put(at + sizeof(T), value);
    else if (order == 2) put(at, value);
    else put<std::uint32_t>(at, best);
  });
}

// ------------------------------------------------------------------------------------------------ bits

inline bool bit_of(const void* bits, u64 number) { return ((const unsigned char*)bits)[number / 8] >> number % 8 & 1; }
inline void put_bit(void* bits, u64 number, bool value) {
  unsigned char& byte = ((unsigned char*)bits)[number / 8];
  byte = value ? byte | 1u << number % 8 : byte & ~(1u << number % 8);
}

// A bit for each lane, repeat after repeat. All lanes of a repeat take part.
template <typename F, typename D, typename... S>
void compare(F holds, D* to, u64 repeats, Lanes<S>... from) {
  constexpr int width = REPEAT / (int)std::max({sizeof(S)...});
  each_step(width, repeats, [&](u64 step, const bool*) {
    bool found[width];
    for (int lane = 0; lane < width; ++lane) found[lane] = holds(from.get(step, lane)...);
    for (int lane = 0; lane < width; ++lane) put_bit(on_chip(to), step * width + lane, found[lane]);
  });
}

template <typename F, typename T>
void compare_to_mask(F holds, T* a, T* b, long block_a, long block_b) {
  const Lanes<T> first(a, block_a, 0), second(b, block_b, 0);
  for (int lane = 0; lane < REPEAT / (int)sizeof(T); ++lane)
    if (core.counts ? (u64)lane < core.low : active(lane))
      put_bit(core.compared, lane, holds(first.get(0, lane), second.get(0, lane)));
}

}  // namespace ptokit::values

// -------------------------------------------------------------------------------------------------- registers

inline void set_mask_norm() { ptokit::values::core.counts = false; }
inline void set_mask_count() { ptokit::values::core.counts = true; }
template <typename A, typename B>
inline void set_vector_mask(A high, B low) {
  ptokit::values::core.high = high;
  ptokit::values::core.low = low;
}
template <typename T>
inline void set_cmpmask(T* from) {
  std::memcpy(ptokit::values::core.compared, ptokit::values::on_chip(from), 16);
}
template <typename T>
inline void set_deqscale(T scale) { ptokit::values::core.scale = (float)scale; }
template <typename T>
inline void set_mov_pad_val(T value) { ptokit::values::core.pad = value; }
inline std::int64_t get_rsvd_cnt() { return ptokit::values::core.kept; }
inline std::int64_t get_vms4_sr() { return ptokit::values::core.merged; }
inline void ptokit_set_va_reg_sb(ub_addr8_t number, const std::uint64_t* rows) {
  std::memcpy(ptokit::values::core.rows[number], rows, sizeof ptokit::values::core.rows[0]);
}

// -------------------------------------------------------------------------------------------------- reductions

template <typename T, typename... More>
inline void vcadd(T* to, T* from, std::uint64_t repeats, long stride, long block, long repeat, More...) {
  using namespace ptokit::values;
  reduce(plus<T>, REPEAT / sizeof(T), to, from, repeats, stride * sizeof(T), block, repeat);
}
template <typename T>
inline void vcpadd(T* to, T* from, std::uint64_t repeats, long stride, long block, long repeat) {
  using namespace ptokit::values;
  reduce(plus<T>, 2, to, from, repeats, stride * REPEAT / 2, block, repeat);
}
#define PTOKIT_OF_BLOCKS(NAME, OPERATION)                                                                       \
  template <typename T>                                                                                        \
  inline void NAME(T* to, T* from, std::uint64_t repeats, long stride, long block, long repeat) {               \
    using namespace ptokit::values;                                                                            \
    reduce(OPERATION<T>, BLOCK / sizeof(T), to, from, repeats, stride * BLOCKS * sizeof(T), block, repeat);     \
  }
PTOKIT_OF_BLOCKS(vcgadd, plus)
PTOKIT_OF_BLOCKS(vcgmax, larger)
PTOKIT_OF_BLOCKS(vcgmin, smaller)
template <typename T, typename Order>
inline void vcmax(T* to, T* from, std::uint64_t repeats, long stride, long block, long repeat, Order order) {
  ptokit::values::find([](T a, T b) { return a > b; }, to, from, repeats, stride, block, repeat, (int)order);
}
template <typename T, typename Order>
inline void vcmin(T* to, T* from, std::uint64_t repeats, long stride, long block, long repeat, Order order) {
  ptokit::values::find([](T a, T b) { return a < b; }, to, from, repeats, stride, block, repeat, (int)order);
}

// -------------------------------------------------------------------------------------------------- selection

// Mode 0: the comparison mask; 1: masks in memory, and a scalar in the mask; 2: the mask has the address of masks.
template <typename D, typename A, typename B, typename Mode = int>
inline void vsel(D* to, A* first, B* second, std::uint64_t repeats, long to_block, long first_block, long second_block,
                 long to_repeat, long first_repeat, long second_repeat, Mode mode = Mode{}) {
  using namespace ptokit::values;
  constexpr int width = REPEAT / sizeof(D);
  const Lanes<D> target(to, to_block, to_repeat);
  const Lanes<A> chosen(first, first_block, first_repeat);
  const Lanes<D> other((D*)second, second_block, second_repeat);
  const void* masks = (int)mode == 0 ? (const void*)core.compared
                      : (int)mode == 1 ? (const void*)on_chip((const void*)second)
                                       : place(get<std::uint32_t>(core.compared));
  each_step(width, repeats, [&](u64 step, const bool* lanes) {
    D results[width];
    for (int lane = 0; lane < width; ++lane)
      if (lanes[lane]) {
        const bool takes = bit_of(masks, (int)mode == 0 ? lane : step * width + lane);
        results[lane] = takes ? get<D>(chosen.at(step, lane))
                              : (int)mode == 1 ? get<D>(core.compared) : other.get(step, lane);
      }
    for (int lane = 0; lane < width; ++lane)
      if (lanes[lane]) target.put(step, lane, results[lane]);
  });
}

#define PTOKIT_COMPARISON(MODE, SIGN)                                                                                \
  template <typename D, typename T>                                                                                  \
  inline void vcmpv_##MODE(D* to, T* a, T* b, std::uint64_t repeats, long, long block_a, long block_b, long,         \
                           long repeat_a, long repeat_b) {                                                           \
    using namespace ptokit::values;                                                                                  \
    compare([](T a, T b) { return a SIGN b; }, to, repeats, Lanes<T>(a, block_a, repeat_a), Lanes<T>(b, block_b, repeat_b)); \
  }                                                                                                                  \
  template <typename D, typename T, typename Scalar>                                                                 \
  inline void vcmpvs_##MODE(D* to, T* a, Scalar scalar, std::uint64_t repeats, long, long block, long, long repeat) { \
    using namespace ptokit::values;                                                                                  \
    compare([scalar](T a) { return a SIGN (T)scalar; }, to, repeats, Lanes<T>(a, block, repeat));                    \
  }                                                                                                                  \
  template <typename T, typename... More>                                                                            \
  inline void vcmp_##MODE(T* a, T* b, std::uint64_t, long, long block_a, long block_b, More...) {                    \
    ptokit::values::compare_to_mask([](T a, T b) { return a SIGN b; }, a, b, block_a, block_b);                      \
  }
PTOKIT_COMPARISON(eq, ==)
PTOKIT_COMPARISON(ne, !=)
PTOKIT_COMPARISON(lt, <)
PTOKIT_COMPARISON(le, <=)
PTOKIT_COMPARISON(gt, >)
PTOKIT_COMPARISON(ge, >=)

// -------------------------------------------------------------------------------------------------- movement

template <typename T, typename S, typename... More>
inline void vector_dup(T* to, S scalar, std::uint64_t repeats, long block, long, long repeat, More...) {
  using namespace ptokit::values;
  each_lane([scalar] { return (T)scalar; }, repeats, Lanes<T>(to, block, repeat));
}
// A counter is that of each repeat.
template <typename T, typename... More>
inline void vcopy(T* to, T* from, std::uint64_t repeats, long to_block, long from_block, long to_repeat, long from_repeat, More...) {
  using namespace ptokit::values;
  constexpr int width = REPEAT / sizeof(T);
  const Lanes<T> target(to, to_block, to_repeat), source(from, from_block, from_repeat);
  const u64 count = core.counts ? core.low : width;
  for (u64 step = 0; step < (repeats & 255); ++step)
    for (u64 lane = 0; lane < count; ++lane)
      if (core.counts || active((int)lane)) target.put(step, lane, source.get(step, lane));
}
template <typename T>
inline void vbrcb(T* to, T* from, long block, long repeat, std::uint64_t repeats) {
  using namespace ptokit::values;
  for (u64 step = 0; step < (repeats & 255); ++step) {
    T given[BLOCKS];
    std::memcpy(given, (T*)on_chip(from) + step * BLOCKS, sizeof given);
    for (int number = 0; number < BLOCKS; ++number)
      for (int lane = 0; lane < BLOCK / (int)sizeof(T); ++lane)
        put(on_chip(to) + (step * repeat + number * block) * BLOCK + lane * sizeof(T), given[number]);
  }
}
// The first of 32 bits that a pattern of four bits repeats; pattern 0 is in memory.
template <typename T, typename P, typename Mode>
inline void vreducev2(T* to, T* from, P* pattern, std::uint64_t repeats, long block, Mode kind, long repeat, long pattern_repeat) {
  using namespace ptokit::values;
  const int mode = (int)kind;
  constexpr int patterns[] = {0, 0b0101, 0b1010, 0b0001, 0b0010, 0b0100, 0b1000, 0b1111};
  constexpr int width = REPEAT / sizeof(T);
  const u64 count = core.counts ? core.low : width;
  u64 kept = 0;
  for (u64 step = 0; step < repeats; ++step)
    for (u64 lane = 0; lane < count; ++lane) {
      const bool takes = mode ? patterns[mode] >> lane % 4 & 1 : bit_of(on_chip(pattern) + step * pattern_repeat * BLOCK, lane);
      if (takes) put((T*)on_chip(to) + kept++, get<T>(Lanes<T>(from, block, repeat).at(step, lane)));
    }
  core.kept = kept;
}
template <typename T, typename O, typename A>
inline void vgather(T* to, O* offsets, A base, long repeat, std::uint64_t repeats) {
  using namespace ptokit::values;
  constexpr int width = REPEAT / sizeof(T);
  const Lanes<T> target(to, 1, repeat);
  each_step(width, repeats, [&](u64 step, const bool* lanes) {
    T found[width];
    for (int lane = 0; lane < width; ++lane)
      if (lanes[lane]) found[lane] = get<T>(place((u64)base) + ((std::uint32_t*)on_chip(offsets))[step * width + lane]);
    for (int lane = 0; lane < width; ++lane)
      if (lanes[lane]) target.put(step, lane, found[lane]);
  });
}
template <typename T, typename O, typename A>
inline void vgatherb(T* to, O* offsets, A base, long repeat, long block, std::uint64_t repeats) {
  using namespace ptokit::values;
  for (u64 step = 0; step < (repeats & 255); ++step)
    for (int number = 0; number < BLOCKS; ++number)
      std::memmove(on_chip(to) + (step * repeat + number * block) * BLOCK,
                   place((u64)base) + ((std::uint32_t*)on_chip(offsets))[step * BLOCKS + number], BLOCK);
}

// Rows at sixteen addresses, eight in each register: transposed as 16 x 16, or in two halves.
inline void ptokit_transpose(int size, int to, int from, std::uint64_t repeats, long to_stride, long from_stride, bool to_high, bool from_high) {
  using namespace ptokit::values;
  for (u64 step = 0; step < (repeats & 255); ++step) {
    const auto row = [&](int first, int number, long stride) {
      return place(core.rows[first + number / 8][number % 8]) + (repeats > 1 ? step * stride * BLOCK : 0);
    };
    unsigned char cells[16][BLOCK];
    for (int i = 0; i < 16; ++i) std::memcpy(cells[i], row(from, i, from_stride) + (size == 1 && from_high ? 16 : 0), size == 1 ? 16 : BLOCK);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < (size == 4 ? 8 : 16); ++j) {
        const int source = size == 4 ? i % 2 * 8 + j : j, column = size == 4 ? i / 2 : i;
        std::memcpy(row(to, i, to_stride) + (size == 1 && to_high ? 16 : 0) + j * size, cells[source] + column * size, size);
      }
  }
}
inline void scatter_vnchwconv_b8(int to, int from, std::uint64_t repeats, long to_stride, long from_stride, bool to_high, bool from_high) {
  ptokit_transpose(1, to, from, repeats, to_stride, from_stride, to_high, from_high);
}
inline void scatter_vnchwconv_b16(int to, int from, std::uint64_t repeats, long to_stride, long from_stride) {
  ptokit_transpose(2, to, from, repeats, to_stride, from_stride, false, false);
}
inline void scatter_vnchwconv_b32(int to, int from, std::uint64_t repeats, long to_stride, long from_stride) {
  ptokit_transpose(4, to, from, repeats, to_stride, from_stride, false, false);
}

namespace ptokit::values {

// Bursts: gaps are what lies between them.
inline void copy(void* to, const void* from, u64 count, u64 length, u64 from_gap, u64 to_gap) {
  for (u64 number = 0; number < count; ++number)
    std::memmove(on_chip(to) + number * (length + to_gap), on_chip(from) + number * (length + from_gap), length);
}
// Rows from global memory: each padded by elements, and then to a whole block that keeps what it had.
template <int SIZE>
void load(void* to, const void* from, u64 count, u64 length, u64 left, u64 right, u64 from_gap, u64 to_gap) {
  const u64 whole = length + (left + right) * SIZE, pitch = (whole + BLOCK - 1) / BLOCK * BLOCK + to_gap * BLOCK;
  for (u64 number = 0; number < count; ++number) {
    char* row = on_chip(to) + number * pitch;
    for (u64 lane = 0; lane < left + right; ++lane)
      std::memcpy(row + (lane < left ? lane * SIZE : lane * SIZE + length), &core.pad, SIZE);
    std::memcpy(row + left * SIZE, (const char*)from + number * (length + from_gap), length);
  }
}

// Scores with their numbers: a score fills four bytes.
struct Pair {
  char bytes[8];
};
// Numbers by value; a NaN is beyond them all, on the side of its sign.
template <typename T>
double key(const void* at) {
  const float value = (float)get<T>(at);
  return value == value ? (double)value : std::signbit(value) ? -1e300 : 1e300;
}

}  // namespace ptokit::values

template <typename... More>
inline void copy_ubuf_to_ubuf(void* to, void* from, int, std::uint64_t count, std::uint64_t length, std::uint64_t from_gap, std::uint64_t to_gap, More...) {
  ptokit::values::copy(to, from, count, length * 32, from_gap * 32, to_gap * 32);
}
template <typename... More>
inline void copy_gm_to_ubuf(void* to, void* from, int, std::uint64_t count, std::uint64_t length, std::uint64_t from_gap, std::uint64_t to_gap, More...) {
  ptokit::values::copy(to, from, count, length * 32, from_gap * 32, to_gap * 32);
}
template <typename... More>
inline void copy_ubuf_to_gm(void* to, void* from, int, std::uint64_t count, std::uint64_t length, std::uint64_t from_gap, std::uint64_t to_gap, More...) {
  ptokit::values::copy(to, from, count, length * 32, from_gap * 32, to_gap * 32);
}
#define PTOKIT_BURSTS(BITS)                                                                                            \
  inline void copy_gm_to_ubuf_align_b##BITS(void* to, void* from, int, std::uint64_t count, std::uint64_t length,      \
                                            std::uint64_t left, std::uint64_t right, std::uint64_t from_gap,           \
                                            std::uint64_t to_gap) {                                                    \
    ptokit::values::load<BITS / 8>(to, from, count, length, left, right, from_gap, to_gap);                            \
  }                                                                                                                    \
  inline void copy_ubuf_to_gm_align_b##BITS(void* to, void* from, int, std::uint64_t count, std::uint64_t length,      \
                                            std::uint64_t, std::uint64_t, std::uint64_t from_gap, std::uint64_t to_gap) { \
    const std::uint64_t rest = (32 - length % 32) % 32;                                                                \
    ptokit::values::copy(to, from, count, length, rest + from_gap * 32, to_gap);                                       \
  }
PTOKIT_BURSTS(8)
PTOKIT_BURSTS(16)
PTOKIT_BURSTS(32)

template <typename T, typename I>
inline void vbitsort(T* to, T* scores, I* numbers, std::uint64_t repeats) {
  using namespace ptokit::values;
  for (u64 step = 0; step < (repeats & 255); ++step) {
    Pair found[32] = {};
    for (int lane = 0; lane < 32; ++lane) {
      std::memcpy(found[lane].bytes, (T*)on_chip(scores) + step * 32 + lane, sizeof(T));
      std::memcpy(found[lane].bytes + 4, (I*)on_chip(numbers) + step * 32 + lane, 4);
    }
    std::stable_sort(found, found + 32, [](const Pair& a, const Pair& b) { return key<T>(a.bytes) > key<T>(b.bytes); });
    std::memcpy(on_chip(to) + step * sizeof found, found, sizeof found);
  }
}

// Merges up to four lists, the first list first among equals; a bit ends it when a list ends. Repeats take lists that
// follow one another.
template <typename T, std::size_t LISTS>
inline void ptokit_vmrgsort4(T* to, T* const (&lists)[LISTS], std::uint64_t lengths, std::uint64_t config) {
  using namespace ptokit::values;
  const u64 repeats = std::max<u64>(config & 255, 1);
  u64 total = 0;
  for (std::size_t k = 0; k < LISTS; ++k) total += config >> (8 + k) & 1 ? lengths >> 16 * k & 0xffff : 0;
  std::uint64_t taken[4] = {};
  for (u64 step = 0; step < repeats; ++step) {
    std::fill(taken, taken + 4, 0);
    Pair* target = (Pair*)on_chip(to) + step * total;
    for (u64 number = 0; number < total; ++number) {
      int best = -1;
      const auto pair = [&](std::size_t k) { return (const Pair*)lists[k] + step * total + taken[k]; };
      bool ended = false;
      for (std::size_t k = 0; k < LISTS; ++k) {
        if (!(config >> (8 + k) & 1)) continue;
        const bool has = taken[k] < (lengths >> 16 * k & 0xffff);
        ended |= !has;
        if (has && (best < 0 || key<T>(pair(k)) > key<T>(pair(best)))) best = (int)k;
      }
      if (best < 0 || (ended && config >> 12 & 1)) break;
      target[number] = *pair(best);
      ++taken[best];
    }
  }
  core.merged = taken[0] | taken[1] << 16 | taken[2] << 32 | taken[3] << 48;
}
#define set_va_reg_sb ptokit_set_va_reg_sb
#define vmrgsort4 ptokit_vmrgsort4
