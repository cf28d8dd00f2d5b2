"""The Python function of each instruction. Written by `make generated`."""

from ptokit.isa.policy import (
    AccToVec,
    Asymmetric,
    CmpMode,
    Coalesce,
    GatherExec,
    GatherOOB,
    HistByte,
    MaskPattern,
    ReluMode,
    RoundMode,
    Saturation,
    ScatterAtomicOp,
    ScatterConflict,
    ScatterIndex,
    ScatterOOB,
    StoreAtomic,
    Symmetric,
    Triangle,
)
from ptokit.lang.dispatch import Event, Wait
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile

__all__ = [
    "AccToVec",
    "Asymmetric",
    "CmpMode",
    "Coalesce",
    "GatherExec",
    "GatherOOB",
    "HistByte",
    "MaskPattern",
    "ReluMode",
    "RoundMode",
    "Saturation",
    "ScatterAtomicOp",
    "ScatterConflict",
    "ScatterIndex",
    "ScatterOOB",
    "StoreAtomic",
    "Symmetric",
    "Triangle",
    "mgather",
    "mscatter",
    "tabs",
    "tadd",
    "taddc",
    "tadddeqrelu",
    "taddreluconv",
    "tadds",
    "taddsc",
    "tand",
    "tands",
    "taxpy",
    "tci",
    "tcmp",
    "tcmps",
    "tcolargmax",
    "tcolargmin",
    "tcolexpand",
    "tcolexpandadd",
    "tcolexpanddiv",
    "tcolexpandexpdif",
    "tcolexpandmax",
    "tcolexpandmin",
    "tcolexpandmul",
    "tcolexpandsub",
    "tcolmax",
    "tcolmin",
    "tcolprod",
    "tcolsum",
    "tconcat",
    "tcvt",
    "tdeinterleave",
    "tdequant",
    "tdiv",
    "tdivs",
    "texp",
    "texpands",
    "textract",
    "textract_fp",
    "tfillpad",
    "tfillpad_expand",
    "tfillpad_inplace",
    "tfmod",
    "tfmods",
    "tfusedmuladd",
    "tfusedmuladdrelu",
    "tgather",
    "tgather_mask",
    "tgatherb",
    "tgemv",
    "tgemv_acc",
    "tgemv_bias",
    "tgemv_mx",
    "tgemv_mx_acc",
    "tgemv_mx_bias",
    "thistogram",
    "tinsert",
    "tinsert_fp",
    "tinterleave",
    "tload",
    "tlog",
    "tlrelu",
    "tmatmul",
    "tmatmul_acc",
    "tmatmul_bias",
    "tmatmul_mx",
    "tmatmul_mx_acc",
    "tmatmul_mx_bias",
    "tmax",
    "tmaxs",
    "tmin",
    "tmins",
    "tmov",
    "tmov_fp",
    "tmrgsort",
    "tmrgsort2",
    "tmrgsort3",
    "tmrgsort4",
    "tmul",
    "tmuladddst",
    "tmuls",
    "tneg",
    "tnot",
    "tor",
    "tors",
    "tpairreducesum",
    "tpartadd",
    "tpartargmax",
    "tpartargmin",
    "tpartmax",
    "tpartmin",
    "tpartmul",
    "tpow",
    "tpows",
    "tprelu",
    "tquant",
    "tquant_asym",
    "trecip",
    "trelu",
    "trem",
    "trems",
    "trowargmax",
    "trowargmin",
    "trowexpand",
    "trowexpandadd",
    "trowexpanddiv",
    "trowexpandexpdif",
    "trowexpandmax",
    "trowexpandmin",
    "trowexpandmul",
    "trowexpandsub",
    "trowmax",
    "trowmin",
    "trowprod",
    "trowsum",
    "trsqrt",
    "tscatter",
    "tsel",
    "tsels",
    "tshl",
    "tshls",
    "tshr",
    "tshrs",
    "tsort32",
    "tsqrt",
    "tstore",
    "tstore_fp",
    "tsub",
    "tsubc",
    "tsubrelu",
    "tsubreluconv",
    "tsubs",
    "tsubsc",
    "ttrans",
    "ttri",
    "txor",
    "txors",
]

def mgather(
    dst: Tile,
    table: GlobalTensor,
    idx: Tile | GlobalTensor,
    *,
    coalesce: str | Coalesce | None = None,
    oob: str | GatherOOB = GatherOOB.Undefined,
    executor: str | GatherExec | None = None,
    scratch: GlobalTensor | None = None,
    wait: Wait = None,
) -> Event:
    """Gather rows or elements of a GM table into a tile, through an index.

        row:  dst[r, j] = table[idx[r], j]        0 <= r < ValidRow, 0 <= j < ValidCol
        elem: dst[i, j] = tableFlat[idx[i, j]]    over the destination's valid region

    Args:
        dst: destination tile: Vec, or Mat in NZ form on a2a3 and a5
        table: the table in GM
        idx: int32 or uint32 indices: a Vec tile, or a GM tensor for a Mat destination
        scratch: GM workspace of Rows * Cols elements, for an elem gather into L1
        coalesce: what one index moves: row | elem (default: row; elem when a scratch is given)
        oob: what an index outside the table does: undefined | clamp | wrap | zero (default: undefined)
        executor: which unit collects the elements of an elem gather into L1: scalar | simt (default: scalar)
        wait: events that earlier calls returned, to wait for
    """

def mscatter(
    table: GlobalTensor,
    src: Tile,
    idx: Tile,
    *,
    coalesce: str | Coalesce | None = None,
    atomic: str | ScatterAtomicOp = ScatterAtomicOp.NONE,
    oob: str | ScatterOOB = ScatterOOB.Undefined,
    conflict: str | ScatterConflict | None = None,
    wait: Wait = None,
) -> Event:
    """Scatter rows or elements of a tile into a GM table, through an index.

        row:  table[idx[i], j] = src[i, j]    over the source's valid region
        elem: mem[idx[i, j]] = src[i, j]      indices are linear element offsets
        atomic add, max, min combine with the cell instead of replacing it

    Args:
        table: the table in GM
        src: source tile: Vec, row-major
        idx: int32 or uint32 Vec tile: [N, 1] for rows, [N, M] for elements
        coalesce: what one index places: row | elem (default: from the index shape)
        atomic: how an element is combined with the cell: none | add | max | min (default: none)
        oob: what an index outside the table does: undefined | skip | clamp | wrap (default: undefined)
        conflict: which write to a repeated cell remains: default | last (default: default)
        wait: events that earlier calls returned, to wait for
    """

