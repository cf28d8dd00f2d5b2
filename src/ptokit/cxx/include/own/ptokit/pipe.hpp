// Pipes between a cube core and its vector cores: TPUSH and TPOP become the moves and flags that they stand for.
#pragma once

#include <ptokit/instructions.hpp>
#include <ptokit/places.hpp>

namespace ptokit {

#ifdef __DAV_CUBE__
inline constexpr bool compiles_cube = true;
#else
inline constexpr bool compiles_cube = false;
#endif
#ifdef __DAV_VEC__
inline constexpr bool compiles_vector = true;
#else
inline constexpr bool compiles_vector = false;
#endif

// Where the slots of a pipe lie: in global memory, in the consumer's memory, or in a control buffer.
enum class Slots { global, local, control };

// The flags of one direction of a pipe: FLAG says that a slot is full, FLAG + 1 that slots are free. AWAITED is the flag
// that a pop waits for.
template <int FLAG, bool TO_CUBE, Slots SLOTS, int AWAITED = FLAG>
struct Handshake {
  static constexpr pipe_t producer = SLOTS == Slots::control ? PIPE_S : TO_CUBE ? PIPE_MTE3 : PIPE_FIX;
#ifdef PTOKIT_REGISTER_BASE
  static constexpr pipe_t consumer = SLOTS == Slots::control  ? PIPE_S
                                     : SLOTS == Slots::global ? PIPE_MTE2
                                     : TO_CUBE                ? PIPE_MTE1
                                                              : PIPE_V;
  static constexpr pipe_t freeing = SLOTS == Slots::control ? PIPE_S : TO_CUBE ? PIPE_MTE1 : consumer;
  static void set(pipe_t pipe, int flag, bool is_cube, bool both) {
    set_intra_block(pipe, flag);
    if (is_cube && both) set_intra_block(pipe, flag + 16);
  }
  static void wait(pipe_t pipe, int flag, bool is_cube, bool both) {
    wait_intra_block(pipe, flag);
    if (is_cube && both) wait_intra_block(pipe, flag + 16);
  }
#else
  static constexpr pipe_t consumer = PIPE_MTE2;
  static constexpr pipe_t freeing = PIPE_MTE2;
  static void set(pipe_t pipe, int flag, bool, bool) { ffts_cross_core_sync(pipe, cross_core_message(2, flag)); }
  static void wait(pipe_t, int flag, bool, bool) { wait_flag_dev(flag); }
#endif
  static constexpr bool produces = TO_CUBE ? compiles_vector : compiles_cube;
  static constexpr bool consumes = TO_CUBE ? compiles_cube : compiles_vector;
  static void full(bool both) {
    if constexpr (produces) set(producer, FLAG, !TO_CUBE, both);
  }
  static void await_full(bool both) {
    if constexpr (consumes) wait(consumer, AWAITED, TO_CUBE, both);
  }
  static void free(bool both) {
    if constexpr (consumes) set(freeing, FLAG + 1, TO_CUBE, both);
  }
  static void await_free(bool both) {
    if constexpr (produces) wait(producer, FLAG + 1, !TO_CUBE, both);
  }
};

template <typename T>
using RowsInGlobal = pto::GlobalTensor<T, pto::Shape<1, 1, 1, -1, -1>, pto::Stride<1, 1, 1, -1, 1>>;

template <typename T>
RowsInGlobal<T> rows_in_global(void* base, std::uint64_t offset, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return RowsInGlobal<T>(reinterpret_cast<T*>(static_cast<char*>(base) + offset), {rows, cols}, {stride});
}

// The bytes before the part of a slot that a vector core has.
template <pto::TileSplitAxis SPLIT>
std::uint64_t part_offset(std::int64_t core, std::int64_t rows, std::int64_t cols, std::size_t size) {
  switch (SPLIT) {
    case pto::TILE_UP_DOWN: return core * rows * cols * size;
    case pto::TILE_LEFT_RIGHT: return core * cols * size;
    case pto::TILE_UP_DOWN_ODD: return core * (rows + core) * cols * size;
    case pto::TILE_LEFT_RIGHT_ODD: return core * (cols + core) * size;
    default: return 0;
  }
}
template <pto::TileSplitAxis SPLIT>
std::int64_t row_stride(std::int64_t core, std::int64_t cols) {
  if (SPLIT == pto::TILE_LEFT_RIGHT) return 2 * cols;
  return SPLIT == pto::TILE_LEFT_RIGHT_ODD ? 2 * cols + 2 * core - 1 : cols;
}

// The part of a slot that the second vector core writes, if that is not run: all of it counts as written by a call that
// is not modelled.
template <typename T>
void second_vector_core(T& slot) {
  if (!pairs_vectors()) record("second_vector_core", slot);
}

// One end of a pipe: how many tiles went through it, and what of the handshake it does.
struct End {
  std::uint32_t tileIndex = 0;
  std::uint32_t subTileIndex = 0;
  int entryOffset = 0;
  int tile_id = 0;
  int sub_tile_id = 0;
  bool isAllocate = true;
  bool isRecord = true;
  bool isWait = true;
  bool isFree = true;

