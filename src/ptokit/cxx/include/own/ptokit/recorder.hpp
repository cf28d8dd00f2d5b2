// What the recording headers call: one function per event that ptokit records. Needs C++20 and no other header of ours.
//
// `runtime.cpp` implements it. Compile both with PTOKIT's flags: -g1 -fno-omit-frame-pointer -fno-inline, so that a
// recorded call finds its place and the chain of calls that leads there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ptokit {

// Element types. The order is the trace's; ptokit/cxx/recording.py names them in the same order.
enum class DType : std::uint8_t {
  f16, bf16, f32, i8, u8, i16, u16, i32, u32, i64, u64, f64,
  f8e4m3, f8e5m2, hif8, f4e2m1, f4e1m2, f8e8m0, i4, boolean
};

// On-chip memories, in the order of the public TileType.
enum class Memory : std::uint8_t { vec, mat, left, right, acc, bias, scaling, scale_left, scale_right, ctrl };

// In the place of the CompactMode: a convolution tile.
inline constexpr std::uint8_t convolution = 255;

// A tile as a call sees it. Value-initialise it: bytes that are not set must be zero, equal calls are found by bytes.
struct TileInfo {
  const void* object = nullptr;  // identity of the tile: the address of the C++ object
  std::uint64_t address = 0;     // bytes from the start of its memory, if `assigned`; of a view, from that of `object`
  std::int32_t rows = 0, cols = 0, valid_rows = 0, valid_cols = 0;
  DType dtype = DType::f32;
  Memory memory = Memory::vec;
  std::uint8_t blayout = 0;   // 0 row-major, 1 column-major
  std::uint8_t slayout = 0;   // 0 none, 1 row-major, 2 column-major
  std::uint8_t pad = 0;       // 0 null, 1 zero, 2 max, 3 min, 4 custom
  std::uint8_t assigned = 0;  // 1 if `address` is known, 2 for a view of a tile without an address
  std::uint8_t compact = 0;   // the public CompactMode, or `convolution`
  std::uint8_t dynamic = 0;   // bits 0 and 1: valid rows and columns that are -1 in the type
  std::uint16_t fractal = 0;  // bytes of a fractal
  std::uint16_t reserved = 0;
  std::uint32_t pad_bits = 0;  // the bits of a custom pad value
};
static_assert(sizeof(TileInfo) == 48);

// A global tensor as a call sees it. Extents and strides are the run-time values, in elements.
struct GlobalInfo {
  const void* data = nullptr;
  std::int64_t shape[5] = {1, 1, 1, 1, 1};
  std::int64_t stride[5] = {1, 1, 1, 1, 1};
  DType dtype = DType::f32;
  std::uint8_t layout = 0;    // the public Layout: 0 ND, 1 DN, 2 NZ, 3 SCALE, ...
  std::uint16_t dynamic = 0;  // bits 0..4: extents, bits 5..9: strides that are -1 in the type
  std::uint32_t reserved = 0;
};
static_assert(sizeof(GlobalInfo) == 96);

struct ScalarInfo {
  std::uint64_t bits = 0;  // the value's bytes, little-endian, upper bytes zero
  DType dtype = DType::i32;
};

struct Operand {
  enum class Kind : std::uint8_t { tile, global, scalar, pointer, text };
  Kind kind;
  union {
    TileInfo tile;
    GlobalInfo global;
    ScalarInfo scalar;
    const void* pointer;
    const char* text;  // static storage: "PIPE_MTE2"
  };

  Operand() : kind(Kind::pointer), pointer(nullptr) {}
  static Operand of(const TileInfo& value) { Operand o; o.kind = Kind::tile; o.tile = value; return o; }
  static Operand of(const GlobalInfo& value) { Operand o; o.kind = Kind::global; o.global = value; return o; }
  static Operand of(const void* value) { Operand o; o.kind = Kind::pointer; o.pointer = value; return o; }
  static Operand of_text(const char* value) { Operand o; o.kind = Kind::text; o.text = value; return o; }
  // `bytes` is 1, 2, 4 or 8: the size of the value at `from`.
  static Operand of_bits(DType dtype, const void* from, std::size_t bytes) {
    Operand o;
    o.kind = Kind::scalar;
    o.scalar = ScalarInfo{0, dtype};
    __builtin_memcpy(&o.scalar.bits, from, bytes < 8 ? bytes : 8);
    return o;
  }
  // Integers, enums, bool, float and double; other element types use of_bits.
  template <typename T>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
  static Operand of(T value) {
    return of_bits(dtype_of<T>(), &value, sizeof(T));
  }