def tabs(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """The absolute value.

        dst = |src|    the lowest integer stays itself

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tadd(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Add two tiles.

        dst = src0 + src1    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def taddc(dst: Tile, src0: Tile, src1: Tile, src2: Tile, *, wait: Wait = None) -> Event:
    """Add or subtract, and add a tile.

        dst = src0 + src1 + src2    each step is rounded, and integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of its type and valid region
        src1: a plain Vec tile of its type and valid region
        src2: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tadddeqrelu(
    dst: Tile,
    src0: Tile,
    src1: Tile,
    scale: float,
    *,
    tmp: Tile | None = None,
    wait: Wait = None,
) -> Event:
    """Add two tiles of integers, scale them, replace negative numbers by zero.

        dst = relu((src0 + src1) * scale)    the sum wraps; rounded to float32, and at the end to float16; clamped

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of int32, of its valid region
        src1: a plain Vec tile of int32, of its valid region
        scale: the factor, a float32 number
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def taddreluconv(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Add two tiles, replace negative numbers by zero, and convert.

        dst = relu(src0 + src1) in dst's type    rounded in src's type; then to the nearest, ties to even; clamped

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of its type and valid region
        src1: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tadds(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """Add a scalar to a tile.

        dst = src + scalar    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def taddsc(dst: Tile, src0: Tile, scalar: float, src1: Tile, *, wait: Wait = None) -> Event:
    """Add or subtract, and add a tile.

        dst = src0 + scalar + src1    each step is rounded, and integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of its type and valid region
        scalar: a number, held in the destination's type
        src1: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tand(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Bitwise and of two tiles.

        dst = src0 & src1

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tands(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """Bitwise and with a scalar.

        dst = src & scalar

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def taxpy(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """Add a multiple of a tile.

        dst = dst + src * scalar    in dst's type: the product is rounded, then the sum

    Args:
        dst: a plain Vec tile, to which the multiple is added
        src: a Vec tile of its valid region and type; float16 for float32, too
        scalar: the factor, a number held in the source's type
        wait: events that earlier calls returned, to wait for
    """

def tci(dst: Tile, start: float, *, descending: bool = False, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Count up or down from a number.

        dst[0, j] = start + j, or start - j    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        start: a number, held in the destination's type
        descending: the order of the numbers: descending if True, else ascending
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tcmp(dst: Tile, src0: Tile, src1: Tile, mode: str | CmpMode = CmpMode.EQ, *, wait: Wait = None) -> Event:
    """Compare two tiles.

        bit j of row i of dst = src0[i, j] <mode> src1[i, j]    the rest of a row is 0

    Args:
        dst: destination: Vec tile of packed bits, row by row: bit k of byte j stands for column 8j + k
        src0: a Vec tile to compare
        src1: a Vec tile of src0's type and valid region
        mode: how elements are compared: eq | ne | lt | le | gt | ge (default: eq)
        wait: events that earlier calls returned, to wait for
    """

def tcmps(dst: Tile, src: Tile, scalar: float, mode: str | CmpMode = CmpMode.EQ, *, wait: Wait = None) -> Event:
    """Compare a tile with a scalar.

        bit j of row i of dst = src[i, j] <mode> scalar    the rest of a row is 0

    Args:
        dst: destination: Vec tile of packed bits, row by row: bit k of byte j stands for column 8j + k
        src: a Vec tile to compare
        scalar: a number, held in the source's type
        mode: how elements are compared: eq | ne | lt | le | gt | ge (default: eq)
        wait: events that earlier calls returned, to wait for
    """

def tcolargmax(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The row of the largest element of every column.

        dst[0, j] = the first i of the largest src[i, j]    a leading NaN stays, a later one loses

    Args:
        dst: destination: a plain Vec tile of one row or more; row 0 is written
        src: a plain Vec tile
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tcolargmin(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The row of the smallest element of every column.

        dst[0, j] = the first i of the smallest src[i, j]    a leading NaN stays, a later one loses

    Args:
        dst: destination: a plain Vec tile of one row or more; row 0 is written
        src: a plain Vec tile
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tcolexpand(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Repeat a row.

        dst[i, j] = src[0, j]

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a plain Vec tile; its row 0 is repeated
        wait: events that earlier calls returned, to wait for
    """

def tcolexpandadd(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Add a number to each column.

        dst[i, j] = src0[i, j] + src1[0, j]    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: plain Vec tile: dst's valid region, or one row, a number a column
        src1: plain Vec tile: dst's valid region, or one row, a number a column
        wait: events that earlier calls returned, to wait for
    """

def tcolexpanddiv(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Divide columns by a number each.

        dst[i, j] = src0[i, j] / src1[0, j]    floats by IEEE, integers towards zero

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: plain Vec tile: dst's valid region, or one row, a number a column
        src1: plain Vec tile: dst's valid region, or one row, a number a column
        wait: events that earlier calls returned, to wait for
    """

def tcolexpandexpdif(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Subtract a number from each column, and take the exponential.

        dst[i, j] = e ** (src0[i, j] - src1[0, j])    the difference is rounded; within 2 ulp of it

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: plain Vec tile: dst's valid region, or one row, a number a column
        src1: plain Vec tile: dst's valid region, or one row, a number a column
        wait: events that earlier calls returned, to wait for
    """

def tcolexpandmax(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """The larger of a tile and a number for each column.

        dst[i, j] = src1[0, j] if src1[0, j] > src0[i, j] else src0[i, j]

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: plain Vec tile: dst's valid region, or one row, a number a column
        src1: plain Vec tile: dst's valid region, or one row, a number a column
        wait: events that earlier calls returned, to wait for
    """

def tcolexpandmin(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """The smaller of a tile and a number for each column.

        dst[i, j] = src1[0, j] if src1[0, j] < src0[i, j] else src0[i, j]

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: plain Vec tile: dst's valid region, or one row, a number a column
        src1: plain Vec tile: dst's valid region, or one row, a number a column
        wait: events that earlier calls returned, to wait for
    """

def tcolexpandmul(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Multiply columns by a number each.

        dst[i, j] = src0[i, j] * src1[0, j]    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: plain Vec tile: dst's valid region, or one row, a number a column
        src1: plain Vec tile: dst's valid region, or one row, a number a column
        wait: events that earlier calls returned, to wait for
    """

def tcolexpandsub(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Subtract a number from each column.

        dst[i, j] = src0[i, j] - src1[0, j]    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: plain Vec tile: dst's valid region, or one row, a number a column
        src1: plain Vec tile: dst's valid region, or one row, a number a column
        wait: events that earlier calls returned, to wait for
    """

def tcolmax(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """The largest element of every column.

        dst[0, j] = the largest of src[:, j]    a leading NaN stays, a later one loses

    Args:
        dst: destination: a plain Vec tile of one row or more; row 0 is written
        src: a plain Vec tile
        wait: events that earlier calls returned, to wait for
    """

def tcolmin(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """The smallest element of every column.

        dst[0, j] = the smallest of src[:, j]    a leading NaN stays, a later one loses

    Args:
        dst: destination: a plain Vec tile of one row or more; row 0 is written
        src: a plain Vec tile
        wait: events that earlier calls returned, to wait for
    """

def tcolprod(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Multiply the elements of every column.

        dst[0, j] = src[0, j] * src[1, j] * ...    in this order, every product rounded; integers wrap

    Args:
        dst: destination: a plain Vec tile of one row or more; row 0 is written
        src: a plain Vec tile
        wait: events that earlier calls returned, to wait for
    """

def tcolsum(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Sum every column.

        dst[0, j] = src[0, j] + src[1, j] + ...    in this order, in float32, rounded once

    Args:
        dst: destination: a plain Vec tile of one row or more; row 0 is written
        src: a plain Vec tile
        tmp: temporary memory, used on a2a3, a5
        wait: events that earlier calls returned, to wait for
    """

def tconcat(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Put two tiles side by side.

        dst[i, j] = src0[i, j]; dst[i, src0's columns + j] = src1[i, j]    over their valid regions

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of dst's type and valid rows
        src1: a plain Vec tile of dst's type and valid rows
        wait: events that earlier calls returned, to wait for
    """

def tcvt(
    dst: Tile,
    src: Tile,
    round: str | RoundMode = RoundMode.Rint,
    saturation: str | Saturation | None = None,
    *,
    tmp: Tile | None = None,
    wait: Wait = None,
) -> Event:
    """Convert a tile to another element type.

        dst = src in dst's type    floats round to integers by the mode, to floats to nearest even

    Args:
        dst: destination: a plain Vec tile
        src: a Vec tile of its valid region
        round: how fractions are rounded to integers, also from a float type to itself: none | rint | round | floor
            | ceil | trunc | odd (default: rint)
        saturation: clamp to dst's range or wrap: on | off (default: off for float16 to int16, float16 to int8,
            float16 to uint8, float32 to int16, int32 to int16, int64 to int32; on for the others)
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tdeinterleave(dst0: Tile, dst1: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Take columns of two tiles apart.

        dst0[i, j], dst1[i, j] = src0[i, 2j], src0[i, 2j + 1]    the right halves: the same of src1

    Args:
        dst0: a plain Vec tile
        dst1: a plain Vec tile
        src0: a plain Vec tile of its type and valid region
        src1: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tdequant(dst: Tile, src: Tile, scale: Tile, offset: Tile, *, wait: Wait = None) -> Event:
    """Convert integers to floats by a scale and an offset for each row.

        dst[i, j] = (src[i, j] - offset[i]) * scale[i]    in float32: the difference is rounded, then the product

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a plain Vec tile of integers, of the destination's valid region
        scale: a Vec tile of one column: the scale of each row
        offset: a Vec tile of one column: the offset of each row
        wait: events that earlier calls returned, to wait for
    """

def tdiv(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Divide two tiles.

        dst = src0 / src1    floats by IEEE, integers towards zero

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tdivs(dst: Tile, dividend: Tile | float, divisor: Tile | float, *, wait: Wait = None) -> Event:
    """Divide a tile by a scalar, or a scalar by a tile.

        dst = src / scalar, or scalar / src    floats by IEEE, integers towards zero

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        dividend, divisor: a Vec tile of the destination's type and valid region and a number, held in the
            destination's type, in either order
        wait: events that earlier calls returned, to wait for
    """

def texp(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """The exponential function.

        dst = e ** src    within 2 ulp

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def texpands(dst: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """Fill a tile with a scalar.

        dst = scalar    the valid region; all of a Mat tile

    Args:
        dst: destination: a Vec tile, or a Mat tile, which is filled whole
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def textract(
    dst: Tile,
    src: Tile,
    row: int = 0,
    col: int = 0,
    *,
    relu: str | ReluMode = ReluMode.NONE,
    scale: float | None = None,
    wait: Wait = None,
) -> Event:
    """Copy a window of a tile.

        dst[i, j] = src[row + i, col + j]    over dst's valid region

    Args:
        dst: destination: Left, Right, Mat or Vec
        src: source: Mat, Acc or Vec
        row: a number: the window's first row
        col: a number: the window's first column
        scale: a number of 64 bits: the factor of all elements, as in fp
        relu: whether numbers below zero become zero, on the way out of an accumulator: none | relu (default: none)
        wait: events that earlier calls returned, to wait for
    """

def textract_fp(
    dst: Tile,
    src: Tile,
    fp: Tile,
    row: int = 0,
    col: int = 0,
    *,
    relu: str | ReluMode = ReluMode.NONE,
    wait: Wait = None,
) -> Event:
    """Copy a window of a tile, with a factor for each column.

        dst[i, j] = quantised src[row + i, col + j]    over dst's valid region
        the factor of column j is in fp[0, j]

    Args:
        dst: destination: Left, Right, Mat or Vec
        src: source: Mat, Acc or Vec
        fp: a Scaling tile of one row: for each column a float32 factor, at bit 37 an offset, at bit 46 whether the
            result is signed
        row: a number: the window's first row
        col: a number: the window's first column
        relu: whether numbers below zero become zero, on the way out of an accumulator: none | relu (default: none)
        wait: events that earlier calls returned, to wait for
    """

def tfillpad(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Copy a tile and pad it.

        dst = src where src is valid, else the pad value    dst's valid rows, all columns; all of a Mat tile

    Args:
        dst: destination: a Vec or Mat tile; its pad value fills what src does not
        src: a tile of its type
        wait: events that earlier calls returned, to wait for
    """

def tfillpad_expand(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Copy a tile into a larger one and pad it.

        dst = src where src is valid, else the pad value    dst's valid rows, all columns

    Args:
        dst: destination: a Vec tile; its pad value fills what src does not
        src: a tile of its type
        wait: events that earlier calls returned, to wait for
    """

def tfillpad_inplace(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Pad a tile in its place.

        dst = src where src is valid, else the pad value    dst's valid rows, all columns

    Args:
        dst: destination: a Vec tile; its pad value fills what src does not
        src: a tile of its type, on the same bytes
        wait: events that earlier calls returned, to wait for
    """

def tfmod(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """The remainder of two tiles, with the dividend's sign.

        dst = src0 - trunc(src0 / src1) * src1    0 or of src0's sign

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tfmods(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """The remainder by a scalar, with the tile's sign.

        dst = src - trunc(src / scalar) * scalar    0 or of src's sign

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def tfusedmuladd(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Multiply by a tile and add another.

        dst = src0 * dst + src1    the product is rounded, then the sum

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of its type and valid region
        src1: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tfusedmuladdrelu(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Multiply by a tile, add another, replace negative numbers by zero.

        dst = relu(src0 * dst + src1)    the product is rounded, then the sum

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of its type and valid region
        src1: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tgather(dst: Tile, src: Tile, idx: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Gather elements of a tile by their numbers.

        dst[i, j] = src.element[idx[i, j]]    element r * Cols + c is src[r, c]

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type
        idx: Vec tile of element numbers, of the destination's valid region
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tgather_mask(dst: Tile, src: Tile, *, pattern: str | MaskPattern = MaskPattern.P1111, wait: Wait = None) -> Event:
    """Gather every second or fourth column of a tile.

        element i * n + j of dst = src[i, first + step * j]    n of a row; P1010: every second, from column 1 on

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a plain Vec tile of elements of the destination's size
        pattern: the elements that are kept of every four: p0101 | p1010 | p0001 | p0010 | p0100 | p1000 | p1111
            (default: p1111)
        wait: events that earlier calls returned, to wait for
    """

def tgatherb(dst: Tile, src: Tile, offset: Tile, *, wait: Wait = None) -> Event:
    """Gather blocks of 32 bytes.

        block k of row i of dst = the 32 bytes of src from offset[i, k] on    an offset counts bytes

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a plain Vec tile of elements of the destination's size
        offset: a plain Vec tile of uint32: for each block its distance in bytes
        wait: events that earlier calls returned, to wait for
    """

def tgemv(dst: Tile, a: Tile, b: Tile, *, wait: Wait = None) -> Event:
    """Multiply a row by a matrix.

        dst = a @ b    summed in float32, or exactly in int32

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        a: the left matrix: a Left tile
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        wait: events that earlier calls returned, to wait for
    """

def tgemv_acc(dst: Tile, acc: Tile, a: Tile, b: Tile, *, wait: Wait = None) -> Event:
    """Multiply a row by a matrix and add.

        dst = acc + a @ b    summed in float32, or int32 that wraps

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        acc: an Acc tile like dst, to add to; it may be dst
        a: the left matrix: a Left tile
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        wait: events that earlier calls returned, to wait for
    """

def tgemv_bias(dst: Tile, a: Tile, b: Tile, bias: Tile, *, wait: Wait = None) -> Event:
    """Multiply a row by a matrix and add a row.

        dst = a @ b + bias

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        a: the left matrix: a Left tile
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        bias: a Bias tile of one row, added to every row of the product
        wait: events that earlier calls returned, to wait for
    """

def tgemv_mx(dst: Tile, a: Tile, a_scale: Tile, b: Tile, b_scale: Tile, *, wait: Wait = None) -> Event:
    """Multiply a row by a matrix, both with scales.

        dst = sum over k of a[i, k] * a_scale[i, k // 32] * b[k, j] * b_scale[k // 32, j]

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        a: the left matrix: a Left tile
        a_scale: the scales of a: a ScaleLeft tile of float8_e8m0, one for 32 columns of a row
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        b_scale: the scales of b: a ScaleRight tile of float8_e8m0, one for 32 rows of a column
        wait: events that earlier calls returned, to wait for
    """

def tgemv_mx_acc(dst: Tile, acc: Tile, a: Tile, a_scale: Tile, b: Tile, b_scale: Tile, *, wait: Wait = None) -> Event:
    """Multiply a row by a matrix, both with scales and add.

        dst = acc + sum over k of a[i, k] * a_scale[i, k // 32] * b[k, j] * b_scale[k // 32, j]

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        acc: an Acc tile like dst, to add to; it may be dst
        a: the left matrix: a Left tile
        a_scale: the scales of a: a ScaleLeft tile of float8_e8m0, one for 32 columns of a row
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        b_scale: the scales of b: a ScaleRight tile of float8_e8m0, one for 32 rows of a column
        wait: events that earlier calls returned, to wait for
    """

def tgemv_mx_bias(dst: Tile, a: Tile, a_scale: Tile, b: Tile, b_scale: Tile, bias: Tile, *, wait: Wait = None) -> Event:
    """Multiply a row by a matrix, both with scales and add a row.

        dst = bias + sum over k of a[i, k] * a_scale[i, k // 32] * b[k, j] * b_scale[k // 32, j]

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        a: the left matrix: a Left tile
        a_scale: the scales of a: a ScaleLeft tile of float8_e8m0, one for 32 columns of a row
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        b_scale: the scales of b: a ScaleRight tile of float8_e8m0, one for 32 rows of a column
        bias: a Bias tile of one row, added to every row of the product
        wait: events that earlier calls returned, to wait for
    """

def thistogram(dst: Tile, src: Tile, idx: Tile, byte: str | HistByte | None = None, *, wait: Wait = None) -> Event:
    """Count the values of a byte.

        dst[i, v] = how many of src[i, :] have a byte of at most v, and the bytes above it that idx names

    Args:
        dst: destination: a plain Vec tile of uint32 with 256 columns
        src: a plain Vec tile of uint16 or uint32
        idx: a Vec tile of uint8: the bytes above the counted one that an element must have; of uint16 a column with
            one for each row, of uint32 a row for each of these bytes, the highest first
        byte: the byte that is counted: byte_0 | byte_1 | byte_2 | byte_3 (default: the highest)
        wait: events that earlier calls returned, to wait for
    """

def tinsert(
    dst: Tile,
    src: Tile,
    row: int = 0,
    col: int = 0,
    *,
    relu: str | ReluMode = ReluMode.NONE,
    scale: float | None = None,
    wait: Wait = None,
) -> Event:
    """Put a tile into a window of another one.

        dst[row + i, col + j] = src[i, j]    over src's valid region; the rest of dst stays

    Args:
        dst: destination: Vec or Mat
        src: source: Vec or Acc
        row: a number: the window's first row
        col: a number: the window's first column
        scale: a number of 64 bits: the factor of all elements, as in fp
        relu: whether numbers below zero become zero, on the way out of an accumulator: none | relu (default: none)
        wait: events that earlier calls returned, to wait for
    """

def tinsert_fp(
    dst: Tile,
    src: Tile,
    fp: Tile,
    row: int = 0,
    col: int = 0,
    *,
    relu: str | ReluMode = ReluMode.NONE,
    wait: Wait = None,
) -> Event:
    """Put a tile into a window of another one, with a factor for each column.

        dst[row + i, col + j] = quantised src[i, j]    over src's valid region; the rest of dst stays
        the factor of column j is in fp[0, j]

    Args:
        dst: destination: Vec or Mat
        src: source: Vec or Acc
        fp: a Scaling tile of one row: for each column a float32 factor, at bit 37 an offset, at bit 46 whether the
            result is signed
        row: a number: the window's first row
        col: a number: the window's first column
        relu: whether numbers below zero become zero, on the way out of an accumulator: none | relu (default: none)
        wait: events that earlier calls returned, to wait for
    """

def tinterleave(dst0: Tile, dst1: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Put columns of two tiles in turn.

        dst0[i, 2j], dst0[i, 2j + 1] = src0[i, j], src1[i, j]    dst1: the same of the right halves

    Args:
        dst0: a plain Vec tile
        dst1: a plain Vec tile
        src0: a plain Vec tile of its type and valid region
        src1: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tload(dst: Tile, src: GlobalTensor, *, wait: Wait = None) -> Event:
    """Load a contiguous block of GM into a tile.

        dst[i, j] = src[i, j]    over the destination's valid region

    Args:
        dst: destination tile: Vec or Mat
        src: the block in GM
        wait: events that earlier calls returned, to wait for
    """

def tlog(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """The natural logarithm.

        dst = ln(src)    within 2 ulp

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tlrelu(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """Multiply negative numbers by a scalar.

        dst = src if src > 0 else src * scalar

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def tmatmul(dst: Tile, a: Tile, b: Tile, *, wait: Wait = None) -> Event:
    """Multiply two matrices.

        dst = a @ b    summed in float32, or exactly in int32

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        a: the left matrix: a Left tile
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        wait: events that earlier calls returned, to wait for
    """

def tmatmul_acc(dst: Tile, acc: Tile, a: Tile, b: Tile, *, wait: Wait = None) -> Event:
    """Multiply two matrices and add.

        dst = acc + a @ b    summed in float32, or int32 that wraps

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        acc: an Acc tile like dst, to add to; it may be dst
        a: the left matrix: a Left tile
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        wait: events that earlier calls returned, to wait for
    """

def tmatmul_bias(dst: Tile, a: Tile, b: Tile, bias: Tile, *, wait: Wait = None) -> Event:
    """Multiply two matrices and add a row.

        dst = a @ b + bias    bias is added to every row

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        a: the left matrix: a Left tile
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        bias: a Bias tile of one row, added to every row of the product
        wait: events that earlier calls returned, to wait for
    """

def tmatmul_mx(dst: Tile, a: Tile, a_scale: Tile, b: Tile, b_scale: Tile, *, wait: Wait = None) -> Event:
    """Multiply two matrices, both with scales.

        dst = sum over k of a[i, k] * a_scale[i, k // 32] * b[k, j] * b_scale[k // 32, j]

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        a: the left matrix: a Left tile
        a_scale: the scales of a: a ScaleLeft tile of float8_e8m0, one for 32 columns of a row
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        b_scale: the scales of b: a ScaleRight tile of float8_e8m0, one for 32 rows of a column
        wait: events that earlier calls returned, to wait for
    """

def tmatmul_mx_acc(dst: Tile, acc: Tile, a: Tile, a_scale: Tile, b: Tile, b_scale: Tile, *, wait: Wait = None) -> Event:
    """Multiply two matrices, both with scales and add.

        dst = acc + sum over k of a[i, k] * a_scale[i, k // 32] * b[k, j] * b_scale[k // 32, j]

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        acc: an Acc tile like dst, to add to; it may be dst
        a: the left matrix: a Left tile
        a_scale: the scales of a: a ScaleLeft tile of float8_e8m0, one for 32 columns of a row
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        b_scale: the scales of b: a ScaleRight tile of float8_e8m0, one for 32 rows of a column
        wait: events that earlier calls returned, to wait for
    """

def tmatmul_mx_bias(
    dst: Tile,
    a: Tile,
    a_scale: Tile,
    b: Tile,
    b_scale: Tile,
    bias: Tile,
    *,
    wait: Wait = None,
) -> Event:
    """Multiply two matrices, both with scales and add a row.

        dst = bias + sum over k of a[i, k] * a_scale[i, k // 32] * b[k, j] * b_scale[k // 32, j]

    Args:
        dst: the product: an Acc tile, float32 or (of int8) int32
        a: the left matrix: a Left tile
        a_scale: the scales of a: a ScaleLeft tile of float8_e8m0, one for 32 columns of a row
        b: the right matrix: a Right tile of a's type; of 8-bit floats, either one
        b_scale: the scales of b: a ScaleRight tile of float8_e8m0, one for 32 rows of a column
        bias: a Bias tile of one row, added to every row of the product
        wait: events that earlier calls returned, to wait for
    """

def tmax(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """The larger of two tiles.

        dst = src1 if src1 > src0 else src0    so a NaN in src1 loses

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tmaxs(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """The larger of tile and scalar.

        dst = scalar if scalar > src else src

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def tmin(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """The smaller of two tiles.

        dst = src1 if src1 < src0 else src0    so a NaN in src1 loses

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tmins(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """The smaller of tile and scalar.

        dst = scalar if scalar < src else src

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def tmov(
    dst: Tile,
    src: Tile,
    *,
    relu: str | ReluMode = ReluMode.NONE,
    acc_to_vec: str | AccToVec = AccToVec.Vec0,
    scale: float | None = None,
    wait: Wait = None,
) -> Event:
    """Move a tile into another tile, changing its layout where the two differ.

        dst[i, j] = src[i, j]    over the destination's valid region
        float32 of an accumulator may become float16 or bfloat16, a bias float32
        from Acc with scale or fp: quantised by a factor; with relu: zero where it is below zero

    Args:
        dst: destination tile
        src: source tile
        scale: a number of 64 bits: the factor of all elements, as in fp
        relu: whether numbers below zero become zero, on the way out of an accumulator: none | relu (default: none)
        acc_to_vec: the vector core whose UB an accumulator goes into, or both: split_m by halves of its rows,
            split_n of its columns: vec0 | vec1 | split_m | split_n (default: vec0)
        wait: events that earlier calls returned, to wait for
    """

def tmov_fp(
    dst: Tile,
    src: Tile,
    fp: Tile,
    *,
    relu: str | ReluMode = ReluMode.NONE,
    acc_to_vec: str | AccToVec = AccToVec.Vec0,
    wait: Wait = None,
) -> Event:
    """Move a tile into another tile, changing its layout where the two differ, with a factor for each column.

        dst[i, j] = quantised src[i, j]    over the destination's valid region
        the factor of column j is in fp[0, j]

    Args:
        dst: destination tile
        src: source tile
        fp: a Scaling tile of one row: for each column a float32 factor, at bit 37 an offset, at bit 46 whether the
            result is signed
        relu: whether numbers below zero become zero, on the way out of an accumulator: none | relu (default: none)
        acc_to_vec: the vector core whose UB an accumulator goes into, or both: split_m by halves of its rows,
            split_n of its columns: vec0 | vec1 | split_m | split_n (default: vec0)
        wait: events that earlier calls returned, to wait for
    """

def tmrgsort(dst: Tile, src: Tile, length: int = 0, *, wait: Wait = None) -> Event:
    """Merge every four sorted blocks of a tile into one.

        dst = the pairs of every 4 blocks of length columns, the larger value first, of equal ones the earlier one

    Args:
        dst: destination: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32)
        src: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32); each block is sorted
            in descending order
        length: a number: the columns of a block, a multiple of 64
        wait: events that earlier calls returned, to wait for
    """

def tmrgsort2(
    dst: Tile,
    src0: Tile,
    src1: Tile,
    *,
    exhausted: bool = False,
    tmp: Tile | None = None,
    wait: Wait = None,
) -> Event:
    """Merge 2 sorted lists.

        dst = the pairs of all lists, the larger value first, of equal ones the earlier one; as many as fit

    Args:
        dst: destination: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32)
        src0: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32), sorted in descending
            order
        src1: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32), sorted in descending
            order
        exhausted: when the merge ends: exhausted if True, else merged
        tmp: temporary memory, used on a2a3, a5
        wait: events that earlier calls returned, to wait for
    """

def tmrgsort3(
    dst: Tile,
    src0: Tile,
    src1: Tile,
    src2: Tile,
    *,
    exhausted: bool = False,
    tmp: Tile | None = None,
    wait: Wait = None,
) -> Event:
    """Merge 3 sorted lists.

        dst = the pairs of all lists, the larger value first, of equal ones the earlier one; as many as fit

    Args:
        dst: destination: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32)
        src0: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32), sorted in descending
            order
        src1: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32), sorted in descending
            order
        src2: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32), sorted in descending
            order
        exhausted: when the merge ends: exhausted if True, else merged
        tmp: temporary memory, used on a2a3, a5
        wait: events that earlier calls returned, to wait for
    """

def tmrgsort4(
    dst: Tile,
    src0: Tile,
    src1: Tile,
    src2: Tile,
    src3: Tile,
    *,
    exhausted: bool = False,
    tmp: Tile | None = None,
    wait: Wait = None,
) -> Event:
    """Merge 4 sorted lists.

        dst = the pairs of all lists, the larger value first, of equal ones the earlier one; as many as fit

    Args:
        dst: destination: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32)
        src0: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32), sorted in descending
            order
        src1: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32), sorted in descending
            order
        src2: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32), sorted in descending
            order
        src3: a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32), sorted in descending
            order
        exhausted: when the merge ends: exhausted if True, else merged
        tmp: temporary memory, used on a2a3, a5
        wait: events that earlier calls returned, to wait for
    """

def tmul(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Multiply two tiles.

        dst = src0 * src1    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tmuladddst(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Add a product of two tiles.

        dst = dst + src0 * src1    the product is rounded, then the sum

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of its type and valid region
        src1: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tmuls(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """Multiply a tile by a scalar.

        dst = src * scalar    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def tneg(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Change the sign.

        dst = -src    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tnot(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Invert every bit.

        dst = ~src

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tor(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Bitwise or of two tiles.

        dst = src0 | src1

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tors(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """Bitwise or with a scalar.

        dst = src | scalar

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def tpairreducesum(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Add neighbouring columns.

        dst[i, j] = src[i, 2j] + src[i, 2j + 1]    in the first half of dst's columns

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a plain Vec tile of its type and valid region, of two columns or more
        wait: events that earlier calls returned, to wait for
    """

def tpartadd(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Add two tiles, of which one may be smaller.

        dst = src0 + src1 where both are valid, else the one that is    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile: dst's valid region, or for one of the sources less
        src1: a plain Vec tile: dst's valid region, or for one of the sources less
        wait: events that earlier calls returned, to wait for
    """

def tpartargmax(
    dst: Tile,
    src0: Tile,
    src1: Tile,
    dst_idx: Tile,
    src0_idx: Tile,
    src1_idx: Tile,
    *,
    wait: Wait = None,
) -> Event:
    """The larger of two values, and its place; one tile may be smaller.

        dst, dst_idx = (src1, src1_idx) if src1 > src0 else (src0, src0_idx)    where one is valid, that one

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile: dst's valid region, or for one of the sources less
        src1: a plain Vec tile: dst's valid region, or for one of the sources less
        dst_idx: a plain Vec tile: the place of each element of dst
        src0_idx: a plain Vec tile: the places of src0
        src1_idx: a plain Vec tile: the places of src1
        wait: events that earlier calls returned, to wait for
    """

def tpartargmin(
    dst: Tile,
    src0: Tile,
    src1: Tile,
    dst_idx: Tile,
    src0_idx: Tile,
    src1_idx: Tile,
    *,
    wait: Wait = None,
) -> Event:
    """The smaller of two values, and its place; one tile may be smaller.

        dst, dst_idx = (src1, src1_idx) if src1 < src0 else (src0, src0_idx)    where one is valid, that one

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile: dst's valid region, or for one of the sources less
        src1: a plain Vec tile: dst's valid region, or for one of the sources less
        dst_idx: a plain Vec tile: the place of each element of dst
        src0_idx: a plain Vec tile: the places of src0
        src1_idx: a plain Vec tile: the places of src1
        wait: events that earlier calls returned, to wait for
    """

def tpartmax(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """The larger of two tiles, of which one may be smaller.

        dst = (src1 if src1 > src0 else src0) where both are valid, else the one that is

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile: dst's valid region, or for one of the sources less
        src1: a plain Vec tile: dst's valid region, or for one of the sources less
        wait: events that earlier calls returned, to wait for
    """

def tpartmin(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """The smaller of two tiles, of which one may be smaller.

        dst = (src1 if src1 < src0 else src0) where both are valid, else the one that is

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile: dst's valid region, or for one of the sources less
        src1: a plain Vec tile: dst's valid region, or for one of the sources less
        wait: events that earlier calls returned, to wait for
    """

def tpartmul(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Multiply two tiles, of which one may be smaller.

        dst = src0 * src1 where both are valid, else the one that is    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile: dst's valid region, or for one of the sources less
        src1: a plain Vec tile: dst's valid region, or for one of the sources less
        wait: events that earlier calls returned, to wait for
    """

def tpow(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Raise a tile to the power of another.

        dst = src0 ** src1    floats within 2 ulp; integers wrap, and below the exponent 0 are truncated

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tpows(dst: Tile, src: Tile, scalar: float, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Raise a tile to a power.

        dst = src ** scalar    floats within 2 ulp; integers wrap, and below the exponent 0 are truncated

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tprelu(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Multiply negative numbers by a tile of slopes.

        dst = src0 if src0 > 0 else src0 * src1

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tquant(
    dst: Tile,
    src: Tile,
    scale: Tile,
    *,
    quant: str | Symmetric = Symmetric.INT8_SYM,
    tmp: Tile | None = None,
    wait: Wait = None,
) -> Event:
    """Convert floats to int8 by a factor for each row.

        dst[i, j] = src[i, j] * scale[i]    rounded in float32, then to the nearest integer, ties to even; clamped

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a plain Vec tile of float32, of the destination's valid region
        scale: a Vec tile of one column: the scale of each row
        quant: the kind of quantisation: int8_sym (default: int8_sym)
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tquant_asym(
    dst: Tile,
    src: Tile,
    scale: Tile,
    offset: Tile,
    *,
    quant: str | Asymmetric = Asymmetric.INT8_ASYM,
    tmp: Tile | None = None,
    wait: Wait = None,
) -> Event:
    """Convert floats to uint8 by a factor and an offset for each row.

        dst[i, j] = src[i, j] * scale[i] + offset[i]    product and sum rounded in float32, then as tquant

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a plain Vec tile of float32, of the destination's valid region
        scale: a Vec tile of one column: the scale of each row
        offset: a Vec tile of one column: the offset of each row
        quant: the kind of quantisation: int8_asym (default: int8_asym)
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trecip(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """The reciprocal.

        dst = 1 / src    correctly rounded, by IEEE

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def trelu(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Replace negative numbers by zero.

        dst = 0 if src < 0 else src    so a NaN stays

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def trem(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The remainder of two tiles, with the divisor's sign.

        dst = src0 - floor(src0 / src1) * src1    0 or of src1's sign

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trems(dst: Tile, src: Tile, scalar: float, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The remainder by a scalar, with the scalar's sign.

        dst = src - floor(src / scalar) * scalar    0 or of scalar's sign

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowargmax(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The column of the largest element of every row.

        dst[i, 0] = the first j of the largest src[i, j]    a leading NaN stays, a later one loses

    Args:
        dst: destination: a Vec tile, N x 1 or wider; column 0 is written
        src: a plain Vec tile
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowargmin(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The column of the smallest element of every row.

        dst[i, 0] = the first j of the smallest src[i, j]    a leading NaN stays, a later one loses

    Args:
        dst: destination: a Vec tile, N x 1 or wider; column 0 is written
        src: a plain Vec tile
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowexpand(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Repeat a column.

        dst[i, j] = src[i, 0]

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile; its column 0 is repeated
        wait: events that earlier calls returned, to wait for
    """

def trowexpandadd(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Add a number to each row.

        dst[i, j] = src0[i, j] + src1[i]    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: Vec tile: dst's valid region, or one number a row
        src1: Vec tile: dst's valid region, or one number a row
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowexpanddiv(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Divide rows by a number each.

        dst[i, j] = src0[i, j] / src1[i]    floats by IEEE, integers towards zero

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: Vec tile: dst's valid region, or one number a row
        src1: Vec tile: dst's valid region, or one number a row
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowexpandexpdif(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Subtract a number from each row, and take the exponential.

        dst[i, j] = e ** (src0[i, j] - src1[i])    the difference is rounded; within 2 ulp of it

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: Vec tile: dst's valid region, or one number a row
        src1: Vec tile: dst's valid region, or one number a row
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowexpandmax(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The larger of a tile and a number for each row.

        dst[i, j] = src1[i] if src1[i] > src0[i, j] else src0[i, j]

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: Vec tile: dst's valid region, or one number a row
        src1: Vec tile: dst's valid region, or one number a row
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowexpandmin(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The smaller of a tile and a number for each row.

        dst[i, j] = src1[i] if src1[i] < src0[i, j] else src0[i, j]

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: Vec tile: dst's valid region, or one number a row
        src1: Vec tile: dst's valid region, or one number a row
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowexpandmul(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Multiply rows by a number each.

        dst[i, j] = src0[i, j] * src1[i]    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: Vec tile: dst's valid region, or one number a row
        src1: Vec tile: dst's valid region, or one number a row
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowexpandsub(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Subtract a number from each row.

        dst[i, j] = src0[i, j] - src1[i]    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: Vec tile: dst's valid region, or one number a row
        src1: Vec tile: dst's valid region, or one number a row
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowmax(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The largest element of every row.

        dst[i, 0] = the largest of src[i, :]    a leading NaN stays, a later one loses

    Args:
        dst: destination: a Vec tile, N x 1 or wider; column 0 is written
        src: a plain Vec tile
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowmin(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The smallest element of every row.

        dst[i, 0] = the smallest of src[i, :]    a leading NaN stays, a later one loses

    Args:
        dst: destination: a Vec tile, N x 1 or wider; column 0 is written
        src: a plain Vec tile
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowprod(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Multiply the elements of every row.

        dst[i, 0] = src[i, 0] * src[i, 1] * ...    in this order, every product rounded; integers wrap

    Args:
        dst: destination: a Vec tile, N x 1 or wider; column 0 is written
        src: a plain Vec tile
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trowsum(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Sum every row.

        dst[i, 0] = src[i, 0] + src[i, 1] + ...    in this order, in float32, rounded once

    Args:
        dst: destination: a Vec tile, N x 1 or wider; column 0 is written
        src: a plain Vec tile
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def trsqrt(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """The reciprocal of the square root.

        dst = 1 / sqrt(src)    within 1 ulp, by IEEE

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tscatter(dst: Tile, src: Tile, idx: Tile, *, index: str | ScatterIndex | None = None, wait: Wait = None) -> Event:
    """Scatter elements of a tile into another tile, each to the row its index names.

        row:  dst[idx[i, j], j] = src[i, j]         elements that no index names keep their content
        flat: dst.storage[idx[i, j]] = src[i, j]    for every index; a2a3 and a5 clear the destination first

    Args:
        dst: destination tile: Vec
        src: source tile: Vec, of the destination's type
        idx: Vec tile of the source's valid shape; 4-byte for 4-byte data, else 2-byte
        index: what the index counts: row | flat (default: row)
        wait: events that earlier calls returned, to wait for
    """

def tsel(dst: Tile, mask: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Select between two tiles by a mask.

        dst = src0 where the mask's bit is 1, else src1

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        mask: Vec tile of packed bits, row by row: bit k of byte j stands for column 8j + k
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tsels(dst: Tile, mask: Tile, src: Tile, scalar: float, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Select between a tile and a scalar by a mask.

        dst = src where the mask's bit is 1, else scalar

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        mask: Vec tile of packed bits, row by row: bit k of byte j stands for column 8j + k
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def tshl(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Shift left by a tile of counts.

        dst = src0 << src1    0 for counts of the width and more

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tshls(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """Shift left by a scalar.

        dst = src << scalar    0 for counts of the width and more

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def tshr(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Shift right by a tile of counts.

        dst = src0 >> src1    the sign (0 if unsigned) for counts of the width and more

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tshrs(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """Shift right by a scalar.

        dst = src >> scalar    the sign (0 if unsigned) for counts of the width and more

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def tsort32(dst: Tile, src: Tile, idx: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Sort every 32 columns of a tile in descending order, with their numbers.

        dst = pairs (src[i, j], idx[i, j])    32 at a time: the larger value first, of equal ones the smaller number

    Args:
        dst: destination: a plain Vec tile of pairs of 8 bytes: the value, zeroes up to 4 bytes, idx
        src: a plain Vec tile of the destination's type
        idx: a plain Vec tile of numbers, one for each element of src
        tmp: temporary memory, used on a2a3, a5
        wait: events that earlier calls returned, to wait for
    """

def tsqrt(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """The square root.

        dst = sqrt(src)    correctly rounded

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tstore(
    dst: GlobalTensor,
    src: Tile,
    *,
    atomic: str | StoreAtomic = StoreAtomic.NONE,
    relu: str | ReluMode = ReluMode.NONE,
    scale: float | None = None,
    wait: Wait = None,
) -> Event:
    """Store a tile into a contiguous block of GM.

        dst[i, j] = src[i, j]    over the source's valid region
        atomic add: dst[i, j] += src[i, j]    in dst's type
        float32 of an accumulator may become float16 or bfloat16
        from Acc with scale or fp: quantised by a factor; with relu: zero where it is below zero

    Args:
        dst: the block in GM
        src: source tile: Vec, or Acc
        scale: a number of 64 bits: the factor of all elements, as in fp
        atomic: how an element is combined with the cell: none | add (default: none)
        relu: whether numbers below zero become zero, on the way out of an accumulator: none | relu (default: none)
        wait: events that earlier calls returned, to wait for
    """

def tstore_fp(
    dst: GlobalTensor,
    src: Tile,
    fp: Tile,
    *,
    atomic: str | StoreAtomic = StoreAtomic.NONE,
    relu: str | ReluMode = ReluMode.NONE,
    wait: Wait = None,
) -> Event:
    """Store a tile into a contiguous block of GM, with a factor for each column.

        dst[i, j] = quantised src[i, j]    over the source's valid region
        the factor of column j is in fp[0, j]

    Args:
        dst: the block in GM
        src: source tile: Vec, or Acc
        fp: a Scaling tile of one row: for each column a float32 factor, at bit 37 an offset, at bit 46 whether the
            result is signed
        atomic: how an element is combined with the cell: none | add (default: none)
        relu: whether numbers below zero become zero, on the way out of an accumulator: none | relu (default: none)
        wait: events that earlier calls returned, to wait for
    """

def tsub(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Subtract two tiles.

        dst = src0 - src1    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tsubc(dst: Tile, src0: Tile, src1: Tile, src2: Tile, *, wait: Wait = None) -> Event:
    """Add or subtract, and add a tile.

        dst = src0 - src1 + src2    each step is rounded, and integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of its type and valid region
        src1: a plain Vec tile of its type and valid region
        src2: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tsubrelu(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Subtract two tiles, replace negative numbers by zero.

        dst = relu(src0 - src1)

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of its type and valid region
        src1: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tsubreluconv(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """Subtract two tiles, replace negative numbers by zero, and convert.

        dst = relu(src0 - src1) in dst's type    rounded in src's type; then to the nearest, ties to even; clamped

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of its type and valid region
        src1: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def tsubs(dst: Tile, src: Tile, scalar: float, *, wait: Wait = None) -> Event:
    """Subtract a scalar from a tile.

        dst = src - scalar    integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        wait: events that earlier calls returned, to wait for
    """

def tsubsc(dst: Tile, src0: Tile, scalar: float, src1: Tile, *, wait: Wait = None) -> Event:
    """Add or subtract, and add a tile.

        dst = src0 - scalar + src1    each step is rounded, and integers wrap

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a plain Vec tile of its type and valid region
        scalar: a number, held in the destination's type
        src1: a plain Vec tile of its type and valid region
        wait: events that earlier calls returned, to wait for
    """

def ttrans(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Transpose a tile.

        dst[j, i] = src[i, j]    over the source's valid region

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a plain Vec tile of the destination's type
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def ttri(dst: Tile, diagonal: float, *, half: str | Triangle = Triangle.Lower, wait: Wait = None) -> Event:
    """Ones on one side of a diagonal, zeroes on the other.

        dst[i, j] = j <= i + diagonal, or for the upper half j >= i + diagonal

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        diagonal: a number: the column of row 0 that is on the diagonal
        half: the half that is filled with ones: lower | upper (default: lower)
        wait: events that earlier calls returned, to wait for
    """

def txor(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Bitwise exclusive or of two tiles.

        dst = src0 ^ src1

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src0: a Vec tile of the destination's type and valid region
        src1: a Vec tile of the destination's type and valid region
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """

def txors(dst: Tile, src: Tile, scalar: float, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """Bitwise exclusive or with a scalar.

        dst = src ^ scalar

    Args:
        dst: destination: a plain Vec tile; its valid region is computed
        src: a Vec tile of the destination's type and valid region
        scalar: a number, held in the destination's type
        tmp: temporary memory, used on a2a3
        wait: events that earlier calls returned, to wait for
    """