  void setTileId(int tile, int part) {
    tileIndex = static_cast<std::uint32_t>(tile_id = tile);
    subTileIndex = static_cast<std::uint32_t>(sub_tile_id = part);
  }
  int getTileId() const { return static_cast<int>(tileIndex); }
  int getSubTileId() const { return static_cast<int>(subTileIndex); }
  void setEntryOffset(int offset) { entryOffset = offset; }
  void setAllocateStatus(bool on) { isAllocate = on; }
  void setRecordStatus(bool on) { isRecord = on; }
  void setWaitStatus(bool on) { isWait = on; }
  void setFreeStatus(bool on) { isFree = on; }
  bool getAllocateStatus() const { return isAllocate; }
  bool getRecordStatus() const { return isRecord; }
  bool getWaitStatus() const { return isWait; }
  bool getFreeStatus() const { return isFree; }
  void advance() { setTileId(getTileId() + 1, getSubTileId()); }
};

// An end with the flags of its side of the pipe.
template <typename Flags>
struct ProducerEnd : End {
  template <pto::TileSplitAxis SPLIT = pto::TILE_UP_DOWN>
  void allocate() const {
    Flags::await_free(SPLIT != pto::TILE_NO_SPLIT);
  }
  template <pto::TileSplitAxis SPLIT = pto::TILE_UP_DOWN>
  void record() const {
    Flags::full(SPLIT != pto::TILE_NO_SPLIT);
  }
};
template <typename Flags>
struct ConsumerEnd : End {
  template <pto::TileSplitAxis SPLIT = pto::TILE_UP_DOWN>
  void wait() const {
    Flags::await_full(SPLIT != pto::TILE_NO_SPLIT);
  }
  template <pto::TileSplitAxis SPLIT = pto::TILE_UP_DOWN>
  void free() const {
    Flags::free(SPLIT != pto::TILE_NO_SPLIT);
  }
};

}  // namespace ptokit

namespace pto {

template <int SLOT_BYTES, int SLOTS, int LOCAL_SLOTS>
struct RingFIFO {
  void* GM_SLOT_BUFFER = nullptr;
  uint32_t C2V_CONSUMER_BUF = 0;
  uint32_t V2C_CONSUMER_BUF = 0;
  uint64_t V2C_CONTROL_BUF = 0;
  bool ctrlSignal = false;
  static constexpr uint32_t SLOT_SIZE = SLOT_BYTES;
  static constexpr uint32_t SLOT_NUM = SLOTS;
  static constexpr uint32_t SLOT_SYNCT = SLOTS;
  static constexpr uint32_t LOCAL_SLOT_NUM = LOCAL_SLOTS;
  RingFIFO(void* global, uint32_t vector, uint32_t cube)
      : GM_SLOT_BUFFER(global), C2V_CONSUMER_BUF(vector), V2C_CONSUMER_BUF(cube) {}
};

template <uint8_t FLAG, uint8_t DIRECTION, uint32_t SLOT_BYTES, uint32_t SLOTS, uint32_t LOCAL_SLOTS = 2,
          bool NO_SPLIT = false, bool UNIT_FLAG = false>
struct TPipe : PipeTag {
  static constexpr uint8_t DIR_TYPE = DIRECTION & 7;
  static constexpr bool is_both = DIR_TYPE == DIR_BOTH || DIR_TYPE == DIR_BOTH_GM;
  static constexpr bool is_v2c_ctrl = DIR_TYPE == DIR_V2C_CTRL;
#ifdef PTOKIT_REGISTER_BASE
  static constexpr bool in_global = DIR_TYPE >= DIR_C2V_GM;
#else
  static constexpr bool in_global = true;
#endif
  static constexpr bool is_c2v = DIR_TYPE == DIR_C2V || DIR_TYPE == DIR_C2V_GM;
  static constexpr bool is_v2c = DIR_TYPE == DIR_V2C || DIR_TYPE == DIR_V2C_GM || is_v2c_ctrl;
  static constexpr bool is_c2v_gm = is_c2v && in_global;
  static constexpr bool is_v2c_gm = is_v2c && in_global;
  static constexpr bool is_both_gm = is_both && in_global;
  static constexpr uint32_t SyncPeriod = SLOTS <= 2 ? SLOTS : SLOTS / 2;
  using RingFiFo = RingFIFO<SLOT_BYTES, SLOTS, LOCAL_SLOTS>;

