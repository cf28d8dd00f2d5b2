// Keywords of the device compiler, as macros that a host compiler accepts.
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
