// What the kernels of this folder share: short names for tensors and tiles, and a flag with both its ends.
#pragma once

#include <cstdint>

#include <pto/pto-inst.hpp>

using namespace pto;

/// Rows of a matrix in global memory whose rows are `RowStride` elements apart.
template <typename T, int Rows, int Cols, int RowStride = Cols>
using Matrix = GlobalTensor<
    T, Shape<1, 1, 1, Rows, Cols>, Stride<Rows * RowStride, Rows * RowStride, Rows * RowStride, RowStride, 1>>;

/// Some rows of such a matrix; how many is known at run time.
template <typename T, int Cols>
using RowsOf = GlobalTensor<T, Shape<1, 1, 1, -1, Cols>, Stride<1, 1, 1, Cols, 1>>;

template <typename T, int Cols>
AICORE inline RowsOf<T, Cols> SomeRows(__gm__ T *data, int rows)
{
    return RowsOf<T, Cols>(data, Shape<1, 1, 1, -1, Cols>(rows), Stride<1, 1, 1, Cols, 1>());
}

template <typename T, int Rows, int Cols, int ValidRows = Rows, int ValidCols = Cols>
using VecTile = Tile<TileType::Vec, T, Rows, Cols, BLayout::RowMajor, ValidRows, ValidCols>;

/// One number for each row.
template <typename T, int Rows>
using ColumnTile = Tile<TileType::Vec, T, Rows, 1, BLayout::ColMajor, Rows, 1>;

/// A tile in L1 in the layout of the cube.
template <typename T, int Rows, int Cols, int ValidRows = Rows, int ValidCols = Cols>
using MatTile = Tile<TileType::Mat, T, Rows, Cols, BLayout::ColMajor, ValidRows, ValidCols, SLayout::RowMajor, 512>;

template <pipe_t From, pipe_t To>
AICORE inline void Handshake(event_t id = EVENT_ID0)
{
    set_flag(From, To, id);
    wait_flag(From, To, id);
}
