// The functions of a source that can be run: launch functions and kernels, with the types of their parameters.
#pragma once

#include <utility>

#include <ptokit/launch.hpp>

namespace ptokit {

enum class ParameterKind : std::uint8_t { pointer, scalar, other };

struct Parameter {
  ParameterKind kind;
  DType dtype;          // of the scalar, or of what a pointer points to
  std::uint8_t size;    // bytes of the scalar; of the element that a pointer points to, 0 for void
  std::uint8_t constant;  // whether a pointer points to constant elements
};

// One entry. `call` takes eight bytes for each parameter: a pointer, or the bytes of a scalar.
struct Entry {
  const char* name;
  const Parameter* parameters;
  std::uint64_t count;
  void (*call)(const std::uint64_t* values);
  const Entry* next;
};

inline const Entry* first_entry = nullptr;

template <typename T>
constexpr Parameter parameter_of() {
  using U = std::remove_cvref_t<T>;
  if constexpr (std::is_pointer_v<U>) {
    using E = std::remove_pointer_t<U>;
    if constexpr (std::is_void_v<E> || std::is_function_v<E>) return {ParameterKind::pointer, DType::u8, 0, std::is_const_v<E>};
    else return {ParameterKind::pointer, dtype_of<E>(), sizeof(E) > 255 ? 0 : sizeof(E), std::is_const_v<E>};
  } else if constexpr (is_number<U> || std::is_enum_v<U>) {
    return {ParameterKind::scalar, dtype_of<U>(), sizeof(U), 0};
  } else {
    return {ParameterKind::other, DType::u8, sizeof(U) > 255 ? 0 : sizeof(U), 0};
  }
}

template <typename T>
std::remove_cvref_t<T> argument_of(std::uint64_t value) {
  using U = std::remove_cvref_t<T>;
  U made{};
  if constexpr (sizeof(U) <= sizeof(value)) __builtin_memcpy(static_cast<void*>(&made), &value, sizeof(U));
  else __builtin_memcpy(static_cast<void*>(&made), reinterpret_cast<const void*>(static_cast<std::uintptr_t>(value)), sizeof(U));
  return made;
}

// The arguments are variables, as a parameter may be a reference.
template <auto FUNCTION, typename... P>
void call_with(std::remove_cvref_t<P>... held) {
  FUNCTION(static_cast<P>(held)...);
}

template <auto FUNCTION, typename... P, std::size_t... I>
void call_entry(const std::uint64_t* values, std::index_sequence<I...>) {
  (void)values;
  call_with<FUNCTION, P...>(argument_of<P>(values[I])...);
}

template <auto FUNCTION, typename Signature>
struct Entered;

template <auto FUNCTION, typename R, typename... P>
struct Entered<FUNCTION, R (*)(P...)> {
  static constexpr Parameter parameters[sizeof...(P) + 1] = {parameter_of<P>()...};
  static void call(const std::uint64_t* values) { call_entry<FUNCTION, P...>(values, std::index_sequence_for<P...>{}); }
};

template <typename R, typename... P>
constexpr std::uint64_t parameter_count(R (*)(P...)) {
  return sizeof...(P);
}

// Registers a function while the library is loaded.
template <auto FUNCTION>
struct Register {
  using Made = Entered<FUNCTION, decltype(FUNCTION)>;
  Entry entry;
  explicit Register(const char* name)
      : entry{name, Made::parameters, parameter_count(FUNCTION), &Made::call, first_entry} {
    first_entry = &entry;
  }
};

template <auto FUNCTION, typename Signature>
struct Launched;

// A kernel as an entry: its first parameter is the number of blocks.
template <auto FUNCTION, typename R, typename... P>
struct Launched<FUNCTION, R (*)(P...)> {
  static constexpr Parameter parameters[sizeof...(P) + 1] = {parameter_of<std::uint32_t>(), parameter_of<P>()...};
  static inline const char* name = "";
  static void call(const std::uint64_t* values) {
    chevron(name, [values] { call_entry<FUNCTION, P...>(values + 1, std::index_sequence_for<P...>{}); }, values[0]);
  }
};

template <auto FUNCTION>
struct RegisterKernel {
  using Made = Launched<FUNCTION, decltype(FUNCTION)>;
  Entry entry;
  explicit RegisterKernel(const char* name)
      : entry{name, Made::parameters, parameter_count(FUNCTION) + 1, &Made::call, first_entry} {
    Made::name = name;
    first_entry = &entry;
  }
};

}  // namespace ptokit

// The entries of a library, the last one first.
extern "C" __attribute__((visibility("default"), used, weak)) const ptokit::Entry* ptokit_entries() {
  return ptokit::first_entry;
}
