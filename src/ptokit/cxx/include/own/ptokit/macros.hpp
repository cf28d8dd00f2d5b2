// Keywords of the device compiler, as macros that a host compiler accepts, and the macros that choose a target.
#pragma once

#include <ptokit/target.hpp>

#ifndef __global__
#define __global__
#endif
#define __aicore__
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __biasbuf__
#define __sbuf__
#define __ssbuf__
#define __in__
#define __out__
#define __inout__
#define __tf__
#define __simt_vf__
#define __simd_vf__
#define __simt_callee__
#define __simd_callee__
#define __no_simd_vf_fusion__
#define __cube__
#define __vector__
#define __mix__(...)
#define __schedmode__(...)
#define __host__
#define __device__
#define __sync_noalias__
#define __sync_alias__
#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif
#ifndef LAUNCH_BOUND
#define LAUNCH_BOUND(...)
#endif
#define __cce_get_tile_ptr(x) (x)

#define CCE_VL 256
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
#define PTO_SYNCALL_MIX_AIC_KERNEL_META(...) static_assert(true)

#ifndef __CCE_AICORE__
#define __CCE_AICORE__ PTOKIT_AICORE
#endif
#ifndef __NPU_ARCH__
#define __NPU_ARCH__ PTOKIT_NPU_ARCH
#endif

// `if ASCEND_IS_AIV { ... }`: code of one core.
#ifdef __DAV_VEC__
#define ASCEND_IS_AIV constexpr (true)
#else
#define ASCEND_IS_AIV constexpr (false)
#endif
#ifdef __DAV_CUBE__
#define ASCEND_IS_AIC constexpr (true)
#else
#define ASCEND_IS_AIC constexpr (false)
#endif
