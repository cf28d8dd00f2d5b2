// Element types: small floating-point formats with arithmetic, four-bit integers, and their numbers in a recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <ptokit/recorder.hpp>

namespace ptokit {

// 2 to the power of n, for exponents of normal doubles.
constexpr double power_of_two(int n) {
  return __builtin_bit_cast(double, static_cast<std::uint64_t>(n + 1023) << 52);
}

// A format with a sign, EXPONENT bits and MANTISSA bits.
// INFINITE: the largest exponent means infinity and NaN; NAN_ONLY: only all ones are NaN; FINITE: neither exists.
enum class Specials { INFINITE, NAN_ONLY, FINITE };

template <int EXPONENT, int MANTISSA, Specials SPECIALS>
struct Format {
  static constexpr int bias = (1 << (EXPONENT - 1)) - 1;
  static constexpr int least = 1 - bias;
  static constexpr std::uint32_t sign = 1u << (EXPONENT + MANTISSA);
  static constexpr std::uint32_t top = ((1u << EXPONENT) - 1) << MANTISSA;
  static constexpr std::uint32_t largest = SPECIALS == Specials::INFINITE ? top - 1
                                           : SPECIALS == Specials::NAN_ONLY ? (sign - 1) - 1
                                                                            : sign - 1;
  static constexpr std::uint32_t nan = SPECIALS == Specials::INFINITE ? top | (1u << (MANTISSA - 1)) : sign - 1;
  static constexpr std::uint32_t overflow =
      SPECIALS == Specials::INFINITE ? top : SPECIALS == Specials::NAN_ONLY ? nan : largest;

  // The nearest number, ties to even.
  static constexpr std::uint32_t encode(double value) {
    const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, value);
    const std::uint32_t negative = (bits >> 63) ? sign : 0;
    const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
    if (exponent == 1024) return fraction ? negative | nan : negative | overflow;
    if (exponent == -1023) return negative;
    const std::uint64_t significand = fraction | (std::uint64_t{1} << 52);
    const int below = exponent < least ? least - exponent : 0;
    const int shift = 52 - MANTISSA + below;
    if (shift > 54) return negative;
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    const std::uint64_t rest = significand & ((half << 1) - 1);
    std::uint64_t rounded = significand >> shift;
    rounded += rest > half || (rest == half && (rounded & 1));
    const std::uint64_t base = below ? 0 : static_cast<std::uint64_t>(exponent - least) << MANTISSA;
    const std::uint64_t encoded = base + rounded;
    return negative | (encoded > largest ? overflow : static_cast<std::uint32_t>(encoded));
  }

  static constexpr double decode(std::uint32_t bits) {
    const double one = (bits & sign) ? -1.0 : 1.0;
    const std::uint32_t magnitude = bits & (sign - 1);
    const std::uint32_t mantissa = magnitude & ((1u << MANTISSA) - 1);
    const int exponent = static_cast<int>(magnitude >> MANTISSA);
    if (magnitude > largest) {
      return mantissa == 0 && SPECIALS == Specials::INFINITE ? one * __builtin_inf() : __builtin_nan("");
    }
    if (exponent == 0) return one * mantissa * power_of_two(least - MANTISSA);
    return one * (mantissa + (1u << MANTISSA)) * power_of_two(exponent - bias - MANTISSA);
  }
};

// A power of two without a sign: 255 is NaN, as is a negative number.
struct PowerFormat {
  static constexpr std::uint32_t encode(double value) {
    if (value < 0) return 255;
    const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, value);
    int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
    if (exponent == 1024) return 255;
    exponent += (bits >> 51) & 1;
    return exponent < -127 ? 0 : exponent > 127 ? 255 : static_cast<std::uint32_t>(exponent + 127);
  }
  static constexpr double decode(std::uint32_t bits) {
    return bits == 255 ? __builtin_nan("") : power_of_two(static_cast<int>(bits) - 127);
  }
};

