// How a call of an instruction function becomes a recorded call.
#pragma once

#include <ptokit/tile.hpp>

namespace pto {
// The end of an instruction. An `Event` turns it into a flag.
struct RecordEvent {
  void Wait() const;
};
struct EventBaseTag {};
template <typename T>
struct is_event : std::is_base_of<EventBaseTag, T> {};
template <typename... T>
inline constexpr bool all_events_v = (is_event<T>::value && ...);
struct PipeTag {};
}  // namespace pto

namespace ptokit {

template <auto... V>
struct Values {};
template <typename... T>
struct Types {};

template <typename T>
concept HasInfo = requires(const T& value) { value.ptokit_info(); };
template <typename T>
concept IsTile = HasInfo<T> && requires(T& value) { value.ptokit_place(); };
template <typename T>
concept IsEvent = std::is_base_of_v<pto::EventBaseTag, T>;
template <typename T>
concept HasWords = requires(T value) { word_of(value); };

// A call while its arguments are collected.
struct Pending {
  static constexpr std::size_t most = 24;
  const char* name;
  const char* key;  // of template parameters that are plain numbers
  Operand operands[most];
  Modifier modifiers[most];
  std::size_t operand_count = 0;
  std::size_t modifier_count = 0;

  Pending(const char* name, const char* key) : name(name), key(key) {}
  void add(const Operand& operand) {
    if (operand_count < most) operands[operand_count++] = operand;
  }
  void modify(const char* key, const char* text, std::int64_t number) {
    if (modifier_count < most) modifiers[modifier_count++] = Modifier{key, text, number};
  }
  void finish() { call(name, operands, operand_count, modifiers, modifier_count); }
};

// The element type that scalars of a call take: that of the tile number LIKE, or no other one.
template <int LIKE, typename... A>
struct ScalarType {
  using type = void;
};
template <int LIKE, typename First, typename... Rest>
  requires(LIKE >= 0)
struct ScalarType<LIKE, First, Rest...> {
  static constexpr bool is_tile = HasInfo<std::remove_cvref_t<First>>;
  using next = typename ScalarType<is_tile ? LIKE - 1 : LIKE, Rest...>::type;
  template <typename T, bool IS_TILE>
  struct pick {
    using type = void;
  };
  template <typename T>
  struct pick<T, true> {
    using type = typename T::DType;
  };
  using type = std::conditional_t<is_tile && (LIKE == 0 || std::is_void_v<next>),
                                  typename pick<std::remove_cvref_t<First>, is_tile>::type, next>;
};

template <typename LIKE, typename T>
void add_argument(Pending& call, const T& value) {
  if constexpr (HasInfo<T>) {
    call.add(Operand::of(value.ptokit_info()));
  } else if constexpr (IsEvent<T>) {
  } else if constexpr (HasWords<T>) {
    call.modify(key_of(value), word_of(value), static_cast<std::int64_t>(value));
  } else if constexpr (std::is_array_v<T>) {
    for (const auto& item : value) add_argument<void>(call, item);
  } else if constexpr (std::is_pointer_v<T> && HasInfo<std::remove_cv_t<std::remove_pointer_t<T>>>) {
    if (value) {  // an operand that may be left out
      call.modify("pointer", nullptr, static_cast<std::int64_t>(call.operand_count));
      call.add(Operand::of(value->ptokit_info()));
    }
  } else if constexpr (std::is_pointer_v<T>) {
    call.add(Operand::of(static_cast<const void*>(const_cast<const std::remove_cv_t<std::remove_pointer_t<T>>*>(value))));
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    call.add(Operand::of(static_cast<const void*>(nullptr)));
  } else if constexpr (std::is_enum_v<T>) {
    call.add(Operand::of(value));
  } else if constexpr (is_number<T>) {
    if constexpr (is_number<LIKE> && !std::is_same_v<LIKE, T> && std::is_convertible_v<T, LIKE>) {
      const LIKE converted = static_cast<LIKE>(value);
      call.add(Operand::of_bits(dtype_of<LIKE>(), &converted, sizeof(converted)));
    } else {
      call.add(Operand::of_bits(dtype_of<T>(), &value, sizeof(value)));
    }
  } else if constexpr (requires { value.ptokit_describe(call); }) {
    value.ptokit_describe(call);
  } else {
    call.add(Operand::of(static_cast<const void*>(&value)));
  }
}

template <auto V>
void add_value(Pending& call) {
  using T = std::remove_cv_t<decltype(V)>;
  if constexpr (HasWords<T>) {
    call.modify(key_of(V), word_of(V), static_cast<std::int64_t>(V));
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    call.modify(call.key, nullptr, static_cast<std::int64_t>(V));
  }
}

// A type that is a template argument may carry parameters, as those of the fixpipe.
template <typename T>
void add_type(Pending& call) {
  if constexpr (requires { T::ptokit_modifiers(call); }) T::ptokit_modifiers(call);
}

template <typename T>
void wait_for(T& value) {
  if constexpr (IsEvent<T>) value.Wait();
}

template <int LIKE, typename... T, auto... V, typename... A>
void issue(const char* name, const char* key, Types<T...>, Values<V...>, A&... arguments) {
  using Like = typename ScalarType<LIKE, A...>::type;
  (wait_for(arguments), ...);
  Pending call(name, key);
  (add_value<V>(call), ...);
  (add_type<T>(call), ...);
  (add_argument<Like>(call, arguments), ...);
  call.finish();
}

// The same without template parameters.
template <typename... A>
void record(const char* name, const A&... arguments) {
  Pending call(name, "value");
  (add_argument<void>(call, arguments), ...);
  call.finish();
}

}  // namespace ptokit

