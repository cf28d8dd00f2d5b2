// Tiles in on-chip memory and tensors in global memory.
#pragma once

#include <ptokit/enums.hpp>
#include <ptokit/macros.hpp>
#include <ptokit/numbers.hpp>
#include <ptokit/on_chip.hpp>

namespace pto {

constexpr int DYNAMIC = -1;

namespace GlobalTensorDim {
constexpr int DIM_0 = 0;
constexpr int DIM_1 = 1;
constexpr int DIM_2 = 2;
constexpr int DIM_3 = 3;
constexpr int DIM_4 = 4;
constexpr int TOTAL_DIM = 5;
}  // namespace GlobalTensorDim

namespace TileConfig {
constexpr int alignedSize = 32;
constexpr int fixedRowSize = 16;
constexpr int fixedColSize = 16;
constexpr int fixedMxRowSize = 16;
constexpr int fixedMxColSize = 2;
constexpr int fractalABSize = 512;
constexpr int fractalCSize = 1024;
constexpr int fractalMxSize = 32;
}  // namespace TileConfig

}  // namespace pto

namespace ptokit {

// Five extents or strides; -1 where the value is known at run time only.
struct Five {
  std::int64_t of[5];
};

// Values for the entries of `fixed` that are -1, in order; all five values may be given as well.
constexpr void fill(std::int64_t (&to)[5], const std::int64_t (&fixed)[5], const std::int64_t* given, int count) {
  int next = 0;
  for (int i = 0; i < 5; ++i) {
    const bool is_dynamic = fixed[i] == -1;
    to[i] = !is_dynamic ? fixed[i] : count == 5 ? given[i] : next < count ? given[next] : 1;
    next += is_dynamic;
  }
}

}  // namespace ptokit

namespace pto {

template <int64_t N1 = DYNAMIC, int64_t N2 = DYNAMIC, int64_t N3 = DYNAMIC, int64_t N4 = DYNAMIC, int64_t N5 = DYNAMIC>
struct Shape {
  static constexpr int64_t staticShape[5] = {N1, N2, N3, N4, N5};
  int64_t shape[5];

  constexpr Shape() { set(nullptr, 0); }
  constexpr Shape(int64_t a) { set_all({a}); }
  constexpr Shape(int64_t a, int64_t b) { set_all({a, b}); }
  constexpr Shape(int64_t a, int64_t b, int64_t c) { set_all({a, b, c}); }
  constexpr Shape(int64_t a, int64_t b, int64_t c, int64_t d) { set_all({a, b, c, d}); }
  constexpr Shape(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) { set_all({a, b, c, d, e}); }

 private:
  template <std::size_t N>
  constexpr void set_all(const int64_t (&given)[N]) {
    set(given, N);
  }
  constexpr void set(const int64_t* given, int count) { ptokit::fill(shape, staticShape, given, count); }
};

template <int64_t N1 = DYNAMIC, int64_t N2 = DYNAMIC, int64_t N3 = DYNAMIC, int64_t N4 = DYNAMIC, int64_t N5 = DYNAMIC>
struct Stride {
  static constexpr int64_t staticStride[5] = {N1, N2, N3, N4, N5};
  int64_t stride[5];

  constexpr Stride() { set(nullptr, 0); }
  constexpr Stride(int64_t a) { set_all({a}); }
  constexpr Stride(int64_t a, int64_t b) { set_all({a, b}); }
  constexpr Stride(int64_t a, int64_t b, int64_t c) { set_all({a, b, c}); }
  constexpr Stride(int64_t a, int64_t b, int64_t c, int64_t d) { set_all({a, b, c, d}); }
  constexpr Stride(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) { set_all({a, b, c, d, e}); }

