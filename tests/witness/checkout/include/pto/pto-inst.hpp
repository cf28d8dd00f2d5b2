// A small set of headers for tests: a tile, a tensor, and instructions that do what headers may do unseen.
#pragma once

#include <cstdint>

#define AICORE [aicore]
#define PTO_INST AICORE inline
#define PTO_INTERNAL AICORE inline
#define OP_NAME(Name) __attribute__((vf_name(#Name)))

uint32_t get_block_idx();

namespace pto {

enum class TileType { Vec, Mat };

template <TileType Loc_, typename T_, int Rows_, int Cols_>
struct Tile {
  static constexpr TileType Loc = Loc_;
  static constexpr int Rows = Rows_, Cols = Cols_;
  using DType = T_;
  using TileDType = __ubuf__ T_*;
  TileDType pointer = nullptr;
  TileDType data() const { return pointer; }
  void assignData(TileDType value) { pointer = value; }
};

template <typename T>
struct remove_gm {
  using type = T;
};
#if defined(__CCE_AICORE__)
template <typename T>
struct remove_gm<__gm__ T> {
  using type = T;
};
#endif

template <typename T, typename AddrType>
PTO_INTERNAL void TASSIGN_IMPL(T& obj, AddrType addr)
{
    obj.assignData(reinterpret_cast<typename T::TileDType>(static_cast<std::uintptr_t>(addr)));
}

template <typename T, typename AddrType>
PTO_INST void TASSIGN(T& obj, AddrType addr)
{
    TASSIGN_IMPL(obj, addr);
}

template <typename Tile, typename T>
PTO_INST void TLOAD(Tile& dst, __gm__ T* src)
{
    copy_gm_to_ubuf_align_b32(dst.data(), src, 0, (uint16_t)Tile::Rows, (uint32_t)(Tile::Cols * sizeof(T)), 0, 0, 0, 0);
}

template <typename Tile, typename T>
PTO_INST void TSTORE(__gm__ T* dst, Tile& src)
{
    copy_ubuf_to_gm_align_b32(dst, src.data(), 0, (uint16_t)Tile::Rows, (uint32_t)(Tile::Cols * sizeof(T)), 0, 0, 0, 0);
}

// Scales the source where it is, and then converts it: the source is written, too.
template <typename To, typename From>
PTO_INST void TQUANT(To& dst, From& src, float scale)
{
    vmuls(src.data(), src.data(), scale, (uint8_t)(From::Rows * From::Cols / 64), 1, 1, 8, 8);
    pipe_barrier(PIPE_V);
    vconv_f322f16(dst.data(), src.data(), (uint8_t)(From::Rows * From::Cols / 64), 1, 1, 4, 8);
}

// The scalar pipe writes the workspace before any flag.
template <typename Tile, typename Workspace>
PTO_INST void TSELS(Tile& dst, Tile& src, Workspace& tmp, float scalar)
{
    tmp.data()[1] = 3;
    set_flag(PIPE_S, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_S, PIPE_V, EVENT_ID0);
    set_cmpmask(tmp.data());
    set_mask_count();
    set_vector_mask(0, 40);
    vsel(dst.data(), src.data(), src.data(), 0, 1, 1, 1, 8, 8, 8, 0);
    set_mask_norm();
    set_vector_mask(-1, -1);
}

// A function that no table knows.
template <typename Tile>
PTO_INST void TNEW(Tile& dst)
{
    vbrandnew(dst.data(), 1);
}

// Tensors, and what moves them.
template <int... N>
struct Shape {};
template <int... N>
struct Stride {};
template <typename T, typename Shape_, typename Stride_>
struct GlobalTensor {
  __gm__ T* pointer;
  explicit GlobalTensor(__gm__ T* start) : pointer(start) {}
};

template <typename Tile, typename T, typename... Rest>
PTO_INST void TLOAD(Tile& dst, GlobalTensor<T, Rest...>& src)
{
    copy_gm_to_ubuf_align_b32(dst.data(), src.pointer, 0, Tile::Rows, Tile::Cols * sizeof(T), 0, 0, 0, 0);
}

template <typename Tile, typename T, typename... Rest>
PTO_INST void TSTORE(GlobalTensor<T, Rest...>& dst, Tile& src)
{
    copy_ubuf_to_gm_align_b32(dst.pointer, src.data(), 0, Tile::Rows, Tile::Cols * sizeof(T), 0, 0, 0, 0);
}

// An instruction of tomorrow: the scalar pipe writes the workspace, the source is changed in its place, and the result
// has rows of half a tile.
template <typename Tile, typename Workspace>
PTO_INST void TTOMORROW(Tile& dst, Tile& src, Workspace& tmp, float scale)
{
    tmp.data()[0] = 3;
    set_flag(PIPE_S, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_S, PIPE_V, EVENT_ID0);
    vmuls(src.data(), src.data(), scale, (uint8_t)Tile::Rows, 1, 1, 8, 8);
    pipe_barrier(PIPE_V);
    set_mask_count();
    set_vector_mask(0, 32);
    for (int row = 0; row < Tile::Rows; row++) {
        vmuls(dst.data() + row * Tile::Cols, src.data(), scale, 1, 1, 1, 8, 8);
    }
    set_mask_norm();
    set_vector_mask(-1, -1);
}

// One public instruction inside another, and a flag of an event beside it.
PTO_INST void TSYNC() { wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1); }

template <typename Tile>
PTO_INST void TNEG(Tile& dst, Tile& src)
{
    TSYNC();
    vmuls(dst.data(), src.data(), -1.0f, 1, 1, 1, 8, 8);
}

// Writes behind a tile, at an address of 32 bits.
template <typename Tile>
PTO_INST void TBEHIND(Tile& dst)
{
    uint32_t behind = static_cast<uint32_t>(reinterpret_cast<int64_t>(dst.data())) + 0x400;
    *(__ubuf__ float*)get_imm(behind) = 1;
}

}  // namespace pto