 private:
  static constexpr ptokit::Slots slots = is_v2c_ctrl ? ptokit::Slots::control
                                         : in_global ? ptokit::Slots::global
                                                     : ptokit::Slots::local;
  // In both directions through global memory, vector cores wait for the flag of free slots (a5/TPush.hpp:512), and
  // pushes and pops of tiles move nothing (a5/TPush.hpp:323, 336, 653).
  static constexpr bool moves_nothing = DIR_TYPE == DIR_BOTH_GM;
  using ToVector = ptokit::Handshake<FLAG, false, slots, moves_nothing ? FLAG + 1 : FLAG>;
  using ToCube = ptokit::Handshake<is_both ? FLAG + 2 : FLAG, true, slots>;
  // In both directions, the cube core pushes to the vector cores and these push to it.
  static constexpr bool pushes_to_cube = is_both ? !ptokit::compiles_cube : is_v2c;
  static constexpr bool pops_on_cube = is_both ? ptokit::compiles_cube : is_v2c;

 public:
  using Producer = ptokit::ProducerEnd<std::conditional_t<pushes_to_cube, ToCube, ToVector>>;
  using Consumer = ptokit::ConsumerEnd<std::conditional_t<pops_on_cube, ToCube, ToVector>>;
  RingFiFo fifo;
  Producer prod;
  Consumer cons;

  explicit TPipe(void* global, uint32_t vector, uint32_t cube) : fifo(global, vector, cube) {
#ifdef PTOKIT_REGISTER_BASE
    for (uint32_t i = 0; takes_part() && i < SyncPeriod; ++i) cons.template free<NO_SPLIT ? TILE_NO_SPLIT : TILE_UP_DOWN>();
#else
    constexpr int second_ring = static_cast<int>(SLOTS * SLOT_BYTES);
    if (is_both && pops_on_cube) cons.setEntryOffset(second_ring);
    if (is_both && pushes_to_cube) prod.setEntryOffset(second_ring);
#endif
  }
  TPipe(const TPipe&) = default;
  ~TPipe() {
#ifdef PTOKIT_REGISTER_BASE
    for (uint32_t i = 0; takes_part() && i < SyncPeriod; ++i) prod.template allocate<NO_SPLIT ? TILE_NO_SPLIT : TILE_UP_DOWN>();
#else
    for (uint32_t i = countPendingFreeCredits(prod.tileIndex); i > 0; --i) prod.allocate();
#endif
  }

  // In a pipe without a split the cube core has no flags of the second vector core. The headers use them there.
  static bool takes_part() { return !NO_SPLIT || get_subblockid() == 0; }
  static bool shouldWaitFree(uint32_t tile) { return tile >= SLOTS && tile % SyncPeriod == 0; }
  static bool shouldNotifyFree(uint32_t tile) { return (tile + 1) % SyncPeriod == 0; }
  // How often slots were freed after `tiles` tiles without a push that waited for it.
  static constexpr uint32_t countPendingFreeCredits(uint32_t tiles) {
    uint32_t waited = 0;
    for (uint32_t tile = SLOTS; tile < tiles; ++tile) waited += tile % SyncPeriod == 0;
    const uint32_t freed = tiles / SyncPeriod;
    return freed > waited ? freed - waited : 0;
  }