 private:
  template <std::size_t N>
  constexpr void set_all(const int64_t (&given)[N]) {
    set(given, N);
  }
  constexpr void set(const int64_t* given, int count) { ptokit::fill(stride, staticStride, given, count); }
};

Shape()->Shape<>;
Shape(int64_t)->Shape<1, 1, 1, 1, DYNAMIC>;
Shape(int64_t, int64_t)->Shape<1, 1, 1, DYNAMIC, DYNAMIC>;
Shape(int64_t, int64_t, int64_t)->Shape<1, 1, DYNAMIC, DYNAMIC, DYNAMIC>;
Shape(int64_t, int64_t, int64_t, int64_t)->Shape<1, DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC>;
Shape(int64_t, int64_t, int64_t, int64_t, int64_t)->Shape<>;
Stride()->Stride<>;
Stride(int64_t)->Stride<1, 1, 1, 1, DYNAMIC>;
Stride(int64_t, int64_t)->Stride<1, 1, 1, DYNAMIC, DYNAMIC>;
Stride(int64_t, int64_t, int64_t)->Stride<1, 1, DYNAMIC, DYNAMIC, DYNAMIC>;
Stride(int64_t, int64_t, int64_t, int64_t)->Stride<1, DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC>;
Stride(int64_t, int64_t, int64_t, int64_t, int64_t)->Stride<>;

template <typename T>
using remove_gm_t = std::remove_cv_t<T>;

// A view of global memory with five dimensions.
template <typename Element_, typename Shape_, typename Stride_, Layout Layout_ = Layout::ND>
struct GlobalTensor {
  using Shape = Shape_;
  using Stride = Stride_;
  using RawDType = std::remove_cv_t<Element_>;
  using DType = RawDType;
  static constexpr Layout layout = Layout_;
  static constexpr int64_t staticShape[5] = {Shape::staticShape[0], Shape::staticShape[1], Shape::staticShape[2],
                                             Shape::staticShape[3], Shape::staticShape[4]};
  static constexpr int64_t staticStride[5] = {Stride::staticStride[0], Stride::staticStride[1],
                                              Stride::staticStride[2], Stride::staticStride[3],
                                              Stride::staticStride[4]};

  GlobalTensor() = default;
  GlobalTensor(DType* data, const Shape& shape = Shape{}, const Stride& stride = Stride{})
      : data_(data), shape_(shape), stride_(stride) {}

  DType* data() const { return data_; }
  void SetAddr(DType* data) { data_ = data; }

  int64_t GetShape(int dim) const { return dim < 0 || dim > 4 ? -1 : shape_.shape[dim]; }
  int64_t GetStride(int dim) const { return dim < 0 || dim > 4 ? -1 : stride_.stride[dim]; }
  template <int DIM>
  static constexpr int64_t GetShape() {
    static_assert(staticShape[DIM] != DYNAMIC, "the extent of this dimension is known at run time only");
    return staticShape[DIM];
  }
  template <int DIM>
  static constexpr int64_t GetStride() {
    static_assert(staticStride[DIM] != DYNAMIC, "the stride of this dimension is known at run time only");
    return staticStride[DIM];
  }
  template <int... DIMS, typename... Values>
  void SetShape(Values... values) {
    static_assert(((staticShape[DIMS] == DYNAMIC) && ...), "only dynamic extents can be set");
    ((shape_.shape[DIMS] = static_cast<int64_t>(values)), ...);
  }
  template <int... DIMS, typename... Values>
  void SetStride(Values... values) {
    static_assert(((staticStride[DIMS] == DYNAMIC) && ...), "only dynamic strides can be set");
    ((stride_.stride[DIMS] = static_cast<int64_t>(values)), ...);
  }

  ptokit::GlobalInfo ptokit_info() const {
    ptokit::GlobalInfo info{};
    info.data = data_;
    for (int i = 0; i < 5; ++i) {
      info.shape[i] = shape_.shape[i];
      info.stride[i] = stride_.stride[i];
      info.dynamic |= static_cast<std::uint16_t>((staticShape[i] == DYNAMIC) << i | (staticStride[i] == DYNAMIC) << (i + 5));
    }
    info.dtype = ptokit::dtype_of<RawDType>();
    info.layout = static_cast<std::uint8_t>(Layout_);
    return info;
  }

 private:
  DType* data_ = nullptr;
  Shape shape_{};
  Stride stride_{};
};

}  // namespace pto

