// Events between operations: they set and wait for flags, or wait at a barrier.
#pragma once

#include <ptokit/intrinsics.hpp>

#define EVENT_ID_MAX 8
#define FFTS_BASE_COUNT_WIDTH 0xf
#define FFTS_MODE_VAL 0x2
#define FFTS_MODE_WIDTH 0x3
#define FFTS_MODE_OFFSET 4
#define FFTS_EVENT_ID_WIDTH 0xf
#define FFTS_EVENT_ID_OFFSET 8

namespace ptokit {

// Counts the blocks that were started: event numbers begin anew in each.
inline std::uint64_t block_serial = 0;

// The message of a flag between cores: a count of one, how many cores meet, and the flag.
constexpr std::uint16_t cross_core_message(std::uint16_t mode, std::uint16_t flag, std::uint16_t count = 1) {
  return static_cast<std::uint16_t>((count & 0xf) | (mode & 0x3) << 4 | (flag & 0xf) << 8);
}

}  // namespace ptokit

namespace pto {

inline uint16_t getFFTSMsg(uint16_t mode, uint16_t flag, uint16_t count = 1) {
  return ptokit::cross_core_message(mode, flag, count);
}

template <Op OP>
struct OpPipeEntry {
  static constexpr pipe_t pipe = pipe_of(OP);
};
template <Op OP>
constexpr pipe_t GetPipeByOp() {
  return pipe_of(OP);
}

// Numbers of events from one pipe to another, in turn.
template <pipe_t SOURCE, pipe_t TARGET>
class EventIdCounter {
 public:
  static event_t GetNextId() {
    renew();
    const int id = next_;
    next_ = (next_ + 1) % EVENT_ID_MAX;
    return static_cast<event_t>(id);
  }
  static event_t PeekNextId() {
    renew();
    return static_cast<event_t>(next_);
  }
  static void Reset() { next_ = 0; }

 private:
  static void renew() {
    if (serial_ != ptokit::block_serial) next_ = 0;
    serial_ = ptokit::block_serial;
  }
  static inline int next_ = 0;
  static inline std::uint64_t serial_ = 0;
};

template <Op SOURCE, Op TARGET, bool AUTO = true, event_t ID = EVENT_ID0>
struct Event : EventBaseTag {
  static constexpr Op srcOp = SOURCE;
  static constexpr Op dstOp = TARGET;
  static constexpr pipe_t srcPipe = pipe_of(SOURCE);
  static constexpr pipe_t dstPipe = pipe_of(TARGET);
  static constexpr bool isSamePipe = srcPipe == dstPipe;
#ifdef PTOKIT_REGISTER_BASE
  static constexpr bool IsCrossCore = SOURCE == Op::TMOV_A2V || SOURCE == Op::TMOV_V2M || SOURCE == Op::TEXTRACT_V2M;
#else
  static constexpr bool IsCrossCore =
      (SOURCE == Op::TMOV_A2V && dstPipe == PIPE_V) ||
      ((SOURCE == Op::TMOV_V2M || SOURCE == Op::TEXTRACT_V2M) && dstPipe == PIPE_MTE1);
#endif
#ifndef __PTO_AUTO__
  const event_t token = AUTO ? EventIdCounter<srcPipe, dstPipe>::GetNextId() : ID;
#endif

  Event() = default;
  Event(RecordEvent) { Init(); }
  Event& operator=(RecordEvent) { return Init(); }

  Event& InitAddr(uint64_t) { return *this; }
  template <uint8_t FLAG = 0xff>
  Event& Init() {
#ifndef __PTO_AUTO__
    if constexpr (IsCrossCore) {
#ifdef PTOKIT_REGISTER_BASE
      set_intra_block(srcPipe, FLAG);
      set_intra_block(srcPipe, FLAG + 16);
#else
      ffts_cross_core_sync(srcPipe, getFFTSMsg(FFTS_MODE_VAL, FLAG));
#endif
    } else if constexpr (!isSamePipe) {
      set_flag(srcPipe, dstPipe, token);
    }
#endif
    return *this;
  }
  template <uint8_t FLAG = 0xff>
  Event& Record() {
    return Init<FLAG>();
  }
  template <uint8_t FLAG = 0xff>
  Event& Wait() {
#ifndef __PTO_AUTO__
    if constexpr (IsCrossCore) {
#ifdef PTOKIT_REGISTER_BASE
      wait_intra_block(srcPipe, FLAG);
#else
      wait_flag_dev(FLAG);
#endif
    } else if constexpr (!isSamePipe) {
      wait_flag(srcPipe, dstPipe, token);
    } else {
#ifdef PTOKIT_REGISTER_BASE
      constexpr bool has_barrier = srcPipe == PIPE_MTE2 || srcPipe == PIPE_MTE3;
#else
      constexpr bool has_barrier = true;
#endif
      if constexpr (has_barrier) pipe_barrier(srcPipe);
    }
#endif
    return *this;
  }
};

template <Op OP>
inline void TSYNC() {
#ifndef __PTO_AUTO__
  pipe_barrier(pipe_of(OP));
#endif
}
template <typename... Events>
inline void TSYNC(Events&... events) {
  (events.Wait(), ...);
}
template <typename... Events>
inline void WaitAllEvents(Events&... events) {
  (events.Wait(), ...);
}
template <pipe_t SOURCE, pipe_t TARGET>
inline void PtoSetWaitFlag(event_t set = EVENT_ID0, event_t wait = EVENT_ID0) {
#ifndef __PTO_AUTO__
  set_flag(SOURCE, TARGET, set);
  wait_flag(SOURCE, TARGET, wait);
#endif
}

constexpr uint16_t SYNC_AIC_FLAG = 11;
constexpr uint16_t SYNC_AIV_FLAG = 12;
constexpr uint16_t SYNC_AIC_AIV_FLAG = 13;
constexpr uint16_t SYNC_AIV_ONLY_ALL = 14;
constexpr uint16_t SYNC_FLAG_ID_MAX = 16;
constexpr int32_t SYNCALL_SOFT_WORKSPACE_INT32 = 16;

template <SyncCoreType CORE = SyncCoreType::AIVOnly>
inline void SYNCALL() {
  ptokit::record("syncall", CORE);
}
template <SyncAllMode MODE, SyncCoreType CORE = SyncCoreType::AIVOnly, typename Global>
inline void SYNCALL(Global& workspace, int32_t cores = 0) {
  ptokit::record("syncall", MODE, CORE, workspace, cores);
}
template <SyncCoreType CORE, SyncAllMode MODE = SyncAllMode::Soft, typename Global>
inline void SYNCALL(Global& workspace, int32_t cores = 0) {
  ptokit::record("syncall", MODE, CORE, workspace, cores);
}

}  // namespace pto