  uint64_t slot(uint32_t tile) const { return static_cast<uint64_t>(tile % SLOTS) * SLOT_BYTES; }

  template <TileSplitAxis SPLIT, typename Config, typename T>
  void push(T& tile, int64_t core) {
    using E = typename T::DType;
    const int64_t rows = tile.GetValidRow(), cols = tile.GetValidCol();
    const uint64_t base = slot(prod.tileIndex) + prod.entryOffset;
    if constexpr (is_v2c_ctrl) {
      ptokit::record("tpush", tile, base);
    } else if constexpr (moves_nothing) {
    } else if constexpr (in_global && T::Loc == TileType::Acc) {
      auto global = ptokit::rows_in_global<E>(fifo.GM_SLOT_BUFFER, base, rows, cols, cols);
      if constexpr (UNIT_FLAG) TSTORE<T, decltype(global), Config, STPhase::Final>(global, tile);
      else TSTORE<T, decltype(global), Config>(global, tile);
    } else if constexpr (in_global) {
      const uint64_t part = ptokit::part_offset<SPLIT>(core, rows, cols, sizeof(E));
      auto global = ptokit::rows_in_global<E>(fifo.GM_SLOT_BUFFER, base + part, rows, cols,
                                              ptokit::row_stride<SPLIT>(core, cols));
      TSTORE(global, tile);
    } else if constexpr (T::Loc == TileType::Acc) {
      constexpr int down = SPLIT == TILE_UP_DOWN ? 2 : 1, across = SPLIT == TILE_LEFT_RIGHT ? 2 : 1;
      constexpr auto mode = down == 2     ? AccToVecMode::DualModeSplitM
                            : across == 2 ? AccToVecMode::DualModeSplitN
                                          : AccToVecMode::SingleModeVec0;
      using To = Tile<TileType::Vec, E, T::Rows / down, T::Cols / across, BLayout::RowMajor, -1, -1>;
      To to(static_cast<unsigned>(rows / down), static_cast<unsigned>(cols / across));
      TASSIGN(to, fifo.C2V_CONSUMER_BUF + base);
      TMOV<To, T, Config, mode>(to, tile);
    } else {
      constexpr int down = SPLIT == TILE_UP_DOWN ? 2 : 1, across = SPLIT == TILE_LEFT_RIGHT ? 2 : 1;
      using To = Tile<TileType::Mat, E, T::Rows * down, T::Cols * across, BLayout::ColMajor, -1, -1, SLayout::RowMajor>;
      To to(static_cast<unsigned>(rows * down), static_cast<unsigned>(cols * across));
      TASSIGN(to, fifo.V2C_CONSUMER_BUF + base);
      if constexpr (down * across == 2) ptokit::second_vector_core(to);
      TINSERT(to, tile, static_cast<uint16_t>(down == 2 ? rows * core : 0),
              static_cast<uint16_t>(across == 2 ? cols * core : 0));
    }
  }

  // Whether the slot is free as soon as it is popped.
  static constexpr bool frees_at_once = in_global && !is_v2c_ctrl;

  template <TileSplitAxis SPLIT, typename T>
  void pop(T& tile, int64_t core) {
    using E = typename T::DType;
    constexpr bool is_vector = T::Loc == TileType::Vec;
    const uint64_t local = is_vector ? fifo.C2V_CONSUMER_BUF : fifo.V2C_CONSUMER_BUF;
    const uint64_t base = slot(cons.tileIndex) + cons.entryOffset;
    if constexpr (is_v2c_ctrl) {
      ptokit::record("tpop", tile, base);
    } else if constexpr (moves_nothing) {
    } else if constexpr (!in_global) {
      TASSIGN(tile, local + base);
    } else {
      const int64_t rows = tile.GetValidRow(), cols = tile.GetValidCol();
      const uint64_t part = is_vector ? ptokit::part_offset<SPLIT>(core, rows, cols, sizeof(E)) : 0;
      const int64_t stride = is_vector ? ptokit::row_stride<SPLIT>(core, cols) : cols;
      auto global = ptokit::rows_in_global<E>(fifo.GM_SLOT_BUFFER, base + part, rows, cols, stride);
#ifdef PTOKIT_REGISTER_BASE
      constexpr uint64_t step = sizeof(E) * T::Rows * T::Cols;
#else
      constexpr uint64_t step = SLOT_BYTES;
#endif
      TASSIGN(tile, local + cons.tileIndex % LOCAL_SLOTS * step);
      TLOAD(tile, global);
    }
  }