namespace ptokit {

constexpr std::int64_t parts(std::int64_t extent, std::int64_t of) { return extent == -1 ? -1 : extent / of; }
constexpr std::int64_t times(std::int64_t a, std::int64_t b) { return a == -1 || b == -1 ? -1 : a * b; }

// The extents of a matrix in a layout; `c0` is the number of elements in 32 bytes.
constexpr Five matrix_shape(pto::Layout layout, std::int64_t rows, std::int64_t cols, std::int64_t c0) {
  using pto::Layout;
  switch (layout) {
    case Layout::NZ: return {{1, parts(cols, c0), parts(rows, 16), 16, c0}};
    case Layout::MX_A_ZZ: return {{1, parts(rows, 16), parts(cols, 2), 16, 2}};
    case Layout::MX_A_ND: return {{1, 1, rows, parts(cols, 2), 2}};
    case Layout::MX_A_DN: return {{1, 1, parts(cols, 2), rows, 2}};
    case Layout::MX_B_NN: return {{1, parts(cols, 16), parts(rows, 2), 16, 2}};
    case Layout::MX_B_ND: return {{1, 1, parts(rows, 2), cols, 2}};
    case Layout::MX_B_DN: return {{1, 1, cols, parts(rows, 2), 2}};
    case Layout::HIF4_A_ZZ: return {{1, parts(rows, 16), cols, 16, 4}};
    case Layout::HIF4_B_NN: return {{1, parts(cols, 16), rows, 16, 4}};
    default: return {{1, 1, 1, rows, cols}};
  }
}

// The strides of a whole matrix of `rows` and `cols` in a layout.
constexpr Five matrix_stride(pto::Layout layout, std::int64_t rows, std::int64_t cols, std::int64_t c0) {
  using pto::Layout;
  const std::int64_t all = times(rows, cols);
  switch (layout) {
    case Layout::NZ: return {{all, times(rows, c0), 16 * c0, c0, 1}};
    case Layout::DN: return {{all, all, all, 1, rows}};
    case Layout::MX_A_ZZ: return {{all, times(cols, 16), 32, 2, 1}};
    case Layout::MX_A_ND: return {{all, all, cols, 2, 1}};
    case Layout::MX_A_DN: return {{all, all, times(rows, 2), 2, 1}};
    case Layout::MX_B_NN: return {{all, times(rows, 16), 32, 2, 1}};
    case Layout::MX_B_ND: return {{all, all, times(cols, 2), 2, 1}};
    case Layout::MX_B_DN: return {{all, all, rows, 2, 1}};
    case Layout::HIF4_A_ZZ: return {{all, times(cols, 16), 64, 4, 1}};
    case Layout::HIF4_B_NN: return {{all, times(rows, 16), 64, 4, 1}};
    default: return {{all, all, all, cols, 1}};
  }
}

template <pto::Layout L, std::int64_t R, std::int64_t C, std::int64_t C0>
using ShapeOf = pto::Shape<matrix_shape(L, R, C, C0).of[0], matrix_shape(L, R, C, C0).of[1],
                           matrix_shape(L, R, C, C0).of[2], matrix_shape(L, R, C, C0).of[3],
                           matrix_shape(L, R, C, C0).of[4]>;
template <pto::Layout L, std::int64_t R, std::int64_t C, std::int64_t C0>
using StrideOf = pto::Stride<matrix_stride(L, R, C, C0).of[0], matrix_stride(L, R, C, C0).of[1],
                             matrix_stride(L, R, C, C0).of[2], matrix_stride(L, R, C, C0).of[3],
                             matrix_stride(L, R, C, C0).of[4]>;

template <typename T>
inline constexpr std::int64_t c0_of = 32 / sizeof(T);

}  // namespace ptokit

