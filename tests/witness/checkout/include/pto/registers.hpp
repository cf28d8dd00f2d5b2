// Instructions of a core with vector registers, as small as they can be.
#pragma once

#include <pto/pto-inst.hpp>

namespace pto {

// Rows of a tile whose last register has a tail: pointers move, and the store of the tail has a mask. The scalar that is
// added to the count is loaded by the vector unit.
template <typename Tile>
PTO_INST void TCOPY(Tile& dst, Tile& src, unsigned columns)
{
    __VEC_SCOPE__
    {
        vector_f32 loaded, doubled;
        __ubuf__ float *from = src.data(), *to = dst.data();
        uint32_t left = columns + (unsigned)from[0];
        for (unsigned done = 0; done < columns; done += ELE_CNT_B32) {
            vector_bool lanes = plt_b32(left, POST_UPDATE);
            vlds(loaded, from, ELE_CNT_B32, NORM, POST_UPDATE);
            vadd(doubled, loaded, loaded, lanes, MODE_ZEROING);
            vsts(doubled, to, ELE_CNT_B32, NORM_B32, lanes, POST_UPDATE);
        }
    }
}

// The same under another name.
template <typename Tile>
PTO_INST void TCOPY_SCALES(Tile& dst, Tile& src)
{
    TCOPY(dst, src, 1);
}

// Narrow elements, and then bytes that begin anywhere; the rest of the destination is what the mask has not.
template <typename To, typename From>
PTO_INST void TPACK(To& dst, From& src)
{
    vector_f32 wide;
    vector_u8 bytes;
    vector_align rest;
    vector_bool lanes = pset_b32(PAT_VL16), other;
    pnot(other, lanes, pset_b32(PAT_VL32));
    vlds(wide, src.data(), 0, NORM);
    vsts((vector_u16&)wide, (__ubuf__ uint16_t*)dst.data(), 0, std::integral_constant<::DistVST, PK_B32>(), other);
    __ubuf__ uint8_t* to = (__ubuf__ uint8_t*)dst.data() + 101;
    for (int i = 0; i < 3; ++i) vstus(rest, 5, bytes, to, POST_UPDATE);
    vstas(rest, to, 0, POST_UPDATE);
}

template <typename T>
void copy_by_threads(__ubuf__ T* dst, __gm__ T* src, unsigned count)
{
    for (unsigned i = threadIdx.y * 32 + threadIdx.x; i < count; i += 64) dst[i] = src[i];
    if (threadIdx.x == 0) atomicAdd(dst + count, T(1));
}

template <typename Tile, typename T>
PTO_INST void MGATHER(Tile& dst, __gm__ T* src, unsigned count)
{
    cce::async_invoke<copy_by_threads<T>>(cce::dim3{32, 2}, dst.data(), src, count);
}

constexpr int SHIFT_MX_ADDR = 4;
template <typename T>
PTO_INTERNAL uint64_t GetScaleAddr(T* operand)
{
    uintptr_t addr = reinterpret_cast<uintptr_t>(operand);
    return addr >> SHIFT_MX_ADDR;
}

// A product with scales and a bias: the addresses of the accumulator and the bias are packed into a word.
template <typename T, typename Left, typename Right>
PTO_INST void TMATMUL_MX(T* c, Left* a, Right* b, uint64_t bias)
{
    uint64_t xd = ((uint64_t)c) & 0xffffffffULL | ((bias & 0xffffffffULL) << 32);
    mad_mx((T*)xd, a, b, 16, 64, 16, 0, 0, 0, 1);
}

// What sources call instead of an instruction is one, too.
template <typename Tile>
PTO_INTERNAL void TZERO_IMPL(Tile& dst)
{
    vector_f32 zero;
    vsts(zero, dst.data(), 0, NORM_B32, pset_b32(PAT_VL1));
}

}  // namespace pto