  // The part of a slot in global memory that this core writes or reads.
  template <TileSplitAxis SPLIT, typename G>
  void place(G& global, const ptokit::End& end, bool is_vector) const {
    const uint64_t part = is_vector ? ptokit::part_offset<SPLIT>(get_subblockid(), global.GetShape(3), global.GetShape(4), sizeof(typename G::DType)) : 0;
    global.SetAddr(reinterpret_cast<typename G::DType*>(static_cast<char*>(fifo.GM_SLOT_BUFFER) + slot(end.tileIndex) + part));
  }
  static constexpr bool vector_pushes = pushes_to_cube;
  static constexpr bool vector_pops = !pops_on_cube;
};

template <typename T, FIFOType TYPE, int DEPTH, int PERIOD, int LOCAL_DEPTH = 0, typename = void>
struct DataFIFO {
  using DType = T;
  static constexpr int fifoDepth = DEPTH;
  static constexpr int fifoPeriod = PERIOD;
  static constexpr int localFiFoDepth = LOCAL_DEPTH;
  static constexpr bool useLocalFiFo = LOCAL_DEPTH > 0;
  static constexpr FIFOType fifoType = TYPE;
  std::conditional_t<TYPE == FIFOType::GM_FIFO, T*, uint32_t> fifoBase{};
  uint32_t localFiFoBase = 0;
  bool ctrlSignal = false;
  DataFIFO(decltype(fifoBase) base, uint32_t local = 0) : fifoBase(base), localFiFoBase(local) {}
  auto getBasePtr() const { return fifoBase; }
};

// A pipe between tiles of two types; a wide tile takes several narrow ones.
template <uint8_t FLAG, FIFOType TYPE, uint8_t DEPTH, uint8_t PERIOD, typename From, typename To, bool UNIT_FLAG = false,
          uint8_t LOCAL_DEPTH = 2, VecCubeRatio RATIO = VecCubeRatio::V2C1_VECS>
struct TMPipe : PipeTag {
  static constexpr bool in_global = TYPE == FIFOType::GM_FIFO;
  static constexpr bool is_v2c_ctrl = TYPE == FIFOType::CTRL_FIFO;
  static constexpr bool is_c2v = From::Loc == TileType::Acc;
  static constexpr bool is_v2c = !is_c2v;
  static constexpr int cores = RATIO == VecCubeRatio::V2C1_VECS ? 2 : 1;
  using E = typename To::DType;
  using DataFiFo = std::conditional_t<in_global, DataFIFO<E, TYPE, DEPTH, PERIOD, LOCAL_DEPTH>, DataFIFO<To, TYPE, DEPTH, PERIOD>>;
  using Flags = ptokit::Handshake<FLAG, is_v2c,
                                  is_v2c_ctrl ? ptokit::Slots::control : in_global ? ptokit::Slots::global : ptokit::Slots::local>;
  using Producer = ptokit::ProducerEnd<Flags>;
  using Consumer = ptokit::ConsumerEnd<Flags>;
  DataFiFo fifo;
  Producer prod;
  Consumer cons;

  template <typename Base>
  explicit TMPipe(Base base, uint32_t local = 0) : fifo(base, local) {
    cons.free();
  }
  TMPipe(const TMPipe&) = default;
  ~TMPipe() { prod.allocate(); }

  static bool shouldWaitFree(uint32_t) { return true; }
  static bool shouldNotifyFree(uint32_t) { return true; }
  static constexpr bool frees_at_once = true;