namespace pto {

// The shape of a matrix that a tile moves.
template <typename T, int64_t ROWS = DYNAMIC, int64_t COLS = DYNAMIC, Layout LAYOUT = Layout::ND>
struct TileShape2D : ptokit::ShapeOf<LAYOUT, ROWS, COLS, ptokit::c0_of<T>> {
  using Parent = ptokit::ShapeOf<LAYOUT, ROWS, COLS, ptokit::c0_of<T>>;
  static constexpr int C0Size = LAYOUT == Layout::NZ ? ptokit::c0_of<T> : 2;
  using Parent::Parent;
  constexpr TileShape2D() = default;
  constexpr TileShape2D(int64_t rows, int64_t cols)
      : TileShape2D(ptokit::matrix_shape(LAYOUT, rows, cols, ptokit::c0_of<T>)) {}

 private:
  constexpr explicit TileShape2D(ptokit::Five n) : Parent(n.of[0], n.of[1], n.of[2], n.of[3], n.of[4]) {}
};

// The strides of the whole matrix that it belongs to.
template <typename T, int64_t ROWS = DYNAMIC, int64_t COLS = DYNAMIC, Layout LAYOUT = Layout::ND>
struct BaseShape2D : ptokit::StrideOf<LAYOUT, ROWS, COLS, ptokit::c0_of<T>> {
  using Parent = ptokit::StrideOf<LAYOUT, ROWS, COLS, ptokit::c0_of<T>>;
  static constexpr int C0Size = LAYOUT == Layout::NZ ? ptokit::c0_of<T> : 2;
  using Parent::Parent;
  constexpr BaseShape2D() = default;
  constexpr BaseShape2D(int64_t rows, int64_t cols)
      : BaseShape2D(ptokit::matrix_stride(LAYOUT, rows, cols, ptokit::c0_of<T>)) {}

 private:
  constexpr explicit BaseShape2D(ptokit::Five n) : Parent(n.of[0], n.of[1], n.of[2], n.of[3], n.of[4]) {}
};

}  // namespace pto

namespace ptokit {

constexpr Memory memory_of(pto::TileType type) { return static_cast<Memory>(type); }

// The address in an on-chip memory that an integer or a pointer denotes: pointers into the backing memory count from
// its start, also those that a cast to 32 bits has shortened. Addresses of tiles lie below `largest`.
inline std::uint64_t address_of(Memory memory, std::uint64_t value) {
  constexpr std::uint64_t largest = 1u << 20;
  const auto start = reinterpret_cast<std::uintptr_t>(local(memory, 0));
  if (start == 0 || value < largest) return value;
  const std::uint64_t offset = value >> 32 ? value - start : static_cast<std::uint32_t>(value - start);
  return offset < largest ? offset : value;
}

// What tiles have in common: a place in an on-chip memory, and how much of the tile is valid.
struct Place {
  std::uint64_t address = 0;
  bool assigned = false;
  const void* root = nullptr;  // the tile without an address whose memory it is a view of, from byte `address` on

  Place() = default;
  Place(const Place&) = default;
  // A new tile without an address, as in `tiles[i] = VecTile(rows)`: the one that it replaces keeps its own.
  Place& operator=(const Place& other) {
    if (other.assigned || other.root) {
      address = other.address;
      assigned = other.assigned;
      root = other.root;
    }
    return *this;
  }

  void assign(Memory memory, std::uint64_t value) {
    address = address_of(memory, value);
    assigned = true;
    root = nullptr;
  }
  void view(const Place& source, const void* tile, std::uint64_t offset) {
    root = source.root ? source.root : tile;
    address = source.address + offset;
    assigned = false;
  }
  void* data(Memory memory) const {
    void* found = local(memory, address);
    return found ? found : reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  }
};

// A cast to a pointer into an on-chip memory, of an address in it or of another pointer.
template <Memory MEMORY, typename Pointer, typename Value>
Pointer on_chip(Value value) {
  if constexpr (std::is_integral_v<Value>) {
    Place place;
    place.assign(MEMORY, static_cast<std::uint64_t>(value));
    return static_cast<Pointer>(place.data(MEMORY));
  } else {
    return reinterpret_cast<Pointer>(value);
  }
}

}  // namespace ptokit

