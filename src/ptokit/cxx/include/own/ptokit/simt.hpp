// Functions of threads that sources start themselves.
#pragma once

#include <ptokit/threads.hpp>

namespace cce {
using ::dim3;
template <auto FUNCTION, typename... A>
inline void async_invoke(dim3 threads, const A&... arguments) {
#ifndef PTOKIT_REGISTER_BASE
  ptokit::fail("the target has no functions of threads");
#endif
  ptokit::invoke<FUNCTION>(threads, arguments...);
}
}  // namespace cce
