// Images as matrices. The registers that describe an image, and TIMG2COL, which is recorded with what they have.
#pragma once

#include <cstring>
#include <ptokit/intrinsics.hpp>

namespace ptokit {

// The registers of one matrix operand. Without a setter, there is one repeat, and zeros are around an image: so the
// vendor's tests use them (a2a3 timg2col_kernel.cpp:92, a5 timg2col_kernel.cpp:111).
struct ImageRegisters {
  int height = 0, width = 0, pads[4] = {};
  int repeats = 1, stride = -1;
  std::uint32_t padding = 0;

  template <typename T>
  void set_size(const T& image) {
    height = image.GetFmapH();
    width = image.GetFmapW();
    for (int i = 0; i < 4; ++i) pads[i] = image.GetPadListArray()[i];
  }
  template <typename T>
  void set_repeat(const T& image) {
    repeats = image.GetRepeatTime();
    stride = image.GetDstStride();
  }
  template <typename T>
  void set_padding(const T& image) {
    const auto value = image.GetPadValue();
    padding = 0;
    std::memcpy(&padding, &value, sizeof(value));
  }
};
inline ImageRegisters image_registers[2];

constexpr bool is_second(pto::SetFmatrixMode mode) {
  return mode == pto::SetFmatrixMode::FMATRIX_B_AUTO || mode == pto::SetFmatrixMode::FMATRIX_B_MANUAL;
}
constexpr bool is_manual(pto::SetFmatrixMode mode) {
  return mode == pto::SetFmatrixMode::FMATRIX_A_MANUAL || mode == pto::SetFmatrixMode::FMATRIX_B_MANUAL;
}
// A2/A3 has one padding and one repeat for both operands (a2a3/SetImg2colPadding.hpp:31, SetImg2colRpt.hpp:22).
constexpr bool has_own = PTOKIT_NPU_ARCH >= 3000;
constexpr bool shared(pto::SetFmatrixMode mode) { return has_own && is_second(mode); }

}  // namespace ptokit

namespace pto {

#define PTOKIT_SETTER(NAME, TEXT, PLACE, SET)                                                        \
  template <typename T, SetFmatrixMode MODE = SetFmatrixMode::FMATRIX_A_MANUAL, typename... Events>  \
  inline RecordEvent NAME(T& image, Events&... events) {                                             \
    (events.Wait(), ...);                                                                            \
    if (ptokit::is_manual(MODE)) ptokit::image_registers[ptokit::PLACE(MODE)].SET(image);            \
    ptokit::record(TEXT, image);                                                                     \
    return {};                                                                                       \
  }
PTOKIT_SETTER(SETFMATRIX, "setfmatrix", is_second, set_size)
PTOKIT_SETTER(SET_IMG2COL_RPT, "set_img2col_rpt", shared, set_repeat)
PTOKIT_SETTER(SET_IMG2COL_PADDING, "set_img2col_padding", shared, set_padding)
#undef PTOKIT_SETTER

// Several repeats, a transposed result, several images, and destinations that no tile describes have no values.
template <typename To, typename T, SetFmatrixMode MODE = SetFmatrixMode::FMATRIX_A_MANUAL, typename... Events>
inline RecordEvent TIMG2COL(To& to, T& image, uint16_t pos_m = 0, uint16_t pos_k = 0, Events&... events) {
  (events.Wait(), ...);
  auto& size = ptokit::image_registers[ptokit::is_second(MODE)];
  auto& more = ptokit::image_registers[ptokit::shared(MODE)];
  if (!ptokit::is_manual(MODE)) {
    size.set_size(image);
    more.set_repeat(image);
    more.set_padding(image);
  }
  using E = typename T::DType;
  constexpr int block = 32 / sizeof(E);
  const int channels = image.GetChannelSize(), rows = to.GetValidRow();
  const bool fits = !ptokit::has_own || more.stride == (rows + 15) / 16 || more.stride * 16 == To::Rows;
  const bool is_one = T::layout == Layout::NC1HWC0 && T::totalDimCount == 5 && image.GetShape(0) == 1;
  const bool is_whole = channels > 0 && channels % block == 0 && image.GetShape(4) == block &&
                        std::int64_t{channels} * size.height * size.width <= image.ptokit_info().cols;
  if (fits && is_one && is_whole && size.height > 0 && more.repeats <= 1 && !image.GetTranspose()) {
    E pad;
    std::memcpy(&pad, &more.padding, sizeof(pad));
    ptokit::record("timg2col", to, image, int{pos_m}, int{pos_k}, size.height, size.width, size.pads,
                   int{image.GetStrideH()}, int{image.GetStrideW()}, int{image.GetDilationH()},
                   int{image.GetDilationW()}, int{image.GetFilterH()}, int{image.GetFilterW()}, channels, pad);
  } else {
    ptokit::record("timg2col", to, image, pos_m, pos_k);
  }
  return {};
}

}  // namespace pto
