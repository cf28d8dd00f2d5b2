// Numbers that kernels take from the public headers.
#pragma once

#include <ptokit/tile.hpp>

namespace pto {

constexpr int REPEAT_BYTE = 256;
constexpr uint64_t BLOCK_MAX_PER_REPEAT = 8;
constexpr int REPEAT_MAX = 255;
constexpr int REPEAT_STRIDE_MAX = 255;
constexpr int BLOCK_BYTE_SIZE = 32;
#ifdef PTOKIT_REGISTER_BASE
constexpr int BLOCK_SIZE = 32;
#endif
constexpr int BLOCK_LEN = 16;
constexpr int CUBE_BLOCK_SIZE = 512;
constexpr int C0_SIZE_BYTE = 32;
constexpr int FRACTAL_NZ_ROW = 16;
constexpr int FRACTAL_ZZ_ROW = 16;
constexpr int ACC_C0_SIZE = 16;
constexpr uint32_t B4_C0_SIZE = 64;
constexpr int MX_COL_LEN = 2;
constexpr int MX_ROW_LEN = 16;
constexpr int MX_BLOCK_SIZE = 32;
constexpr uint32_t SHIFT_BLOCK_LEN = 4;
constexpr uint32_t SHIFT_BLOCK_BYTE = 5;
constexpr uint32_t SHIFT_FRACTAL_BYTE = 9;
constexpr uint64_t MASK_LEN = 64;
constexpr uint32_t TMP_UB_SIZE = 8 * 1024;
constexpr uint32_t TMP_UB_OFFSET = 184 * 1024;

constexpr int PTO_RANDOM_KEY_SIZE = 2;
constexpr int PTO_RANDOM_COUNTER_SIZE = 4;
using TRandomKey = uint32_t[PTO_RANDOM_KEY_SIZE];
using TRandomCounter = uint32_t[PTO_RANDOM_COUNTER_SIZE];

// A pad value of the kernel's own: its bits behind a mark.
constexpr PadValue ptokit_pad(std::uint64_t bits) {
  return static_cast<PadValue>(static_cast<std::uint64_t>(PadValue::CustomBase) | bits);
}
constexpr PadValue PadValueCustom(float value) { return ptokit_pad(__builtin_bit_cast(std::uint32_t, value)); }
constexpr PadValue PadValueCustom(half value) { return ptokit_pad(value.bits); }
constexpr PadValue PadValueCustom(bfloat16_t value) { return ptokit_pad(value.bits); }
template <typename T>
  requires(std::is_integral_v<T>)
constexpr PadValue PadValueCustom(T value) {
  return ptokit_pad(static_cast<std::uint32_t>(static_cast<std::make_unsigned_t<T>>(value)));
}
constexpr PadValue PadValueCustom16(uint16_t bits) { return ptokit_pad(bits); }
template <auto V>
inline constexpr PadValue PadCustom = PadValueCustom(static_cast<std::conditional_t<std::is_floating_point_v<decltype(V)>, float, decltype(V)>>(V));
constexpr bool isCustomPadValue(PadValue value) {
  return static_cast<std::uint64_t>(value) >= static_cast<std::uint64_t>(PadValue::CustomBase);
}
constexpr uint32_t getCustomPadBits(PadValue value) { return static_cast<uint32_t>(static_cast<std::uint64_t>(value)); }

struct MrgSortExecutedNumList {
  uint16_t mrgSortList0 = 0;
  uint16_t mrgSortList1 = 0;
  uint16_t mrgSortList2 = 0;
  uint16_t mrgSortList3 = 0;
};

// Where the scales of a matrix operand lie: one byte for 16 of its bytes.
template <typename T>
inline uint64_t GetScaleAddr(T* data) {
  constexpr ptokit::Memory memories[] = {ptokit::Memory::left, ptokit::Memory::right};
  auto value = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data));
  for (ptokit::Memory memory : memories) value = ptokit::address_of(memory, value);
  return value >> 4;
}

// Of how many elements a pattern takes one.
template <MaskPattern PATTERN>
constexpr unsigned GetTimesByMask() {
  return PATTERN == MaskPattern::P1111 ? 1 : PATTERN == MaskPattern::P0101 || PATTERN == MaskPattern::P1010 ? 2 : 4;
}

inline int32_t CeilDivision(int32_t a, int32_t b) { return b == 0 ? 0 : (a + b - 1) / b; }
inline uint32_t CeilAlignment(uint32_t a, uint32_t b) { return b == 0 ? 0 : (a + b - 1) / b * b; }
template <typename T, typename... Types>
inline constexpr bool isSupportType = (std::is_same_v<T, Types> || ...);

}  // namespace pto

#define PTO_CEIL(x, y) (((x) + (y) - 1) / (y) * (y))
#define PTO_DIV_ROUNDUP(x, y) (((x) + (y) - 1) / (y))

// Bytes of the on-chip memories.
#define PTO_UBUF_SIZE_BYTES PTOKIT_UB_BYTES
#define PTO_CBUF_SIZE_BYTES PTOKIT_L1_BYTES
#define PTO_L0A_SIZE_BYTES PTOKIT_L0A_BYTES
#define PTO_L0B_SIZE_BYTES PTOKIT_L0B_BYTES
#define PTO_L0C_SIZE_BYTES PTOKIT_L0C_BYTES
