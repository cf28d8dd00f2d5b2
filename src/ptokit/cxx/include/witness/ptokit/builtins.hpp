// What the vendor's headers need of a device compiler, for a host compiler: keywords, types, registers, and functions
// that record the intrinsics instead of running them. Compilers read this file before the source.
//
// `intrinsics.hpp` is generated from the table in ptokit/witness/intrinsics.py: one template for each name.
#pragma once

namespace ptokit {}  // with a declaration before it, no later include takes a precompiled header

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <ptokit/identity.hpp>
#include <ptokit/keywords.hpp>
#include <ptokit/numbers.hpp>
#include <ptokit/on_chip.hpp>
#include <ptokit/device_enums.hpp>

namespace ptokit {

template <typename T>
struct Never;

// What an intrinsic returns where no value is known: zero of any type.
struct Zero {
  template <typename T>
  constexpr operator T() const {
    return T{};
  }
};

// Bytes of the elements that an argument points to; 0 for an argument that is no pointer.
template <typename T>
constexpr std::int64_t pointee_size() {
  using U = std::remove_cvref_t<T>;
  if constexpr (!std::is_pointer_v<U>) return 0;
  else if constexpr (std::is_void_v<std::remove_pointer_t<U>>) return 1;
  else return sizeof(std::remove_pointer_t<U>);
}

template <typename T>
Operand witness_operand(const T& value) {
  if constexpr (std::is_pointer_v<T>) return Operand::of(static_cast<const void*>(value));
  else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) return Operand::of(value);
  else return Operand::of_bits(dtype_of<T>(), &value, sizeof(T) < 8 ? sizeof(T) : 8);
}

template <typename... A>
Zero witness(const char* name, const A&... arguments) {
  const Operand operands[] = {Operand{}, witness_operand(arguments)...};
  std::int64_t sizes = 0, place = 0;
  ((sizes |= pointee_size<A>() << 4 * place++), ...);
  const Modifier modifier{"sizes", nullptr, sizes};
  call(name, operands + 1, sizeof...(A), &modifier, 1);
  return {};
}

// Code of a source's own for vector registers has been taken out: it belongs to no public instruction.
inline void record(const char*) {}

// The address of an accumulator for a product with a bias, whose address is recorded instead of packed beside it.
template <typename Pointer, typename Bias>
std::uint64_t with_bias(Pointer accumulator, Bias bias) {
  witness("bias_address", bias);
  return reinterpret_cast<std::uint64_t>(accumulator);
}

// A public instruction: what is recorded until its end belongs to it. The line tells overloads apart.
struct Scope {
  explicit Scope(const char* name, int line = __builtin_LINE()) {
    const Operand operands[] = {Operand::of_text(name), Operand::of(line)};
    call("begin", operands, 2);
  }
  ~Scope() { call("end", nullptr, 0); }
};

template <typename Location>
std::uint64_t base_of(Location location) {
  return reinterpret_cast<std::uint64_t>(local(static_cast<Memory>(location), 0));
}

// Where a tile of a memory is on the host, unless the address is one of the host already.
template <typename Location>
std::uintptr_t mapped(Location location, std::uintptr_t address) {
  return address >> 32 ? address : address + base_of(location);
}

// A cast to a pointer into an on-chip memory.
template <Memory MEMORY, typename Pointer, typename Value>
Pointer on_chip(Value value) {
  if constexpr (std::is_integral_v<Value>) return reinterpret_cast<Pointer>(mapped(MEMORY, static_cast<std::uintptr_t>(value)));
  else return (Pointer)value;
}

}  // namespace ptokit

template <typename T>
inline T ld_dev(const T* address, std::int64_t offset = 0) {
  return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(address) + offset);
}
template <typename T, typename U>
inline void st_dev(T value, U* address, std::int64_t offset = 0) {
  *reinterpret_cast<U*>(reinterpret_cast<char*>(address) + offset) = static_cast<U>(value);
}

// An address in UB of 32 bits.
inline std::uint64_t get_imm(std::uint32_t address) {
  const auto base = ptokit::base_of(ptokit::Memory::vec);
  return base + static_cast<std::uint32_t>(address - static_cast<std::uint32_t>(base));
}

// Lists of addresses are recorded as the addresses in them.
inline void set_va_reg_sb(ub_addr8_t number, const std::uint64_t* rows) {
  ptokit::witness("set_va_reg_sb", number, rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7]);
}
template <typename T, typename U, std::size_t LISTS>
inline void vmrgsort4(T* target, U* const (&lists)[LISTS], std::uint64_t lengths, std::uint64_t config) {
  const auto list = [&](std::size_t number) { return number < LISTS ? lists[number] : nullptr; };
  ptokit::witness("vmrgsort4", target, list(0), list(1), list(2), list(3), lengths, config);
}

using std::max;
using std::min;

#ifdef PTOKIT_REGISTER_BASE
#include <ptokit/registers.hpp>
#endif
#include <ptokit/intrinsics.hpp>

#include <ptokit/launch.hpp>
