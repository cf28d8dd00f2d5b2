// Written by ptokit.cxx.names; edit its tables.
#pragma once
#ifndef PTOKIT_AICORE
#define PTOKIT_AICORE 220
#define PTOKIT_NPU_ARCH 2201
#define PTOKIT_MEMORY_BASE 1
#define MEMORY_BASE 1
#define PTO_NPU_ARCH_A2A3 1
#define PTOKIT_LEFT_LAYOUT RowMajor
#define PTOKIT_UB_BYTES 196608
#define PTOKIT_L1_BYTES 524288
#define PTOKIT_L0A_BYTES 65536
#define PTOKIT_L0B_BYTES 65536
#define PTOKIT_L0C_BYTES 131072
#define __DAV_VEC__ 1
#define __DAV_C220_VEC__ 1
#define __DAV_CUBE__ 1
#define __DAV_C220_CUBE__ 1
#endif