namespace pto {

template <TileType Loc_, typename Element_, int Rows_, int Cols_, BLayout BFractal_ = BLayout::RowMajor,
          int RowValid_ = Rows_, int ColValid_ = Cols_, SLayout SFractal_ = SLayout::NoneBox,
          int SFractalSize_ = TileConfig::fractalABSize, auto PadVal_ = PadValue::Null,
          CompactMode Compact_ = CompactMode::Null>
struct Tile {
 private:
  static constexpr bool is_mx = SFractalSize_ == TileConfig::fractalMxSize;
  static constexpr int block = TileConfig::alignedSize / sizeof(Element_);
  static constexpr int inner(bool is_long) {
    if (SFractal_ == SLayout::NoneBox) return 1;
    if (is_mx) return is_long ? TileConfig::fixedMxColSize : TileConfig::fixedMxRowSize;
    if (SFractalSize_ == TileConfig::fractalCSize) return 16;
    return is_long ? block : 16;
  }

 public:
  using DType = Element_;
  using TileDType = DType*;
  static constexpr TileType Loc = Loc_;
  static constexpr int Rows = Rows_;
  static constexpr int Cols = Cols_;
  static constexpr int ValidRow = RowValid_;
  static constexpr int ValidCol = ColValid_;
  static constexpr BLayout BFractal = BFractal_;
  static constexpr SLayout SFractal = SFractal_;
  static constexpr int SFractalSize = SFractalSize_;
  static constexpr auto PadVal = PadVal_;
  static constexpr CompactMode Compact = Compact_;
  static constexpr int Numel = Rows * Cols;
  static constexpr bool isRowMajor = BFractal_ == BLayout::RowMajor;
  static constexpr int RowStride = isRowMajor ? Cols : 1;
  static constexpr int ColStride = isRowMajor ? 1 : Rows;
  static constexpr bool isBoxedLayout = SFractal != SLayout::NoneBox;
  static constexpr bool isInnerRowMajor = SFractal == SLayout::RowMajor;
  static constexpr bool isInnerColMajor = SFractal == SLayout::ColMajor;
  static constexpr int InnerRows = inner(isInnerColMajor);
  static constexpr int InnerCols = inner(isInnerRowMajor);
  static constexpr int InnerNumel = InnerRows * InnerCols;
  unsigned RowMaskInternal = Rows_;
  unsigned ColMaskInternal = Cols_;
  static_assert(Rows > 0 && Cols > 0 && ValidRow <= Rows && ValidCol <= Cols, "the valid region exceeds the tile");

  Tile() = default;
  Tile(unsigned rows, unsigned cols)
    requires(ValidRow == DYNAMIC && ValidCol == DYNAMIC)
      : RowMaskInternal(rows), ColMaskInternal(cols) {}
  Tile(unsigned rows)
    requires(ValidRow == DYNAMIC && ValidCol != DYNAMIC)
      : RowMaskInternal(rows) {}
  Tile(unsigned cols)
    requires(ValidRow != DYNAMIC && ValidCol == DYNAMIC)
      : ColMaskInternal(cols) {}

  // A pointer into the memory that backs the tile's. It is an lvalue, as kernels bind references to it.
  TileDType& data() const { return data_ = static_cast<DType*>(place_.data(memory)); }

  static constexpr unsigned GetValidRow()
    requires(ValidRow != DYNAMIC)
  {
    return ValidRow;
  }
  unsigned GetValidRow() const
    requires(ValidRow == DYNAMIC)
  {
    return RowMaskInternal;
  }
  static constexpr unsigned GetValidCol()
    requires(ValidCol != DYNAMIC)
  {
    return ValidCol;
  }
  unsigned GetValidCol() const
    requires(ValidCol == DYNAMIC)
  {
    return ColMaskInternal;
  }
  void SetValidRow(unsigned rows)
    requires(ValidRow == DYNAMIC)
  {
    RowMaskInternal = rows;
  }
  void SetValidCol(unsigned cols)
    requires(ValidCol == DYNAMIC)
  {
    ColMaskInternal = cols;
  }
  void SetValidShape(unsigned rows, unsigned cols)
    requires(ValidRow == DYNAMIC && ValidCol == DYNAMIC)
  {
    RowMaskInternal = rows;
    ColMaskInternal = cols;
  }

