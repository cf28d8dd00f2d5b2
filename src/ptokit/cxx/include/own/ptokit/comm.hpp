// Communication between devices: signals, groups and asynchronous copies.
#pragma once

#include <ptokit/acl.hpp>
#include <ptokit/instructions.hpp>

namespace pto::comm {

template <typename GlobalData>
struct ParallelGroup {
  using value_type = GlobalData;
  GlobalData* tensors = nullptr;
  int nranks = 0;
  int rootIdx = -1;

  constexpr ParallelGroup() = default;
  constexpr ParallelGroup(GlobalData* tensors, int count, int root) : tensors(tensors), nranks(count), rootIdx(root) {}
  static constexpr ParallelGroup Create(GlobalData* tensors, int count, int root) { return {tensors, count, root}; }
  constexpr int GetRootIdx() const { return rootIdx; }
  constexpr int GetSize() const { return nranks; }
  constexpr bool empty() const { return nranks == 0; }
  constexpr GlobalData& operator[](int rank) { return tensors[rank]; }
  constexpr const GlobalData& operator[](int rank) const { return tensors[rank]; }

  void ptokit_describe(ptokit::Pending& call) const {
    for (int rank = 0; rank < nranks; ++rank) call.add(ptokit::Operand::of(tensors[rank].ptokit_info()));
    call.modify("root", nullptr, rootIdx);
  }
};

struct CcuTriggerContext {
  uint64_t ckeSlotVA = 0;
  uint32_t mask = 0;
  uint32_t selfIdx = 0;
  CcuInputSource inputSource = CcuInputSource::HostManaged;
};

using Signal = GlobalTensor<int32_t, Shape<1, 1, 1, 1, 1>, Stride<1, 1, 1, 1, 1>, Layout::ND>;
template <typename T, typename ShapeT, typename StrideT, Layout LAYOUT = Layout::ND>
using GlobalSignal = GlobalTensor<T, ShapeT, StrideT, LAYOUT>;

template <int ROWS, int COLS>
struct Signal2D : GlobalTensor<int32_t, Shape<1, 1, 1, ROWS, COLS>, Stride<1, 1, 1, DYNAMIC, 1>, Layout::ND> {
  using Base = GlobalTensor<int32_t, Shape<1, 1, 1, ROWS, COLS>, Stride<1, 1, 1, DYNAMIC, 1>, Layout::ND>;
  Signal2D(int32_t* data, int64_t stride = COLS) : Base(data, {}, typename Base::Stride(stride)) {}
};

struct AsyncSession {
  DmaEngine engine = DmaEngine::SDMA;
  bool valid = true;
};

// A copy that was started. It is recorded where it starts, and where the kernel waits for it.
struct AsyncEvent {
  uint64_t handle = 0;
  DmaEngine engine = DmaEngine::SDMA;
  constexpr AsyncEvent() = default;
  constexpr AsyncEvent(uint64_t handle, DmaEngine engine) : handle(handle), engine(engine) {}
  constexpr bool valid() const { return handle != 0; }
  template <typename... Session>
  bool Wait(Session&&...) const {
    ptokit::record("async_wait", engine);
    return true;
  }
  template <typename... Session>
  bool Test(Session&&...) const {
    ptokit::record("async_test", engine);
    return true;
  }
};

template <typename Global, typename... Rest>
inline void TNOTIFY(Global& signal, int32_t value, NotifyOp op, Rest&... events) {
  (ptokit::wait_for(events), ...);
  ptokit::record("tnotify", signal, value, op);
}
template <typename Global, typename... Rest>
inline void TWAIT(Global& signal, int32_t value, WaitCmp mode, Rest&... events) {
  (ptokit::wait_for(events), ...);
  ptokit::record("twait", signal, value, mode);
}
template <typename Global, typename... Rest>
inline bool TTEST(Global& signal, int32_t value, WaitCmp mode, Rest&... events) {
  (ptokit::wait_for(events), ...);
  ptokit::record("ttest", signal, value, mode);
  return true;
}

template <DmaEngine ENGINE = DmaEngine::SDMA, typename To, typename From, typename... Rest>
inline AsyncEvent TPUT_ASYNC(To& to, From& from, Rest&&... rest) {
  ptokit::record("tput_async", to, from, ENGINE);
  (void)sizeof...(rest);
  return {1, ENGINE};
}
template <DmaEngine ENGINE = DmaEngine::SDMA, typename To, typename From, typename... Rest>
inline AsyncEvent TGET_ASYNC(To& to, From& from, Rest&&... rest) {
  ptokit::record("tget_async", to, from, ENGINE);
  (void)sizeof...(rest);
  return {1, ENGINE};
}
template <DmaEngine ENGINE = DmaEngine::SDMA, typename... A>
inline bool BuildAsyncSession(A&&...) {
  return true;
}

}  // namespace pto::comm

namespace pto::comm::sdma {

constexpr uint32_t UB_ALIGN_SIZE = 256;
constexpr uint32_t kSdmaMinTransferBytes = 64;
constexpr uint32_t kSdmaMaxChannel = 48;

struct SdmaBaseConfig {
  uint64_t block_bytes = 0;
  uint64_t comm_block_offset = 0;
  uint32_t queue_num = 0;
};

}  // namespace pto::comm::sdma

namespace ptokit {

// The host's side of asynchronous copies: there is nothing to prepare.
struct WorkspaceManager {
  template <typename... A>
  bool Init(A&&...) {
    return true;
  }
  template <typename... A>
  static bool Preflight(A&&...) {
    return true;
  }
  void* GetWorkspaceAddr() const { return nullptr; }
  void Finalize() {}
};

}  // namespace ptokit

namespace pto::comm::sdma {
using SdmaWorkspaceManager = ptokit::WorkspaceManager;
}
namespace pto::comm::urma {
using UrmaWorkspaceManager = ptokit::WorkspaceManager;
}
namespace pto::comm::rdma {
using RdmaWorkspaceManager = ptokit::WorkspaceManager;
}

namespace pto {

struct PrefetchAsyncContext {
  using ScratchTile = Tile<TileType::Vec, uint8_t, 1, comm::sdma::UB_ALIGN_SIZE>;
  ScratchTile scratchTile;
  comm::AsyncSession session;
  PrefetchAsyncContext() = default;
  template <typename... A>
  explicit PrefetchAsyncContext(A&&...) {}
  const comm::AsyncSession& GetSession() const { return session; }
};

template <typename Global, typename Context, typename... Events>
inline comm::AsyncEvent TPREFETCH_ASYNC(Global& global, Context&, Events&... events) {
  (ptokit::wait_for(events), ...);
  ptokit::record("tprefetch_async", global);
  return {1, comm::DmaEngine::SDMA};
}

}  // namespace pto

// The address in a peer's window of memory that lies as `local` does in the own one.
template <typename Context, typename T>
inline T* HcclRemotePtr(Context* context, T* local, int peer) {
  const auto offset = reinterpret_cast<std::uintptr_t>(local) - context->windowsIn[context->rankId];
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(context->windowsIn[peer] + offset));
}

namespace AscendC {
using pto::GlobalTensor;
}
