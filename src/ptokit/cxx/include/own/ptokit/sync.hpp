// Helpers for flags between a cube core and its vector cores.
#pragma once

#include <ptokit/event.hpp>

#define VEC_CORE_ID_OFFSET 16
#define FFTS_MODE_BIT_START 4
#define FFTS_FLAG_ID_BIT_START 8

namespace pto {

enum class SyncOpType : uint8_t { TSTORE_C2GM, TSTORE_V2GM, TMOV_C2UB, TINSERT_V2L1, TLOAD };
enum CVSyncMode : uint16_t { C_ALL_CORE_SYNC = 0, V_ALL_CORE_SYNC = 0, V_SUBCORES_SYNC = 1, CV_CORE_SYNC = 2 };
enum CVCommFftsEvent : uint16_t { CV_COMM_CTRL = 12, CV_COMM_RSVD_13, CV_COMM_RSVD_14, CV_COMM_RSVD_15 };
constexpr int kCvCommSlotBytes = 512;
constexpr int kCvMaxCores = 25;

inline uint16_t _getFFTSMsg(uint16_t mode, uint16_t flag, uint16_t count = 1) {
  return ptokit::cross_core_message(mode, flag, count);
}

// A buffer that one core fills and the other one reads: flag_id says full, flag_id + 1 says free.
template <SyncOpType PRODUCER, SyncOpType CONSUMER>
struct TSync_Custom {
  static constexpr bool is_c2v = PRODUCER == SyncOpType::TSTORE_C2GM || PRODUCER == SyncOpType::TMOV_C2UB;
  static constexpr bool in_global = PRODUCER == SyncOpType::TSTORE_C2GM || PRODUCER == SyncOpType::TSTORE_V2GM;
  static constexpr pipe_t producer = is_c2v ? PIPE_FIX : PIPE_MTE3;
  uint16_t flag_id;

#ifdef PTOKIT_REGISTER_BASE
  static constexpr pipe_t consumer = in_global ? PIPE_MTE2 : is_c2v ? PIPE_V : PIPE_MTE1;
  static constexpr pipe_t freeing = is_c2v ? consumer : PIPE_MTE1;
  void record() const { set(producer, flag_id, is_c2v); }
  void wait() const { await(consumer, flag_id, !is_c2v); }
  void allocate() const { await(producer, flag_id + 1, is_c2v); }
  void free() const { set(freeing, flag_id + 1, !is_c2v); }

 private:
  // The cube core has a flag for each of its two vector cores.
  static void set(pipe_t pipe, int flag, bool is_cube) {
    set_intra_block(pipe, flag);
    if (is_cube) set_intra_block(pipe, flag + VEC_CORE_ID_OFFSET);
  }
  static void await(pipe_t pipe, int flag, bool is_cube) {
    wait_intra_block(pipe, flag);
    if (is_cube) wait_intra_block(pipe, flag + VEC_CORE_ID_OFFSET);
  }
#else
  void record() const { ffts_cross_core_sync(producer, _getFFTSMsg(CV_CORE_SYNC, flag_id)); }
  void wait() const { wait_flag_dev(flag_id); }
  void allocate() const { wait_flag_dev(flag_id + 1); }
  void free() const { ffts_cross_core_sync(PIPE_MTE2, _getFFTSMsg(CV_CORE_SYNC, flag_id + 1)); }
#endif
};

// The slot in global memory that a cube core and its vector cores share.
template <int SLOT_BYTES = kCvCommSlotBytes, int MAX_CORES = kCvMaxCores>
inline int TSYNC_CVID(int block, uint8_t*) {
  return block;
}

}  // namespace pto
