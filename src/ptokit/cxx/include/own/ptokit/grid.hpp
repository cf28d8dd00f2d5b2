// Pipes between neighbouring cores of a grid: pushes and pops are recorded with their direction.
#pragma once

#include <ptokit/pto.hpp>

namespace pto {

enum class GridDirection : uint8_t { SOURCE, NORTH, EAST, WEST, SOUTH };
enum class GridSpan : uint8_t { ROW, COL };
inline constexpr int kGridDirectionCount = 5;
struct GridShape {
  int gridRows = 0;
  int gridCols = 0;
};
struct GridCoord {
  int row = 0;
  int col = 0;
};
constexpr int GridDirectionIndex(GridDirection direction) { return static_cast<int>(direction); }

template <typename TileT, int BYTES, int COUNT>
struct GridPipe {
  using TileType = TileT;
  static constexpr int SlotBytes = BYTES;
  static constexpr int SlotCount = COUNT;
  GridShape shape;
  GridCoord coord;
  uint8_t* slotBase[kGridDirectionCount] = {};
  uint32_t* readyFlags[kGridDirectionCount] = {};
  uint32_t* freeFlags[kGridDirectionCount] = {};
  uint32_t prodIndex[kGridDirectionCount] = {};
  uint32_t consIndex[kGridDirectionCount] = {};
  void* runtimeCtx = nullptr;
  uint32_t pipeId = 0;
};
template <typename T>
inline constexpr bool is_grid_pipe_v = false;
template <typename T, int BYTES, int COUNT>
inline constexpr bool is_grid_pipe_v<GridPipe<T, BYTES, COUNT>> = true;

// The coordinate that lies `steps` further in a direction, and whether the grid has it.
constexpr GridCoord NeighborForPushK(GridDirection direction, GridCoord at, int steps) {
  const int down = direction == GridDirection::SOUTH ? steps : direction == GridDirection::NORTH ? -steps : 0;
  const int right = direction == GridDirection::EAST ? steps : direction == GridDirection::WEST ? -steps : 0;
  return {at.row + down, at.col + right};
}
constexpr GridCoord NeighborForPopK(GridDirection direction, GridCoord at, int steps) {
  return NeighborForPushK(direction, at, -steps);
}
constexpr bool ptokit_inside(GridCoord at, GridShape shape) {
  return at.row >= 0 && at.row < shape.gridRows && at.col >= 0 && at.col < shape.gridCols;
}
constexpr bool CanPushK(GridDirection direction, GridCoord at, GridShape shape, int steps) {
  return direction != GridDirection::SOURCE && ptokit_inside(NeighborForPushK(direction, at, steps), shape);
}
constexpr bool CanPopK(GridDirection direction, GridCoord at, GridShape shape, int steps) {
  return direction == GridDirection::SOURCE || ptokit_inside(NeighborForPopK(direction, at, steps), shape);
}
constexpr bool CanPush(GridDirection direction, GridCoord at, GridShape shape) { return CanPushK(direction, at, shape, 1); }
constexpr bool CanPop(GridDirection direction, GridCoord at, GridShape shape) { return CanPopK(direction, at, shape, 1); }
constexpr int RankFromCoord(GridCoord at, GridShape shape) { return at.row * shape.gridCols + at.col; }
inline GridCoord GetGridCoord(GridShape shape) {
  const int block = static_cast<int>(get_block_idx());
  return {block / shape.gridCols, block % shape.gridCols};
}

template <GridDirection DIRECTION, int STEPS = 1, typename Pipe, typename T, typename... Events>
  requires(is_grid_pipe_v<Pipe>)
inline RecordEvent TPUSH(Pipe& pipe, T& tile, Events&... events) {
  (events.Wait(), ...);
  ptokit::record("grid_tpush", tile, static_cast<int>(DIRECTION), STEPS, pipe.pipeId);
  return {};
}
template <GridSpan SPAN, typename Pipe, typename T, typename... Events>
  requires(is_grid_pipe_v<Pipe>)
inline RecordEvent TPUSH(Pipe& pipe, T& tile, Events&... events) {
  (events.Wait(), ...);
  ptokit::record("grid_tpush_span", tile, static_cast<int>(SPAN), pipe.pipeId);
  return {};
}
template <GridDirection DIRECTION, int STEPS = 1, typename Pipe, typename T, typename... Events>
  requires(is_grid_pipe_v<Pipe>)
inline RecordEvent TPOP(Pipe& pipe, T& tile, Events&... events) {
  (events.Wait(), ...);
  ptokit::record("grid_tpop", tile, static_cast<int>(DIRECTION), STEPS, pipe.pipeId);
  return {};
}

struct neighbor_sram_addr {
  uint64_t value = 0;
};
// Equal segments of memory, one for each core.
struct GmSramArena {
  uint64_t base = 0;
  uint64_t segBytes = 0;
  uint32_t numSegs = 0;
  constexpr uint64_t SegmentBase(int segment) const { return base + static_cast<uint64_t>(segment) * segBytes; }
  constexpr bool InSegment(int segment, uint64_t address, uint64_t bytes) const {
    return segment >= 0 && static_cast<uint32_t>(segment) < numSegs && address >= SegmentBase(segment) &&
           address + bytes <= SegmentBase(segment) + segBytes;
  }
};
inline void copy_sram_to_neighbor_sram(neighbor_sram_addr to, neighbor_sram_addr from, uint32_t bytes, uint64_t) {
  ptokit::record("copy_sram_to_neighbor_sram", to.value, from.value, bytes);
}
inline void copy_neighbor_sram_to_sram(neighbor_sram_addr to, neighbor_sram_addr from, uint32_t bytes, uint64_t) {
  ptokit::record("copy_neighbor_sram_to_sram", to.value, from.value, bytes);
}

namespace a2a3_grid {
inline constexpr uint32_t kFlagsBytes = 128;
template <typename Pipe>
constexpr uint32_t WindowBytes() {
  return kFlagsBytes + kGridDirectionCount * Pipe::SlotCount * Pipe::SlotBytes;
}
template <typename Pipe>
inline void InitGridPipeFromWindow(Pipe& pipe, GridShape shape, GridCoord coord, uint8_t* window, void* context, uint32_t id) {
  pipe.shape = shape;
  pipe.coord = coord;
  pipe.runtimeCtx = context;
  pipe.pipeId = id;
  for (int i = 0; i < kGridDirectionCount; ++i) {
    pipe.readyFlags[i] = reinterpret_cast<uint32_t*>(window) + i;
    pipe.freeFlags[i] = reinterpret_cast<uint32_t*>(window) + kGridDirectionCount + i;
    pipe.slotBase[i] = window + kFlagsBytes + i * Pipe::SlotCount * Pipe::SlotBytes;
  }
}
}  // namespace a2a3_grid

}  // namespace pto

// What the communication library tells a device of its peers.
struct HcclDeviceContext {
  uint64_t workSpace;
  uint64_t workSpaceSize;
  uint32_t rankId;
  uint32_t rankNum;
  uint64_t winSize;
  uint64_t windowsIn[64];
  uint64_t windowsOut[64];
};