 private:
  template <typename T>
  static constexpr DType dtype_of() {
    if constexpr (std::is_same_v<T, bool>) return DType::boolean;
    else if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? DType::f32 : DType::f64;
    else if constexpr (std::is_enum_v<T>) return dtype_of<std::underlying_type_t<T>>();
    else if constexpr (std::is_signed_v<T>)
      return sizeof(T) == 1 ? DType::i8 : sizeof(T) == 2 ? DType::i16 : sizeof(T) == 4 ? DType::i32 : DType::i64;
    else
      return sizeof(T) == 1 ? DType::u8 : sizeof(T) == 2 ? DType::u16 : sizeof(T) == 4 ? DType::u32 : DType::u64;
  }
};

// A template parameter of a call: {"coalesce", "row", 0}, {"repeat", nullptr, 4}. Strings have static storage.
struct Modifier {
  const char* key;
  const char* text;
  std::int64_t number;
};

// Records one call with its operands in the C++ argument order. It walks the stack itself. `name` has static storage.
void call(const char* name, const Operand* operands, std::size_t count, const Modifier* modifiers = nullptr,
          std::size_t modifier_count = 0);

// The block and the core that are being run. Outside a launch: 0 of 1, on a vector core.
std::uint64_t block_idx();
std::uint64_t block_num();
std::uint64_t subblock_idx();
std::uint64_t subblock_num();
// Whether both vector cores of a cube core are run.
bool pairs_vectors();
// Kernels of this name, or all, have so many vector cores for each cube core.
bool state_vectors(const char* kernel, std::uint64_t count);
bool on_cube();
bool on_vector();

// A chevron launch: runs `body(context)` for every block and core. `arguments` are the values that the kernel gets.
void launch(const char* name, std::uint64_t grid, void (*body)(void*), void* context,
            const Operand* arguments = nullptr, std::size_t count = 0);

// Threads of a function: the one that runs, and how many there are.
struct Index3 {
  std::uint32_t x = 0, y = 0, z = 0;
};
extern Index3 thread_index, thread_count;
// Runs `body(context)` for every thread. What they read and wrote is recorded at the end.
void run_threads(Index3 count, void (*body)(void*), void* context);
// A barrier of all threads; the sum over the lanes of a warp that come here.
void wait_for_threads();
float sum_of_warp(float value);
// While it lives, accesses of this thread are those of an atomic operation.
struct Atomic {
  Atomic();
  ~Atomic();
};

// Device memory that host code asks for (aclrtMalloc): an array of the recording, zeros at first.
void* allocate(std::size_t bytes);
void release(void* data);

// Host memory that backs an on-chip address; null if the address is outside the memory.
void* local(Memory memory, std::uint64_t address);

// GetValue and SetValue of the element `offset`. Both are recorded: "getvalue", "setvalue". Reading pauses the kernel
// until ptokit has executed what was recorded so far.
void read_value(const TileInfo& tile, std::uint64_t offset, void* to, std::size_t bytes);
void write_value(const TileInfo& tile, std::uint64_t offset, const void* from, std::size_t bytes);

// Scalar accesses of a global array, and copies between host and device. They see what instructions wrote before.
void read_memory(const void* from, void* to, std::size_t bytes);
void write_memory(void* to, const void* from, std::size_t bytes);
// A cache line, or the whole cache, is made to hold what instructions wrote.
void refresh(const void* address, bool whole);

// Ends the recording with a message at the place of the caller.
[[noreturn]] void fail(const char* message);

}  // namespace ptokit
