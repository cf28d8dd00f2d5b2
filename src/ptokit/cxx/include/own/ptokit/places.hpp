// Instructions that only change where a tile or a tensor lies. Nothing is executed for them on a device.
#pragma once

#include <ptokit/intrinsics.hpp>

namespace pto {

template <typename T, typename Address>
inline void TASSIGN(T& object, Address address) {
  if constexpr (ptokit::IsTile<T>) {
#ifndef __PTO_AUTO__
    std::uint64_t value;
    if constexpr (std::is_pointer_v<Address>) value = reinterpret_cast<std::uintptr_t>(address);
    else value = static_cast<std::uint64_t>(address);
    object.ptokit_place().assign(T::memory, value);
    ptokit::record("tassign", object, object.ptokit_place().address);
#endif
  } else {
    object.SetAddr(const_cast<typename T::DType*>(static_cast<const typename T::DType*>(address)));
  }
}
template <std::size_t ADDRESS, typename T>
inline void TASSIGN(T& object) {
  TASSIGN(object, ADDRESS);
}
template <typename T, typename Address>
inline void TASSIGN_IMPL(T& object, Address address) {
  TASSIGN(object, address);
}

}  // namespace pto

namespace ptokit {

// Makes one tile lie `offset` bytes behind the start of another.
template <typename To, typename From>
void alias(To& to, From& from, std::uint64_t offset) {
  const Place& source = from.ptokit_place();
  if (source.assigned) {
    to.ptokit_place().assign(To::memory, source.address + offset);
    record("tassign", to, to.ptokit_place().address, from);
  } else {
    to.ptokit_place().view(source, &from, offset);
  }
}

}  // namespace ptokit

namespace pto {

template <typename To, typename From, typename... Events>
inline RecordEvent TRESHAPE(To& to, From& from, Events&... events) {
  (events.Wait(), ...);
  ptokit::alias(to, from, 0);
  return {};
}
template <typename To, typename From, typename... Events>
inline RecordEvent TSUBVIEW(To& to, From& from, int row, int col, Events&... events) {
  (events.Wait(), ...);
  const std::uint64_t element = static_cast<std::uint64_t>(row) * From::RowStride + static_cast<std::uint64_t>(col) * From::ColStride;
  ptokit::alias(to, from, element * sizeof(typename From::DType));
  return {};
}
// A move into another layout, by the pointers of its tiles.
template <typename T, typename To, typename From, typename... Extents>
inline void TMovToVecNd2Nz(T* to, T* from, Extents...) {
  To target;
  From source;
  target.ptokit_place().assign(To::memory, reinterpret_cast<std::uintptr_t>(to));
  source.ptokit_place().assign(From::memory, reinterpret_cast<std::uintptr_t>(from));
  ptokit::record("tmov", target, source);
}
// The scales of a matrix operand lie at a place that follows from the operand's: one byte for 16 of its bytes.
template <typename To, typename From, typename... Events>
inline RecordEvent TGET_SCALE_ADDR(To& to, From& from, Events&... events) {
  (events.Wait(), ...);
  const ptokit::Place& source = from.ptokit_place();
  if (source.assigned) {
    to.ptokit_place().assign(To::memory, source.address >> 4);
    ptokit::record("tassign", to, to.ptokit_place().address);
  } else {
    ptokit::record("tget_scale_addr", to, from);
  }
  return {};
}

template <TileType L, typename E, int R, int C, BLayout B, int VR, int VC, SLayout S, int F, auto P, CompactMode M>
inline void Tile<L, E, R, C, B, VR, VC, S, F, P, M>::SetMadTF32Mode(RoundMode mode) {
  ptokit::record("set_mad_tf32_mode", mode);
}
template <TileType L, typename E, int R, int C, BLayout B, int VR, int VC, SLayout S, int F, auto P, CompactMode M>
inline void Tile<L, E, R, C, B, VR, VC, S, F, P, M>::ResetMadMode() {
  ptokit::record("reset_mad_mode");
}

}  // namespace pto
