// Names of the low-level runtime library that launch helpers use.
#pragma once

#include <ptokit/acl.hpp>

using rtStream_t = void*;
using rtError_t = std::int32_t;

enum { RT_ERROR_NONE = 0, RT_DEV_BINARY_MAGIC_ELF = 0x43554245 };
#define RT_STREAM_PRIORITY_DEFAULT 0

struct rtDevBinary_t {
  std::uint32_t magic;
  std::uint32_t version;
  const void* data;
  std::uint64_t length;
};
struct rtArgsEx_t {
  void* args;
  void* hostInputInfoPtr;
  std::uint32_t argsSize;
  std::uint32_t tilingAddrOffset;
  std::uint32_t tilingDataOffset;
  std::uint16_t hostInputInfoNum;
  std::uint8_t hasTiling;
  std::uint8_t isNoNeedH2DCopy;
};
struct rtTaskCfgInfo_t {
  std::uint8_t qos;
  std::uint8_t partId;
  std::uint8_t schemMode;
  std::uint8_t reserved;
};

extern "C" {

inline rtError_t rtSetDevice(std::int32_t) { return RT_ERROR_NONE; }
inline rtError_t rtStreamCreate(rtStream_t* stream, std::int32_t) { return *stream = nullptr, RT_ERROR_NONE; }
inline rtError_t rtStreamDestroy(rtStream_t) { return RT_ERROR_NONE; }
inline rtError_t rtGetC2cCtrlAddr(std::uint64_t* address, std::uint32_t* bytes) {
  return *address = 0, *bytes = 0, RT_ERROR_NONE;
}
inline rtError_t rtGetAiCoreCount(std::uint32_t* count) { return *count = 24, RT_ERROR_NONE; }
inline rtError_t rtRegisterAllKernel(const rtDevBinary_t*, void** handle) { return *handle = nullptr, RT_ERROR_NONE; }
inline rtError_t rtBinaryLoadWithoutTilingKey(const void*, std::uint64_t, void** handle) {
  return *handle = nullptr, RT_ERROR_NONE;
}
// A binary that was built elsewhere cannot be recorded.
inline rtError_t rtKernelLaunchWithHandleV2(void*, std::uint64_t, std::uint32_t, rtArgsEx_t*, void*, rtStream_t,
                                            const rtTaskCfgInfo_t*) {
  ptokit::fail("rtKernelLaunchWithHandleV2 launches a compiled binary, which cannot be recorded; launch with <<<...>>>");
}

}  // extern "C"
