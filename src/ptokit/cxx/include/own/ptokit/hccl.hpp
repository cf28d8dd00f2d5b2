// Names of the communication library that host code uses: one device, nothing to communicate with.
#pragma once

#include <ptokit/acl.hpp>

using HcclComm = void*;
enum HcclResult { HCCL_SUCCESS = 0, HCCL_E_PARA = 1, HCCL_E_PTR = 2, HCCL_E_INTERNAL = 4 };
enum HcclReduceOp { HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN };
enum HcclDataType { HCCL_DATA_TYPE_INT8, HCCL_DATA_TYPE_INT16, HCCL_DATA_TYPE_INT32, HCCL_DATA_TYPE_FP16,
                    HCCL_DATA_TYPE_FP32, HCCL_DATA_TYPE_INT64, HCCL_DATA_TYPE_UINT64, HCCL_DATA_TYPE_UINT8,
                    HCCL_DATA_TYPE_UINT16, HCCL_DATA_TYPE_UINT32, HCCL_DATA_TYPE_FP64, HCCL_DATA_TYPE_BFP16 };
#define HCCL_ROOT_INFO_BYTES 4108
#define ROOTINFO_INDENTIFIER_MAX_LENGTH 128
#define COMM_NAME_MAX_LENGTH 128
struct HcclRootInfo {
  char internal[HCCL_ROOT_INFO_BYTES];
};
struct HcclCommConfig {
  char reserved[128];
  char hcclCommName[COMM_NAME_MAX_LENGTH];
};

extern "C" {

inline HcclResult HcclGetRootInfo(HcclRootInfo*) { return HCCL_SUCCESS; }
inline HcclResult HcclCommInitRootInfo(std::uint32_t, const HcclRootInfo*, std::uint32_t, HcclComm* comm) {
  return *comm = nullptr, HCCL_SUCCESS;
}
inline HcclResult HcclCommDestroy(HcclComm) { return HCCL_SUCCESS; }
inline HcclResult HcclGetCommName(HcclComm, char* name) { return *name = 0, HCCL_SUCCESS; }
inline HcclResult HcclBarrier(HcclComm, aclrtStream) { return HCCL_SUCCESS; }
inline HcclResult HcclGetRankSize(HcclComm, std::uint32_t* count) { return *count = 1, HCCL_SUCCESS; }
inline HcclResult HcclGetRankId(HcclComm, std::uint32_t* rank) { return *rank = 0, HCCL_SUCCESS; }
inline const char* HcclGetErrorString(HcclResult) { return ""; }

}  // extern "C"
