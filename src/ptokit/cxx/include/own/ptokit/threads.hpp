// What functions of threads call. The threads run one after the other, each up to a barrier.
#pragma once

#include <ptokit/recorder.hpp>

struct dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  constexpr dim3(std::uint32_t x = 1, std::uint32_t y = 1, std::uint32_t z = 1) : x(x), y(y), z(z) {}
};

inline const ptokit::Index3& threadIdx = ptokit::thread_index;
inline const ptokit::Index3& blockDim = ptokit::thread_count;
inline std::uint32_t __cce_simt_get_TID_X() { return threadIdx.x; }
inline std::uint32_t __cce_simt_get_TID_Y() { return threadIdx.y; }
inline std::uint32_t __cce_simt_get_TID_Z() { return threadIdx.z; }
inline std::uint32_t __cce_simt_get_BLOCK_DIM_X() { return blockDim.x; }
inline std::uint32_t __cce_simt_get_BLOCK_DIM_Y() { return blockDim.y; }
inline std::uint32_t __cce_simt_get_BLOCK_DIM_Z() { return blockDim.z; }
inline void __sync_workitems() { ptokit::wait_for_threads(); }
#define __builtin_cce_redux_add_f32(value) ptokit::sum_of_warp(value)
inline float __builtin_cce_expf(float value) { return __builtin_expf(value); }

namespace ptokit {

template <typename T, typename UPDATE>
inline T updated(T* address, UPDATE update) {
  const Atomic atomic;
  const T before = *address;
  *address = update(before);
  return before;
}

template <auto FUNCTION, typename... A>
inline void invoke(dim3 threads, A... arguments) {
  auto body = [&] { FUNCTION(arguments...); };
  run_threads({threads.x, threads.y, threads.z}, [](void* context) { (*static_cast<decltype(body)*>(context))(); }, &body);
}

}  // namespace ptokit

template <typename T, typename U>
inline T atomicAdd(T* address, U value) {
  return ptokit::updated(address, [&](T before) { return static_cast<T>(before + static_cast<T>(value)); });
}
template <typename T, typename U>
inline T atomicMax(T* address, U value) {
  return ptokit::updated(address, [&](T before) { return before < static_cast<T>(value) ? static_cast<T>(value) : before; });
}
template <typename T, typename U>
inline T atomicMin(T* address, U value) {
  return ptokit::updated(address, [&](T before) { return static_cast<T>(value) < before ? static_cast<T>(value) : before; });
}