// Without an event there is no flag to wait for.
inline void pto::RecordEvent::Wait() const { ptokit::record("event_wait"); }

// Template arguments may be types, values, types then values, one to four values then types, or a value, types and
// values. C++ has no single parameter list for these, so there is an overload for each.
#define PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, PARAMETERS, TYPES, VALUES)                                \
  template <PTOKIT_UNPACK PARAMETERS, typename... PtokitA>                                               \
  inline ::pto::RecordEvent NAME(PtokitA&&... a) {                                                       \
    ::ptokit::issue<LIKE>(TEXT, KEY, ::ptokit::Types<PTOKIT_UNPACK TYPES>{},                             \
                          ::ptokit::Values<PTOKIT_UNPACK VALUES>{}, a...);                               \
    return {};                                                                                           \
  }
#define PTOKIT_UNPACK(...) __VA_ARGS__
#define PTOKIT_INSTRUCTION(NAME, TEXT, LIKE, KEY)                                                                      \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (typename... T), (T...), ())                                                  \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (auto V, auto... W), (), (V, W...))                                           \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (typename A, auto V, auto... W), (A), (V, W...))                              \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (typename A, typename B, auto V, auto... W), (A, B), (V, W...))               \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (typename A, typename B, typename C, auto V, auto... W), (A, B, C), (V, W...)) \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (typename A, typename B, typename C, typename D, auto V, auto... W),          \
                  (A, B, C, D), (V, W...))                                                                             \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY,                                                                               \
                  (typename A, typename B, typename C, typename D, typename E, auto V, auto... W), (A, B, C, D, E),    \
                  (V, W...))                                                                                           \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY,                                                                               \
                  (typename A, typename B, typename C, typename D, typename E, typename F, auto V, auto... W),         \
                  (A, B, C, D, E, F), (V, W...))                                                                       \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (auto V, typename A, typename... T), (A, T...), (V))                          \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (auto V, auto W, typename A, typename... T), (A, T...), (V, W))               \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (auto V, auto W, auto X, typename A, typename... T), (A, T...), (V, W, X))    \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (auto V, auto W, auto X, auto Y, typename A, typename... T), (A, T...),       \
                  (V, W, X, Y))                                                                                        \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (auto V, typename A, auto W, auto... X), (A), (V, W, X...))                   \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (auto V, typename A, typename B, auto W, auto... X), (A, B), (V, W, X...))    \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (auto V, typename A, typename B, typename C, auto W, auto... X), (A, B, C),   \
                  (V, W, X...))                                                                                        \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY, (auto V, typename A, typename B, typename C, typename D, auto W, auto... X),  \
                  (A, B, C, D), (V, W, X...))                                                                          \
  PTOKIT_OVERLOAD(NAME, TEXT, LIKE, KEY,                                                                               \
                  (auto V, typename A, typename B, typename C, typename D, typename E, auto W, auto... X),             \
                  (A, B, C, D, E), (V, W, X...))

#define PTOKIT_INTRINSIC(NAME, TEXT)        \
  template <typename... PtokitA>            \
  inline void NAME(PtokitA&&... a) {        \
    ::ptokit::record(TEXT, a...);           \
  }
