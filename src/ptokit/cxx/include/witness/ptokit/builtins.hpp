// What the vendor's headers need of a device compiler, for a host compiler: keywords, types, registers, and functions
// that record the intrinsics instead of running them. Compilers read this file before the source.
//
// `intrinsics.hpp` is generated from the table in ptokit/witness/intrinsics.py: one template for each name.
#pragma once

namespace ptokit {}  // with a declaration before it, no later include takes a precompiled header

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <ptokit/keywords.hpp>
#include <ptokit/numbers.hpp>
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

// A public instruction: what is recorded until its end belongs to it.
struct Scope {
  const char* name;
  explicit Scope(const char* name) : name(name) { mark("begin"); }
  ~Scope() { mark("end"); }
  void mark(const char* what) const {
    const Operand operand = Operand::of_text(name);
    call(what, &operand, 1);
  }
};

// The registers of the core: what the headers read back.
inline std::uint64_t control = 0;

template <typename Location>
std::uint64_t base_of(Location location) {
  return reinterpret_cast<std::uint64_t>(local(static_cast<Memory>(location), 0));
}

}  // namespace ptokit

inline std::uint32_t get_block_idx() { return static_cast<std::uint32_t>(ptokit::block_idx()); }
inline std::int64_t get_block_num() { return static_cast<std::int64_t>(ptokit::block_num()); }
inline std::int64_t get_subblockid() { return static_cast<std::int64_t>(ptokit::subblock_idx()); }
inline std::int64_t get_subblockdim() { return static_cast<std::int64_t>(ptokit::subblock_num()); }
inline std::int64_t get_coreid() { return get_block_idx(); }
inline std::uint64_t get_ctrl() { return ptokit::control; }
inline void set_ctrl(std::uint64_t value) { ptokit::control = value; }
inline std::uint64_t sbitset0(std::uint64_t value, int bit) { return value & ~(std::uint64_t{1} << bit); }
inline std::uint64_t sbitset1(std::uint64_t value, int bit) { return value | (std::uint64_t{1} << bit); }
inline void trap() { ptokit::fail("the kernel called trap()"); }
template <typename T>
inline T ld_dev(const T* address, std::int64_t offset = 0) {
  return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(address) + offset);
}

#include <ptokit/intrinsics.hpp>

#include <ptokit/launch.hpp>