  template <TileSplitAxis, typename Config>
  void push(From& tile, int64_t core) {
    using P = typename From::DType;
    const uint64_t index = prod.tileIndex % DEPTH;
    if constexpr (is_v2c_ctrl) {
      ptokit::record("tpush", tile, index);
    } else if constexpr (in_global && is_c2v) {
      constexpr uint64_t bytes = sizeof(P) * From::Rows * From::Cols * (To::Cols / From::Cols);
      auto global = ptokit::rows_in_global<P>(fifo.fifoBase, index * bytes + prod.entryOffset, From::Rows, From::Cols, From::Cols);
      if constexpr (UNIT_FLAG) TSTORE<STPhase::Final>(global, tile);
      else TSTORE(global, tile);
    } else if constexpr (in_global) {
      constexpr int count = From::Cols / To::Cols;
      constexpr uint64_t bytes = sizeof(P) * To::Rows * To::Cols;
      for (int i = 0; i < count; ++i) {
        Tile<TileType::Vec, P, From::Rows, From::Cols, BLayout::RowMajor, From::Rows, To::Cols> part;
        ptokit::alias(part, tile, sizeof(P) * To::Cols * i);
        auto global = ptokit::rows_in_global<P>(fifo.fifoBase, (index * count + i) * bytes + prod.entryOffset, From::Rows, To::Cols, To::Cols);
        TSTORE(global, part);
      }
    } else if constexpr (is_c2v) {
      constexpr int factor = To::Cols >= From::Cols ? To::Cols / From::Cols : 1;
      constexpr bool by_rows = cores == 2 && From::Rows != To::Rows && From::Cols == To::Cols;
      constexpr bool by_cols = cores == 2 && From::Rows == To::Rows && From::Cols != To::Cols;
      using Part = Tile<TileType::Vec, P, by_rows ? From::Rows / 2 / factor : From::Rows, by_cols ? From::Cols / 2 / factor : From::Cols>;
      constexpr auto mode = by_rows ? AccToVecMode::DualModeSplitM : by_cols ? AccToVecMode::DualModeSplitN : AccToVecMode::SingleModeVec0;
      Part part;
      TASSIGN(part, fifo.fifoBase + index * sizeof(P) * Part::Numel + prod.entryOffset);
      TMOV<Part, From, mode>(part, tile);
    } else {
      To to;
      TASSIGN(to, fifo.fifoBase + index * sizeof(E) * To::Numel);
      if constexpr (From::Rows != To::Rows || From::Cols != To::Cols) ptokit::second_vector_core(to);
      TINSERT(to, tile, static_cast<uint16_t>(From::Rows != To::Rows ? To::Rows / cores * core : 0),
              static_cast<uint16_t>(From::Cols != To::Cols ? From::Cols * core : 0));
    }
  }

  template <TileSplitAxis>
  void pop(To& tile, int64_t) {
    const uint64_t index = cons.tileIndex % DEPTH;
    if constexpr (is_v2c_ctrl) {
      ptokit::record("tpop", tile, index);
    } else if constexpr (!in_global) {
      TASSIGN(tile, fifo.fifoBase + index * sizeof(E) * To::Numel + cons.entryOffset);
    } else {
      if constexpr (LOCAL_DEPTH > 0) {
        TASSIGN(tile, fifo.localFiFoBase + cons.tileIndex % LOCAL_DEPTH * sizeof(E) * To::Numel);
      }
      if constexpr (To::Loc == TileType::Vec) {
        constexpr int count = To::Cols / From::Cols;
        constexpr uint64_t bytes = sizeof(E) * From::Rows * From::Cols;
        for (int i = 0; i < count; ++i) {
          Tile<TileType::Vec, E, To::Rows, To::Cols, BLayout::RowMajor, To::Rows, From::Cols> part;
          ptokit::alias(part, tile, sizeof(E) * From::Cols * i);
          auto global = ptokit::rows_in_global<E>(fifo.fifoBase, (index * count + i) * bytes + cons.entryOffset, To::Rows, From::Cols, From::Cols);
          TLOAD(part, global);
        }
      } else {
        auto global = ptokit::rows_in_global<E>(fifo.fifoBase, index * sizeof(E) * To::Rows * From::Cols + cons.entryOffset, To::Rows, To::Cols, To::Cols);
        TLOAD(tile, global);
      }
    }
  }
};

}  // namespace pto