  DType GetValue(std::uint32_t offset) const {
    DType value{};
    ptokit::read_value(ptokit_info(), offset, &value, sizeof(value));
    return value;
  }
  void SetValue(std::uint32_t offset, DType value) {
    ptokit::write_value(ptokit_info(), offset, &value, sizeof(value));
  }

  bool GetKAligned() const { return k_aligned_; }
  void SetKAligned(bool aligned) { k_aligned_ = aligned; }
  void SetMadTF32Mode(RoundMode mode = RoundMode::CAST_ROUND);
  void ResetMadMode();

  ptokit::TileInfo ptokit_info() const {
    ptokit::TileInfo info{};
    info.object = place_.root ? place_.root : this;
    info.address = place_.address;
    info.assigned = place_.root ? 2 : place_.assigned;
    info.rows = Rows;
    info.cols = Cols;
    info.valid_rows = static_cast<std::int32_t>(GetValidRow());
    info.valid_cols = static_cast<std::int32_t>(GetValidCol());
    info.dtype = ptokit::dtype_of<DType>();
    info.memory = memory;
    info.blayout = static_cast<std::uint8_t>(BFractal_);
    info.slayout = static_cast<std::uint8_t>(SFractal_);
    info.fractal = SFractalSize_;
    info.compact = static_cast<std::uint8_t>(Compact_);
    info.dynamic = static_cast<std::uint8_t>((ValidRow == -1) | (ValidCol == -1) << 1);
    constexpr auto pad = static_cast<std::uint64_t>(PadVal_);
    info.pad = pad < 4 ? static_cast<std::uint8_t>(pad) : 4;
    info.pad_bits = pad < 4 ? 0 : static_cast<std::uint32_t>(pad);
    return info;
  }
  ptokit::Place& ptokit_place() { return place_; }
  const ptokit::Place& ptokit_place() const { return place_; }
  static constexpr ptokit::Memory memory = ptokit::memory_of(Loc_);

 private:
  ptokit::Place place_;
  mutable TileDType data_ = nullptr;
  bool k_aligned_ = false;
};

// The extents of a tile for convolutions, up to six.
template <int... SHAPES>
struct ConvTileShape {
  static constexpr int totalDimCount = sizeof...(SHAPES);
  static constexpr int dynamicDimCount = ((SHAPES == DYNAMIC ? 1 : 0) + ... + 0);
  static_assert(totalDimCount >= 1 && totalDimCount <= 6, "a convolution tile has one to six dimensions");
  static constexpr int64_t staticShape[6] = {SHAPES...};
  int64_t shape[6] = {SHAPES...};

  ConvTileShape() = default;
  template <typename... N>
    requires(sizeof...(N) > 0 && (std::is_convertible_v<N, int64_t> && ...))
  ConvTileShape(N... n) {
    const int64_t given[] = {static_cast<int64_t>(n)...};
    int next = 0;
    for (int i = 0; i < totalDimCount; ++i) {
      if (staticShape[i] == DYNAMIC) shape[i] = sizeof...(N) == totalDimCount ? given[i] : given[next++];
    }
  }
};

template <TileType Loc_, typename Element_, int BufferSize_, Layout Layout_, typename Shape_>
struct ConvTile {
  using DType = Element_;
  using TileDType = DType*;
  using ShapeType = Shape_;
  static constexpr TileType Loc = Loc_;
  static constexpr int bufferSize = BufferSize_;
  static constexpr Layout layout = Layout_;
  static constexpr int totalDimCount = ShapeType::totalDimCount;
  static constexpr int dynamicDimCount = ShapeType::dynamicDimCount;
  static constexpr int64_t staticShape[6] = {ShapeType::staticShape[0], ShapeType::staticShape[1],
                                             ShapeType::staticShape[2], ShapeType::staticShape[3],
                                             ShapeType::staticShape[4], ShapeType::staticShape[5]};
  static constexpr ptokit::Memory memory = ptokit::memory_of(Loc_);
  int64_t shape[6];

