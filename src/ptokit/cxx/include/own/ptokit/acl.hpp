// Names of the host's runtime library that launch helpers use. Device memory is memory of the recording.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ptokit/macros.hpp>
#include <ptokit/numbers.hpp>

using aclFloat16 = std::uint16_t;
using aclError = int;
using aclrtStream = void*;
using aclrtContext = void*;
using aclrtEvent = void*;

enum { ACL_SUCCESS = 0, ACL_ERROR_NONE = 0 };
enum aclDataType {
  ACL_DT_UNDEFINED = -1, ACL_FLOAT, ACL_FLOAT16, ACL_INT8, ACL_INT32, ACL_UINT8, ACL_INT16 = 6, ACL_UINT16, ACL_UINT32,
  ACL_INT64, ACL_UINT64, ACL_DOUBLE, ACL_BOOL, ACL_STRING, ACL_BF16 = 27
};
enum aclFormat { ACL_FORMAT_UNDEFINED = -1, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, ACL_FORMAT_ND };
enum aclrtCmoType { ACL_RT_CMO_TYPE_PREFETCH, ACL_RT_CMO_TYPE_WRITEBACK, ACL_RT_CMO_TYPE_INVALID, ACL_RT_CMO_TYPE_FLUSH };
enum aclrtMemMallocPolicy { ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_ONLY, ACL_MEM_MALLOC_NORMAL_ONLY };
enum aclrtMemcpyKind {
  ACL_MEMCPY_HOST_TO_HOST,
  ACL_MEMCPY_HOST_TO_DEVICE,
  ACL_MEMCPY_DEVICE_TO_HOST,
  ACL_MEMCPY_DEVICE_TO_DEVICE
};

extern "C" {

inline aclError aclInit(const char*) { return ACL_SUCCESS; }
inline aclError aclFinalize() { return ACL_SUCCESS; }
inline aclError aclrtSetDevice(std::int32_t) { return ACL_SUCCESS; }
inline aclError aclrtResetDevice(std::int32_t) { return ACL_SUCCESS; }
inline aclError aclrtGetDevice(std::int32_t* device) { return *device = 0, ACL_SUCCESS; }
inline aclError aclrtGetDeviceCount(std::uint32_t* count) { return *count = 1, ACL_SUCCESS; }
inline aclError aclrtCreateStream(aclrtStream* stream) { return *stream = nullptr, ACL_SUCCESS; }
inline aclError aclrtDestroyStream(aclrtStream) { return ACL_SUCCESS; }
inline aclError aclrtSynchronizeStream(aclrtStream) { return ACL_SUCCESS; }
inline aclError aclrtSynchronizeDevice() { return ACL_SUCCESS; }
inline aclError aclrtMalloc(void** data, std::size_t bytes, int) { return *data = ptokit::allocate(bytes), ACL_SUCCESS; }
inline aclError aclrtFree(void* data) { return ptokit::release(data), ACL_SUCCESS; }
inline aclError aclrtMallocHost(void** data, std::size_t bytes) { return *data = ptokit::allocate(bytes), ACL_SUCCESS; }
inline aclError aclrtFreeHost(void* data) { return ptokit::release(data), ACL_SUCCESS; }
inline aclError aclrtMemcpy(void* to, std::size_t, const void* from, std::size_t bytes, int kind) {
  if (kind == ACL_MEMCPY_HOST_TO_DEVICE) ptokit::write_memory(to, from, bytes);
  else ptokit::read_memory(from, to, bytes);
  return ACL_SUCCESS;
}
inline aclError aclrtMemcpyAsync(void* to, std::size_t limit, const void* from, std::size_t bytes, int kind, aclrtStream) {
  return aclrtMemcpy(to, limit, from, bytes, kind);
}
inline aclError aclrtCmoAsync(void*, std::size_t, aclrtCmoType, aclrtStream) { return ACL_SUCCESS; }
inline aclError aclrtMemset(void* to, std::size_t, std::int32_t value, std::size_t bytes) {
  const unsigned char byte = static_cast<unsigned char>(value);
  unsigned char bytes_of[256];
  __builtin_memset(bytes_of, byte, sizeof(bytes_of));
  for (std::size_t i = 0; i < bytes; i += sizeof(bytes_of)) {
    const std::size_t rest = bytes - i;
    ptokit::write_memory(static_cast<char*>(to) + i, bytes_of, rest < sizeof(bytes_of) ? rest : sizeof(bytes_of));
  }
  return ACL_SUCCESS;
}
}  // extern "C"

inline float aclFloat16ToFloat(aclFloat16 bits) { return half::of_bits(bits); }
inline aclFloat16 aclFloatToFloat16(float value) { return half(value).bits; }
