// Vector registers, masks and threads of cores with vector registers. What a register holds is not known.
#pragma once

#include <ptokit/threads.hpp>

// A vector register, by its element type.
template <typename T>
struct ptokit_register {
  ptokit_register() = default;
  template <typename U>
  ptokit_register(const ptokit_register<U>&) {}
};
#define PTOKIT_REGISTER(NAME, ...) using vector_##NAME = ptokit_register<__VA_ARGS__>;
PTOKIT_REGISTER(s8, std::int8_t)
PTOKIT_REGISTER(u8, std::uint8_t)
PTOKIT_REGISTER(s16, std::int16_t)
PTOKIT_REGISTER(u16, std::uint16_t)
PTOKIT_REGISTER(s32, std::int32_t)
PTOKIT_REGISTER(u32, std::uint32_t)
PTOKIT_REGISTER(s64, std::int64_t)
PTOKIT_REGISTER(u64, std::uint64_t)
PTOKIT_REGISTER(f16, half)
PTOKIT_REGISTER(f32, float)
PTOKIT_REGISTER(bf16, bfloat16_t)
PTOKIT_REGISTER(f8e4m3, float8_e4m3_t)
PTOKIT_REGISTER(f8e5m2, float8_e5m2_t)
PTOKIT_REGISTER(f8e8m0, float8_e8m0_t)
PTOKIT_REGISTER(hif8, hifloat8_t)
PTOKIT_REGISTER(f4e1m2x2, float4_e1m2x2_t)
PTOKIT_REGISTER(f4e2m1x2, float4_e2m1x2_t)

// A mask has the number of the call that made it.
struct vector_bool {
  std::uint64_t number = 0;
};
struct vector_align {};
struct vector_address {};

enum class Spr : int { AR = 74 };
inline constexpr std::integral_constant<Spr, Spr::AR> SPR_AR{};
struct ptokit_post {};
inline constexpr ptokit_post POST_UPDATE{};
#define __VEC_SCOPE__ if (const ptokit::VectorScope ptokit_vector_scope{}; true)

namespace __cce_simd {
struct RoundRType {};
struct RoundAType {};
struct RoundFType {};
struct RoundCType {};
struct RoundZType {};
struct RoundOType {};
struct RoundHType {};
}  // namespace __cce_simd
inline constexpr __cce_simd::RoundRType ROUND_R{};
inline constexpr __cce_simd::RoundAType ROUND_A{};
inline constexpr __cce_simd::RoundFType ROUND_F{};
inline constexpr __cce_simd::RoundCType ROUND_C{};
inline constexpr __cce_simd::RoundZType ROUND_Z{};
inline constexpr __cce_simd::RoundOType ROUND_O{};
inline constexpr __cce_simd::RoundHType ROUND_H{};