// HiFloat8: a prefix gives the width of the exponent, whose first bit is its sign and whose highest bit is implied.
struct TaperedFormat {
  static constexpr double decode(std::uint32_t bits) {
    const double one = (bits & 0x80) ? -1.0 : 1.0;
    const std::uint32_t rest = bits & 0x7f;
    if (rest == 0) return (bits & 0x80) ? __builtin_nan("") : 0.0;
    if (rest == 0x6f) return one * __builtin_inf();
    if (rest < 8) return one * power_of_two(static_cast<int>(rest) - 23);
    int width = 0, used = 4;
    if (rest >= 0x60) width = 4, used = 2;
    else if (rest >= 0x40) width = 3, used = 2;
    else if (rest >= 0x20) width = 2, used = 2;
    else if (rest >= 0x10) width = 1, used = 3;
    const int mantissa_bits = 7 - used - width;
    const std::uint32_t mantissa = rest & ((1u << mantissa_bits) - 1);
    const std::uint32_t field = (rest >> mantissa_bits) & ((1u << width) - 1);
    int exponent = 0;
    if (width > 0) {
      const std::uint32_t low = field & ((1u << (width - 1)) - 1);
      exponent = static_cast<int>(low | (1u << (width - 1)));
      if (field >> (width - 1)) exponent = -exponent;
    }
    return one * (1.0 + mantissa * power_of_two(-mantissa_bits)) * power_of_two(exponent);
  }

  // The nearest number, ties away from zero.
  static constexpr std::uint32_t encode(double value) {
    if (value != value) return 0x80;
    const double size = value < 0 ? -value : value;
    const std::uint32_t sign = value < 0 ? 0x80 : 0;
    if (size >= 40960.0) return sign | 0x6f;
    std::uint32_t best = 0;
    double error = size;
    for (std::uint32_t bits = 1; bits < 0x80; ++bits) {
      if (bits == 0x6f) continue;
      const double candidate = decode(bits), distance = candidate < size ? size - candidate : candidate - size;
      if (distance < error || (distance == error && candidate > decode(best))) best = bits, error = distance;
    }
    return best ? sign | best : 0;
  }
};

struct SmallFloatTag {};

template <typename T>
inline constexpr bool is_small_float = std::is_base_of_v<SmallFloatTag, T>;

// A number of a small format. Arithmetic of two numbers of one format rounds to it; with other types, C++ converts.
template <typename FORMAT, typename STORAGE, DType DTYPE>
struct SmallFloat : SmallFloatTag {
  static constexpr DType dtype = DTYPE;
  STORAGE bits;

  SmallFloat() = default;
  template <typename T>
    requires(std::is_arithmetic_v<T>)
  constexpr SmallFloat(T value) : bits(static_cast<STORAGE>(FORMAT::encode(static_cast<double>(value)))) {}
  template <typename T>
    requires(is_small_float<T> && !std::is_same_v<T, SmallFloat>)
  constexpr explicit SmallFloat(T value) : SmallFloat(static_cast<float>(value)) {}

  static constexpr SmallFloat of_bits(STORAGE bits) {
    SmallFloat made(0);
    made.bits = bits;
    return made;
  }
  constexpr operator float() const { return static_cast<float>(FORMAT::decode(bits)); }

  template <typename T>
  constexpr SmallFloat& operator+=(T other) { return *this = SmallFloat(static_cast<float>(*this) + static_cast<float>(other)); }
  template <typename T>
  constexpr SmallFloat& operator-=(T other) { return *this = SmallFloat(static_cast<float>(*this) - static_cast<float>(other)); }
  template <typename T>
  constexpr SmallFloat& operator*=(T other) { return *this = SmallFloat(static_cast<float>(*this) * static_cast<float>(other)); }
  template <typename T>
  constexpr SmallFloat& operator/=(T other) { return *this = SmallFloat(static_cast<float>(*this) / static_cast<float>(other)); }
};

template <typename T>
concept SmallNumber = is_small_float<T>;

template <SmallNumber T>
constexpr T operator+(T a, T b) { return T(static_cast<float>(a) + static_cast<float>(b)); }
template <SmallNumber T>
constexpr T operator-(T a, T b) { return T(static_cast<float>(a) - static_cast<float>(b)); }
template <SmallNumber T>
constexpr T operator*(T a, T b) { return T(static_cast<float>(a) * static_cast<float>(b)); }
template <SmallNumber T>
constexpr T operator/(T a, T b) { return T(static_cast<float>(a) / static_cast<float>(b)); }
template <SmallNumber T>
constexpr T operator-(T a) { return T(-static_cast<float>(a)); }