  ConvTile() {
    for (int i = 0; i < 6; ++i) shape[i] = staticShape[i];
  }
  template <typename... N>
    requires(sizeof...(N) > 0 && (std::is_convertible_v<N, int64_t> && ...))
  explicit ConvTile(N... n) : ConvTile() {
    SetDynamicShape(n...);
  }
  template <typename... N>
  void SetDynamicShape(N... n) {
    const int64_t given[] = {static_cast<int64_t>(n)...};
    int next = 0;
    for (int i = 0; i < totalDimCount; ++i) {
      if (staticShape[i] == DYNAMIC && next < static_cast<int>(sizeof...(N))) shape[i] = given[next++];
    }
  }

  int64_t GetShape(int dim) const { return dim < 0 || dim >= totalDimCount ? -1 : shape[dim]; }
  TileDType& data() const { return data_ = static_cast<DType*>(place_.data(memory)); }

#define PTOKIT_FIELD(TYPE, NAME, START)             \
  TYPE Get##NAME() const { return NAME##_; }        \
  void Set##NAME(TYPE value) { NAME##_ = value; }   \
  TYPE NAME##_ = START;
  PTOKIT_FIELD(uint16_t, FmapH, 0)
  PTOKIT_FIELD(uint16_t, FmapW, 0)
  PTOKIT_FIELD(uint16_t, FilterH, 1)
  PTOKIT_FIELD(uint16_t, FilterW, 1)
  PTOKIT_FIELD(uint16_t, StrideH, 1)
  PTOKIT_FIELD(uint16_t, StrideW, 1)
  PTOKIT_FIELD(uint16_t, DilationH, 1)
  PTOKIT_FIELD(uint16_t, DilationW, 1)
  PTOKIT_FIELD(uint16_t, ChannelSize, 0)
  PTOKIT_FIELD(uint16_t, RepeatStride, 0)
  PTOKIT_FIELD(uint16_t, RepeatTime, 1)
  PTOKIT_FIELD(uint16_t, RepeatMode, 0)
  PTOKIT_FIELD(uint16_t, DstStride, 0)
  PTOKIT_FIELD(uint16_t, DstMposition, 0)
  PTOKIT_FIELD(DType, PadValue, DType{})
  PTOKIT_FIELD(bool, Transpose, false)
#undef PTOKIT_FIELD
  uint8_t GetPadList(int i) const { return pads_[i]; }
  void SetPadList(int i, uint8_t value) { pads_[i] = value; }
  const uint8_t* GetPadListArray() const { return pads_; }
  void SetPadListArray(const uint8_t* values) {
    for (int i = 0; i < 4; ++i) pads_[i] = values[i];
  }

  // A convolution tile is recorded as one row of elements: as many as its shape has.
  ptokit::TileInfo ptokit_info() const {
    ptokit::TileInfo info{};
    info.object = place_.root ? place_.root : this;
    info.address = place_.address;
    info.assigned = place_.root ? 2 : place_.assigned;
    std::int64_t elements = 1;
    for (int i = 0; i < totalDimCount; ++i) elements *= shape[i] > 0 ? shape[i] : 1;
    info.rows = info.valid_rows = 1;
    info.cols = info.valid_cols = elements < BufferSize_ ? static_cast<int>(elements) : BufferSize_;
    info.compact = ptokit::convolution;
    info.dtype = ptokit::dtype_of<DType>();
    info.memory = memory;
    info.fractal = TileConfig::fractalABSize;
    return info;
  }
  ptokit::Place& ptokit_place() { return place_; }
  const ptokit::Place& ptokit_place() const { return place_; }