namespace ptokit {

// Code that the vector unit runs: its scalar accesses, too, are of that pipe.
struct VectorScope {
  VectorScope() { call("vector_begin", nullptr, 0); }
  ~VectorScope() { call("vector_end", nullptr, 0); }
};

inline std::uint64_t masks_made = 0;

// The address of the scales of an operand of the cube core, in their memory: a sixteenth of the operand's.
inline std::uint64_t scale_address(std::uintptr_t address) {
  for (const Memory memory : {Memory::left, Memory::right})
    if (address - base_of(memory) < PTOKIT_L0A_BYTES) return (address - base_of(memory)) >> 4;
  return address >> 4;
}

template <typename T>
constexpr int lane_code = -1;
template <typename T>
constexpr int lane_code<ptokit_register<T>> = 9 + (sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3);
template <typename T>
constexpr bool is_pair = false;
template <typename FORMAT, DType DTYPE>
constexpr bool is_pair<Pair<FORMAT, DTYPE>> = true;

// What `Issued.sizes` of the reader has for an argument.
template <typename A>
constexpr std::int64_t argument_code() {
  using U = std::remove_cvref_t<A>;
  if constexpr (std::is_same_v<U, vector_bool>) return 15;
  else if constexpr (std::is_pointer_v<U>) return is_pair<std::remove_cv_t<std::remove_pointer_t<U>>> ? 13 : pointee_size<U>();
  else if constexpr (requires { typename U::RegType; }) return lane_code<typename U::RegType>;
  else return lane_code<U> < 0 ? 0 : lane_code<U>;
}

template <typename A>
Operand noted_operand(const A& value) {
  if constexpr (std::is_same_v<A, vector_bool>) return Operand::of(value.number);
  else if constexpr (std::is_same_v<A, ptokit_post>) return Operand::of(-1);
  else if constexpr (requires { A::value; }) return Operand::of(A::value);
  else if constexpr (argument_code<A>() >= 9 && !std::is_pointer_v<A> || std::is_empty_v<A>) return Operand::of(0);
  else return witness_operand(value);
}

template <typename A>
void renew(A& value, Operand& operand) {
  if constexpr (std::is_same_v<A, vector_bool>) operand = Operand::of(value.number = ++masks_made);
}

// A pointer that a call moves.
template <typename A>
void advance(A& value, std::int64_t elements) {
  if constexpr (std::is_pointer_v<A> && !std::is_const_v<A>) value += elements;
}

// How far a call moves its pointer: as many elements as its first number says, or the blocks in a configuration.
template <typename... A>
std::int64_t elements_of(const char* name, const A&... arguments) {
  std::int64_t found = 0, bytes = 1;
  bool seen = false;
  const auto look = [&](const auto& value) {
    using U = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_integral_v<U>) found = seen ? found : static_cast<std::int64_t>(value), seen = true;
    if constexpr (std::is_pointer_v<U>) bytes = sizeof(std::remove_pointer_t<U>);
  };
  (look(arguments), ...);
  return std::strcmp(name, "vsstb") ? found : (found & 0xffff) * 32 / bytes;
}

// Records a call. It writes as many masks as MASKS says, which its first arguments name.
template <int MASKS, typename... A>
auto noted(const char* name, A&... arguments) {
  if constexpr (MASKS < 0) {
    vector_bool made;
    noted<1>(name, made, arguments...);
    return made;
  } else {
    Operand operands[] = {Operand{}, noted_operand<std::remove_cv_t<A>>(arguments)...};
    int place = 0;
    ((place < MASKS ? renew(arguments, operands[1 + place]) : void(), ++place), ...);
    std::int64_t sizes = 0;
    place = 0;
    ((sizes |= place < 16 ? argument_code<A>() << 4 * place : 0, ++place), ...);
    const Modifier modifier{"sizes", nullptr, sizes};
    call(name, operands + 1, sizeof...(A), &modifier, 1);
    if constexpr ((std::is_same_v<std::remove_cv_t<A>, ptokit_post> || ...)) {
      const std::int64_t elements = elements_of(name, arguments...);
      if (std::strcmp(name, "vstur")) (advance(arguments, elements), ...);
    }
    return Zero{};
  }
}

// A mask of the first lanes: the count goes down by what a register has.
template <int LANES, typename T>
vector_bool counted(const char* name, T& count) {
  const vector_bool made = noted<-1>(name, count);
  count -= count < LANES ? count : LANES;
  return made;
}

}  // namespace ptokit

template <typename T, typename... A>
vector_bool plt_b8(T& count, A...) { return ptokit::counted<256>("plt_b8", count); }
template <typename T, typename... A>
vector_bool plt_b16(T& count, A...) { return ptokit::counted<128>("plt_b16", count); }
template <typename T, typename... A>
vector_bool plt_b32(T& count, A...) { return ptokit::counted<64>("plt_b32", count); }

namespace cce {
using ::dim3;
template <auto FUNCTION, typename... A>
inline void async_invoke(dim3 threads, A... arguments) {
  const ptokit::VectorScope scope;
  ptokit::invoke<FUNCTION>(threads, arguments...);
}
}  // namespace cce