using Half = SmallFloat<Format<5, 10, Specials::INFINITE>, std::uint16_t, DType::f16>;
using Bfloat16 = SmallFloat<Format<8, 7, Specials::INFINITE>, std::uint16_t, DType::bf16>;
using Float8E4M3 = SmallFloat<Format<4, 3, Specials::NAN_ONLY>, std::uint8_t, DType::f8e4m3>;
using Float8E5M2 = SmallFloat<Format<5, 2, Specials::INFINITE>, std::uint8_t, DType::f8e5m2>;
using Float8E8M0 = SmallFloat<PowerFormat, std::uint8_t, DType::f8e8m0>;
using HiFloat8 = SmallFloat<TaperedFormat, std::uint8_t, DType::hif8>;

// Two four-bit numbers in a byte, the first one in the low bits.
template <typename FORMAT, DType DTYPE>
struct Pair {
  static constexpr DType dtype = DTYPE;
  std::uint8_t bits;

  Pair() = default;
  template <typename T>
    requires(std::is_integral_v<T>)
  constexpr explicit Pair(T value) : bits(static_cast<std::uint8_t>(value)) {}
  constexpr Pair(float low, float high)
      : bits(static_cast<std::uint8_t>((FORMAT::encode(low) & 15) | ((FORMAT::encode(high) & 15) << 4))) {}
  constexpr float low() const { return static_cast<float>(FORMAT::decode(bits & 15)); }
  constexpr float high() const { return static_cast<float>(FORMAT::decode(bits >> 4)); }
  constexpr explicit operator std::uint8_t() const { return bits; }
};

// A four-bit format whose exponent has one bit: 0, 0.25, ... 1.75 with a bias of one.
struct NarrowFormat {
  static constexpr double decode(std::uint32_t bits) { return ((bits & 8) ? -0.25 : 0.25) * (bits & 7); }
  static constexpr std::uint32_t encode(double value) {
    const double size = (value < 0 ? -value : value) * 4;
    std::uint32_t whole = size >= 7 ? 7 : static_cast<std::uint32_t>(size);
    const double rest = size - whole;
    if (whole < 7 && (rest > 0.5 || (rest == 0.5 && (whole & 1)))) ++whole;
    return (value < 0 ? 8 : 0) | whole;
  }
};

using Float4E2M1Pair = Pair<Format<2, 1, Specials::FINITE>, DType::f4e2m1>;
using Float4E1M2Pair = Pair<NarrowFormat, DType::f4e1m2>;

// A four-bit integer in a byte of its own.
struct Int4 {
  static constexpr DType dtype = DType::i4;
  std::uint8_t storage;

  Int4() = default;
  constexpr explicit Int4(std::int32_t value) : storage(static_cast<std::uint8_t>(value) & 15) {}
  constexpr operator std::int8_t() const { return static_cast<std::int8_t>((storage & 8) ? storage | 0xf0 : storage); }
};

template <typename T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (requires { U::dtype; }) return U::dtype;
  else if constexpr (std::is_enum_v<U>) return dtype_of<std::underlying_type_t<U>>();
  else if constexpr (std::is_same_v<U, bool>) return DType::boolean;
  else if constexpr (std::is_floating_point_v<U>) return sizeof(U) == 4 ? DType::f32 : DType::f64;
  else if constexpr (std::is_integral_v<U>) {
    constexpr DType with_sign[] = {DType::i8, DType::i16, DType::i32, DType::i64};
    constexpr DType without[] = {DType::u8, DType::u16, DType::u32, DType::u64};
    constexpr int place = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
    return std::is_signed_v<U> ? with_sign[place] : without[place];
  } else return DType::u8;
}

template <typename T>
inline constexpr bool is_number = std::is_arithmetic_v<T> || requires { T::dtype; };

}  // namespace ptokit

using half = ptokit::Half;
#if !defined(__aarch64__) && !defined(__arm__)
#define __fp16 half  // a type of compilers for Arm, which sources use as the same one
#endif
using float16_t = ptokit::Half;
using float32_t = float;
using bfloat16_t = ptokit::Bfloat16;
using float8_e4m3_t = ptokit::Float8E4M3;
using float8_e5m2_t = ptokit::Float8E5M2;
using float8_e8m0_t = ptokit::Float8E8M0;
using hifloat8_t = ptokit::HiFloat8;
using float4_e2m1x2_t = ptokit::Float4E2M1Pair;
using float4_e1m2x2_t = ptokit::Float4E1M2Pair;

namespace pto {
using int4b_t = ptokit::Int4;
}
