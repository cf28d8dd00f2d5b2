// Macros of the public headers, and those that choose a target.
#pragma once

#include <ptokit/keywords.hpp>
#include <ptokit/recorder.hpp>

#ifndef GM_ADDR
#define GM_ADDR unsigned char*
#endif
#ifndef AICORE
#define AICORE
#endif
#ifndef PTO_INLINE
#define PTO_INLINE inline
#endif
#define PTO_INST inline
#define PTO_INTERNAL inline
#define OP_NAME(name)
#define OP_TYPE(name)

#define PTO_STATIC_ASSERT(condition, ...) static_assert(condition __VA_OPT__(, ) __VA_ARGS__)
#define PTO_ASSERT(...) ((void)0)
#define PTO_CPU_ASSERT(...) ((void)0)

#define PTO_SYNCALL_AIV_KERNEL_META(...) static_assert(true)
#define PTO_SYNCALL_AIC_KERNEL_META(...) static_assert(true)

// How many vector cores a kernel has for each cube core: by its name, or for a whole build.
#define PTOKIT_JOINED_OF(a, b) a##b
#define PTOKIT_JOINED(a, b) PTOKIT_JOINED_OF(a, b)
#define PTO_SYNCALL_MIX_AIC_KERNEL_META(kernel, cubes, vectors) \
  [[maybe_unused]] static const bool PTOKIT_JOINED(ptokit_meta_, __COUNTER__) = ::ptokit::state_vectors(#kernel, vectors)
#if defined(__MIX_CORE_AIV_RATIO__)
namespace ptokit {
[[maybe_unused]] static const bool ratio_of_build = state_vectors("", __MIX_CORE_AIV_RATIO__);
}
#endif
