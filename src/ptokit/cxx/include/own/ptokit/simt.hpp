// Functions of single threads. They are not run: a launch of one is recorded with its arguments.
#pragma once

#include <ptokit/issue.hpp>

struct dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  constexpr dim3(std::uint32_t x = 1, std::uint32_t y = 1, std::uint32_t z = 1) : x(x), y(y), z(z) {}
};

inline std::uint32_t __cce_simt_get_TID_X() { return 0; }
inline std::uint32_t __cce_simt_get_TID_Y() { return 0; }
inline std::uint32_t __cce_simt_get_TID_Z() { return 0; }
inline std::uint32_t __cce_simt_get_BLOCK_DIM_X() { return 1; }
inline std::uint32_t __cce_simt_get_BLOCK_DIM_Y() { return 1; }
inline std::uint32_t __cce_simt_get_BLOCK_DIM_Z() { return 1; }
inline void __sync_workitems() {}
inline float __builtin_cce_redux_add_f32(float value) { return value; }
inline float __builtin_cce_expf(float value) { return __builtin_expf(value); }

template <typename T, typename U>
inline T atomicAdd(T* address, U value) {
  const T before = *address;
  *address = static_cast<T>(before + static_cast<T>(value));
  return before;
}

namespace cce {
using ::dim3;
template <auto FUNCTION, typename... A>
inline void async_invoke(dim3 threads, const A&... arguments) {
  ptokit::record("async_invoke", threads.x, threads.y, threads.z, arguments...);
}
}  // namespace cce
