// Functions of the device compiler that kernels call themselves: flags, barriers, identity, scalar memory.
#pragma once

#include <ptokit/identity.hpp>
#include <ptokit/issue.hpp>

namespace ptokit {

inline Operand pipe_operand(::pipe_t pipe) {
  const char* text = word_of(pipe);
  return Operand::of_text(text ? text : "PIPE_UNKNOWN");
}
inline Operand number_operand(std::int64_t value) { return Operand::of(value); }

inline void flag_call(const char* name, ::pipe_t source, ::pipe_t target, std::int64_t event) {
  const Operand operands[] = {pipe_operand(source), pipe_operand(target), number_operand(event)};
  call(name, operands, 3);
}
inline void pipe_call(const char* name, ::pipe_t pipe, std::int64_t number) {
  const Operand operands[] = {pipe_operand(pipe), number_operand(number)};
  call(name, operands, 2);
}
inline void number_call(const char* name, std::int64_t number) {
  const Operand operand = number_operand(number);
  call(name, &operand, 1);
}

}  // namespace ptokit

template <typename Event>
inline void set_flag(pipe_t source, pipe_t target, Event event) {
  ptokit::flag_call("set_flag", source, target, static_cast<std::int64_t>(event));
}
template <typename Event>
inline void wait_flag(pipe_t source, pipe_t target, Event event) {
  ptokit::flag_call("wait_flag", source, target, static_cast<std::int64_t>(event));
}
inline void pipe_barrier(pipe_t pipe) {
  const ptokit::Operand operand = ptokit::pipe_operand(pipe);
  ptokit::call("pipe_barrier", &operand, 1);
}
template <typename Flag>
inline void set_intra_block(pipe_t pipe, Flag flag) {
  ptokit::pipe_call("set_intra_block", pipe, static_cast<std::int64_t>(flag));
}
template <typename Flag>
inline void wait_intra_block(pipe_t pipe, Flag flag) {
  ptokit::pipe_call("wait_intra_block", pipe, static_cast<std::int64_t>(flag));
}
inline void ffts_cross_core_sync(pipe_t pipe, std::uint64_t message) {
  ptokit::pipe_call("ffts_cross_core_sync", pipe, static_cast<std::int64_t>(message));
}
inline void set_cross_core(pipe_t pipe, std::uint64_t message) {
  ptokit::pipe_call("set_cross_core", pipe, static_cast<std::int64_t>(message));
}
inline void wait_flag_dev(std::int64_t flag) { ptokit::number_call("wait_flag_dev", flag); }
inline void wait_flag_dev(pipe_t pipe, std::int64_t flag) { ptokit::pipe_call("wait_flag_dev", pipe, flag); }
namespace ptokit {
// Where messages between the cores are stored to.
inline std::uint64_t message_base = 0;
}  // namespace ptokit
inline void set_ffts_base_addr(std::uint64_t address) { ptokit::message_base = address; }
inline std::uint64_t get_ffts_base_addr() { return 0; }
template <typename Lock>
inline void get_buf(pipe_t pipe, Lock lock, bool = false) {
  ptokit::pipe_call("get_buf", pipe, static_cast<std::int64_t>(lock));
}
template <typename Lock>
inline void rls_buf(pipe_t pipe, Lock lock, bool = false) {
  ptokit::pipe_call("rls_buf", pipe, static_cast<std::int64_t>(lock));
}

// Scalar loads see what instructions wrote once the cache line is refreshed.
template <typename T, typename... Options>
inline void dcci(T* address, Options... options) {
  const auto is_whole = [](auto option) { return std::is_same_v<decltype(option), cache_line_t> && option != 0; };
  ptokit::refresh(const_cast<const std::remove_cv_t<T>*>(address), (is_whole(options) || ...));
}
template <typename... Options>
inline void dsb(Options...) {}
template <typename... Options>
inline void dmb(Options...) {}
template <typename... Options>
inline void dc_preload(Options...) {}
// Fetches code: no instruction waits for it.
template <typename... Options>
inline void preload(Options...) {}
template <typename... Options>
inline void icache_preload(Options...) {}

template <typename T>
inline T ld_dev(const T* address, std::int64_t offset = 0) {
  T value{};
  ptokit::read_memory(reinterpret_cast<const char*>(address) + offset, &value, sizeof(T));
  return value;
}
template <typename T, typename U>
inline void st_dev(T value, U* address, std::int64_t offset = 0) {
  if (offset == 0 && ptokit::message_base && reinterpret_cast<std::uintptr_t>(address) == ptokit::message_base) {
    ffts_cross_core_sync(PIPE_S, static_cast<std::uint64_t>(value));
    return;
  }
  const U converted = static_cast<U>(value);
  ptokit::write_memory(reinterpret_cast<char*>(address) + offset, &converted, sizeof(U));
}

namespace cce {
template <typename... A>
inline int printf(const char*, A&&...) {
  return 0;
}
}  // namespace cce
