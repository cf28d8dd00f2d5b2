// Which core runs, and flags between the cores.
//
// On A5 the cube core has a flag for each vector core: those of the second one have ids from 16 on. On A2/A3 one flag
// reaches both, and the cube core waits until both have set it.
#pragma once

#include "common.hpp"

#if defined(__DAV_CUBE__)
constexpr bool kOnCube = true;
#else
constexpr bool kOnCube = false;
#endif
#if defined(__DAV_VEC__)
constexpr bool kOnVector = true;
#else
constexpr bool kOnVector = false;
#endif

#if defined(PTO_NPU_ARCH_A5)
#define BEGIN_FLAGS(memory) (void)(memory)
#define SET_OF_VECTOR(pipe, id) set_intra_block(pipe, id)
#define WAIT_OF_VECTOR(pipe, id) wait_intra_block(pipe, id)
#define SET_OF_CUBE(pipe, id) set_intra_block(pipe, id), set_intra_block(pipe, id + 16)
#define WAIT_OF_CUBE(pipe, id) wait_intra_block(pipe, id), wait_intra_block(pipe, id + 16)
#else
#define BEGIN_FLAGS(memory) set_ffts_base_addr(reinterpret_cast<uint64_t>(memory))
#define SET_OF_VECTOR(pipe, id) ffts_cross_core_sync(pipe, getFFTSMsg(0x2, id))
#define WAIT_OF_VECTOR(pipe, id) wait_flag_dev(id)
#define SET_OF_CUBE(pipe, id) SET_OF_VECTOR(pipe, id)
#define WAIT_OF_CUBE(pipe, id) wait_flag_dev(id)
#endif