namespace ptokit {

template <typename T>
concept IsPipe = std::is_base_of_v<pto::PipeTag, T>;

template <pto::TileSplitAxis SPLIT, typename Config, typename Pipe, typename T>
void push_tile(Pipe& pipe, T& tile, std::int64_t core) {
  if (pipe.prod.isAllocate && Pipe::shouldWaitFree(pipe.prod.tileIndex)) pipe.prod.template allocate<SPLIT>();
  pipe.template push<SPLIT, Config>(tile, core);
  pipe.prod.advance();
  if (pipe.prod.isRecord) pipe.prod.template record<SPLIT>();
}

template <pto::TileSplitAxis SPLIT, typename Pipe, typename T>
void pop_tile(Pipe& pipe, T& tile, std::int64_t core) {
  if (pipe.cons.isWait) pipe.cons.template wait<SPLIT>();
  pipe.template pop<SPLIT>(tile, core);
#ifdef PTOKIT_REGISTER_BASE
  const bool frees = Pipe::in_global && Pipe::frees_at_once;
#else
  const bool frees = true;
#endif
  const bool notifies = Pipe::shouldNotifyFree(pipe.cons.tileIndex);
  pipe.cons.advance();
  if (frees && pipe.cons.isFree && notifies) pipe.cons.template free<SPLIT>();
}

template <pto::TileSplitAxis SPLIT, typename Pipe>
void free_slot(Pipe& pipe) {
  if (pipe.cons.isFree && Pipe::shouldNotifyFree(pipe.cons.tileIndex - 1)) pipe.cons.template free<SPLIT>();
}

struct NoConfig {};

}  // namespace ptokit