 private:
  ptokit::Place place_;
  mutable TileDType data_ = nullptr;
  uint8_t pads_[4] = {};
};

#define PTOKIT_TILE(NAME, LOC, BLAYOUT, SLAYOUT, FRACTAL)                                                       \
  template <typename T, int ROWS, int COLS, int VALID_ROWS = ROWS, int VALID_COLS = COLS>                       \
  using NAME = Tile<TileType::LOC, T, ROWS, COLS, BLayout::BLAYOUT, VALID_ROWS, VALID_COLS, SLayout::SLAYOUT,   \
                    TileConfig::FRACTAL>;                                                                       \
  template <typename T, int ROWS, int COLS, int VALID_ROWS = ROWS, int VALID_COLS = COLS>                       \
  using NAME##Compact = Tile<TileType::LOC, T, ROWS, COLS, BLayout::BLAYOUT, VALID_ROWS, VALID_COLS,            \
                             SLayout::SLAYOUT, TileConfig::FRACTAL, PadValue::Null, CompactMode::Normal>;
PTOKIT_TILE(TileLeft, Left, PTOKIT_LEFT_LAYOUT, RowMajor, fractalABSize)
PTOKIT_TILE(TileRight, Right, RowMajor, ColMajor, fractalABSize)
PTOKIT_TILE(TileAcc, Acc, ColMajor, RowMajor, fractalCSize)
PTOKIT_TILE(TileLeftScale, ScaleLeft, RowMajor, RowMajor, fractalMxSize)
PTOKIT_TILE(TileRightScale, ScaleRight, ColMajor, ColMajor, fractalMxSize)
#undef PTOKIT_TILE

template <typename T>
inline constexpr bool is_tile_data_v = false;
template <TileType L, typename E, int R, int C, BLayout B, int VR, int VC, SLayout S, int F, auto P, CompactMode M>
inline constexpr bool is_tile_data_v<Tile<L, E, R, C, B, VR, VC, S, F, P, M>> = true;
template <typename T>
inline constexpr bool is_global_data_v = requires(const T& t) { t.ptokit_info().layout; };
template <typename T>
inline constexpr bool is_conv_tile_v = false;
template <TileType L, typename E, int N, Layout Y, typename S>
inline constexpr bool is_conv_tile_v<ConvTile<L, E, N, Y, S>> = true;
template <typename T>
struct is_tile : std::bool_constant<is_tile_data_v<T>> {};
template <typename T>
struct is_global : std::bool_constant<is_global_data_v<T>> {};
template <typename T>
struct is_conv_tile : std::bool_constant<is_conv_tile_v<T>> {};
template <typename T>
inline constexpr bool is_boxed_data_v = is_tile_data_v<T> && requires { requires T::isBoxedLayout; };
template <typename T>
inline constexpr bool is_boxed_tile = is_boxed_data_v<T>;
template <typename T>
struct is_Nz_layout : std::bool_constant<!T::isRowMajor && T::isInnerRowMajor> {};
template <typename T>
struct is_Zn_layout : std::bool_constant<T::isRowMajor && T::isInnerColMajor> {};
template <typename T>
struct is_Zz_layout : std::bool_constant<T::isRowMajor && T::isInnerRowMajor> {};

// The name of a tile's layout.
template <typename T>
constexpr TileLayoutCustom GetTileLayoutCustom() {
  if (!T::isBoxedLayout) return T::isRowMajor ? TileLayoutCustom::ND : TileLayoutCustom::DN;
  if (!T::isRowMajor) return T::isInnerRowMajor ? TileLayoutCustom::NZ : TileLayoutCustom::NONE;
  return T::isInnerRowMajor ? TileLayoutCustom::ZZ : TileLayoutCustom::ZN;
}

// The element of a tile at a row and a column.
template <typename T>
constexpr std::size_t GetTileOffset(int row, int col) {
  if constexpr (!T::isBoxedLayout) {
    return static_cast<std::size_t>(row * T::RowStride + col * T::ColStride);
  } else {
    constexpr int down = T::Rows / T::InnerRows, across = T::Cols / T::InnerCols;
    const int box_row = row / T::InnerRows, box_col = col / T::InnerCols;
    const int in_row = row % T::InnerRows, in_col = col % T::InnerCols;
    const int box = T::isRowMajor ? box_row * across + box_col : box_col * down + box_row;
    const int in = T::isInnerRowMajor ? in_row * T::InnerCols + in_col : in_col * T::InnerRows + in_row;
    return static_cast<std::size_t>(box * T::InnerNumel + in);
  }
}

}  // namespace pto