namespace pto {

template <typename Pipe, typename T, TileSplitAxis SPLIT = TILE_NO_SPLIT, typename... Events>
  requires(ptokit::IsPipe<Pipe> && ptokit::IsTile<T> && all_events_v<Events...>)
inline RecordEvent TPUSH(Pipe& pipe, T& tile, Events&... events) {
  (events.Wait(), ...);
  ptokit::push_tile<SPLIT, ptokit::NoConfig>(pipe, tile, get_subblockid());
  return {};
}
template <typename Pipe, typename T, TileSplitAxis SPLIT, typename... Events>
  requires(ptokit::IsPipe<Pipe> && ptokit::IsTile<T>)
inline RecordEvent TPUSH(Pipe& pipe, T& tile, int32_t core, Events&... events) {
  (events.Wait(), ...);
  ptokit::push_tile<SPLIT, ptokit::NoConfig>(pipe, tile, core);
  return {};
}
template <typename Pipe, typename T, typename Config, typename... Events>
  requires(ptokit::IsPipe<Pipe> && ptokit::IsTile<T> && requires { Config::QuantPre; } && all_events_v<Events...>)
inline RecordEvent TPUSH(Pipe& pipe, T& tile, Events&... events) {
  (events.Wait(), ...);
  ptokit::push_tile<TILE_NO_SPLIT, Config>(pipe, tile, get_subblockid());
  return {};
}
template <typename Pipe, typename G, TileSplitAxis SPLIT = TILE_NO_SPLIT, typename... Events>
  requires(ptokit::IsPipe<Pipe> && is_global_data_v<G> && all_events_v<Events...>)
inline RecordEvent TPUSH(Pipe& pipe, G&, Events&... events) {
  (events.Wait(), ...);
  pipe.prod.template record<SPLIT>();
  return {};
}
template <typename T, typename Pipe, typename... Events>
  requires(ptokit::IsTile<T> && ptokit::IsPipe<Pipe>)
inline RecordEvent TPUSH(T& tile, Pipe& pipe, Events&... events) {
  (events.Wait(), ...);
  ptokit::push_tile<TILE_UP_DOWN, ptokit::NoConfig>(pipe, tile, get_subblockid());
  return {};
}

template <typename Pipe, typename T, TileSplitAxis SPLIT = TILE_NO_SPLIT, typename... Events>
  requires(ptokit::IsPipe<Pipe> && ptokit::IsTile<T> && all_events_v<Events...>)
inline RecordEvent TPOP(Pipe& pipe, T& tile, Events&... events) {
  (events.Wait(), ...);
  ptokit::pop_tile<SPLIT>(pipe, tile, get_subblockid());
  return {};
}
template <typename Pipe, typename T, TileSplitAxis SPLIT, typename... Events>
  requires(ptokit::IsPipe<Pipe> && ptokit::IsTile<T>)
inline RecordEvent TPOP(Pipe& pipe, T& tile, int32_t core, Events&... events) {
  (events.Wait(), ...);
  ptokit::pop_tile<SPLIT>(pipe, tile, core);
  return {};
}
template <typename Pipe, typename G, TileSplitAxis SPLIT = TILE_NO_SPLIT, typename... Events>
  requires(ptokit::IsPipe<Pipe> && is_global_data_v<G> && all_events_v<Events...>)
inline RecordEvent TPOP(Pipe& pipe, G& global, Events&... events) {
  (events.Wait(), ...);
  pipe.cons.template wait<SPLIT>();
  pipe.template place<SPLIT>(global, pipe.cons, Pipe::vector_pops);
  pipe.cons.advance();
  return {};
}
template <typename T, typename Pipe, typename... Events>
  requires(ptokit::IsTile<T> && ptokit::IsPipe<Pipe>)
inline RecordEvent TPOP(T& tile, Pipe& pipe, Events&... events) {
  (events.Wait(), ...);
  ptokit::pop_tile<TILE_UP_DOWN>(pipe, tile, get_subblockid());
  return {};
}

template <typename Pipe, typename G, TileSplitAxis SPLIT = TILE_NO_SPLIT, typename... Events>
  requires(ptokit::IsPipe<Pipe> && is_global_data_v<G>)
inline RecordEvent TALLOC(Pipe& pipe, G& global, Events&... events) {
  (events.Wait(), ...);
  if (pipe.prod.isAllocate && Pipe::shouldWaitFree(pipe.prod.tileIndex)) pipe.prod.template allocate<SPLIT>();
  pipe.template place<SPLIT>(global, pipe.prod, Pipe::vector_pushes);
  pipe.prod.advance();
  return {};
}

template <typename Pipe, TileSplitAxis SPLIT, typename... Events>
  requires(ptokit::IsPipe<Pipe> && all_events_v<Events...>)
inline RecordEvent TFREE(Pipe& pipe, Events&... events) {
  (events.Wait(), ...);
#ifdef PTOKIT_REGISTER_BASE
  ptokit::free_slot<SPLIT>(pipe);
#endif
  return {};
}
template <typename Pipe, typename... Events>
  requires(ptokit::IsPipe<Pipe> && all_events_v<Events...>)
inline RecordEvent TFREE(Pipe& pipe, Events&... events) {
  return TFREE<Pipe, TILE_UP_DOWN>(pipe, events...);
}
template <typename Pipe, typename G, TileSplitAxis SPLIT = TILE_NO_SPLIT, typename... Events>
  requires(ptokit::IsPipe<Pipe> && is_global_data_v<G>)
inline RecordEvent TFREE(Pipe& pipe, G&, Events&... events) {
  (events.Wait(), ...);
  ptokit::free_slot<SPLIT>(pipe);
  return {};
}

template <LayoutMode_t LAYOUT = LayoutMode_t::NZ2ND, QuantMode_t QUANT = QuantMode_t::NoQuant,
          ReluPreMode RELU = ReluPreMode::NoRelu, STPhase PHASE = STPhase::Unspecified, uint8_t SUBBLOCK = 0,
          AtomicType ATOMIC = AtomicType::AtomicNone, ClipReluMode_t CLIP = ClipReluMode_t::NOCLIP_RELU,
          bool SPLIT = false>
struct FixpipeParams {
  static constexpr LayoutMode_t LayoutMode = LAYOUT;
  static constexpr QuantMode_t QuantPre = QUANT;
  static constexpr ReluPreMode ReluMode = RELU;
  static constexpr STPhase Phase = PHASE;
  static constexpr uint8_t SubBlockId = SUBBLOCK;
  static constexpr AtomicType AtomicT = ATOMIC;
  static constexpr ClipReluMode_t ClipReluMode = CLIP;
  static constexpr bool IsChannelSplit = SPLIT;

  static void ptokit_modifiers(ptokit::Pending& call) {
    ptokit::add_value<LAYOUT>(call);
    ptokit::add_value<QUANT>(call);
    ptokit::add_value<RELU>(call);
    ptokit::add_value<PHASE>(call);
    ptokit::add_value<ATOMIC>(call);
  }
};

}  // namespace pto
