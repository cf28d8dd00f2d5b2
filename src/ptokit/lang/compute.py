"""Eager compute: arithmetic, comparison, conversion, reduction and the cube, one call each."""

from __future__ import annotations

from types import FunctionType

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.policy import CmpMode, Dividend, IotaOrder, RoundMode, Saturation
from ptokit.lang.dispatch import Event, Operand, Wait, execute
from ptokit.lang.faults import public
from ptokit.lang.scalar import Scalar, corner, scalar
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile

Number = float
"""A Python or NumPy number."""


def _run(
    name: str, *operands: Operand, wait: Wait, modifiers: tuple[object, ...] = (), tmp: Tile | None = None
) -> Event:
    return execute(INSTRUCTIONS[name], operands, modifiers, wait, tmp)


def _number(name: str, value: object, tile: Tile) -> Scalar:
    """A number in a tile's element type."""
    if not isinstance(tile, Tile | GlobalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{name} takes a pto.Tile, got {type(tile).__name__}")
    return scalar(value, tile.dtype, f"{name} on {tile.dtype}")


def _with_number(name: str, dst: Tile, src: Tile, number: object, wait: Wait) -> Event:
    return _run(name, dst, src, _number(name, number, dst), wait=wait)


def tadd(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 + src1`; integers wrap."""
    return _run("tadd", dst, src0, src1, wait=wait)


def tsub(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 - src1`; integers wrap."""
    return _run("tsub", dst, src0, src1, wait=wait)


def tmul(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 * src1`; integers wrap."""
    return _run("tmul", dst, src0, src1, wait=wait)


def tdiv(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 / src1`; floats by IEEE, integers towards zero and never by zero."""
    return _run("tdiv", dst, src0, src1, wait=wait)


def tmax(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src1 if src1 > src0 else src0`: the first operand wins ties and meets with a NaN."""
    return _run("tmax", dst, src0, src1, wait=wait)


def tmin(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src1 if src1 < src0 else src0`: the first operand wins ties and meets with a NaN."""
    return _run("tmin", dst, src0, src1, wait=wait)


def tand(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 & src1`, bit by bit."""
    return _run("tand", dst, src0, src1, wait=wait)


def tor(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 | src1`, bit by bit."""
    return _run("tor", dst, src0, src1, wait=wait)


def tshl(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 << src1`; 0 for counts of the type's width and more."""
    return _run("tshl", dst, src0, src1, wait=wait)


def tshr(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 >> src1`; the sign, 0 if unsigned, for counts of the type's width and more."""
    return _run("tshr", dst, src0, src1, wait=wait)


def tadds(dst: Tile, src: Tile, scalar: Number, *, wait: Wait = None) -> Event:
    """`dst = src + scalar`; integers wrap."""
    return _with_number("tadds", dst, src, scalar, wait)


def tsubs(dst: Tile, src: Tile, scalar: Number, *, wait: Wait = None) -> Event:
    """`dst = src - scalar`; integers wrap."""
    return _with_number("tsubs", dst, src, scalar, wait)


def tmuls(dst: Tile, src: Tile, scalar: Number, *, wait: Wait = None) -> Event:
    """`dst = src * scalar`; integers wrap."""
    return _with_number("tmuls", dst, src, scalar, wait)


def tmaxs(dst: Tile, src: Tile, scalar: Number, *, wait: Wait = None) -> Event:
    """`dst = scalar if scalar > src else src`."""
    return _with_number("tmaxs", dst, src, scalar, wait)


def tmins(dst: Tile, src: Tile, scalar: Number, *, wait: Wait = None) -> Event:
    """`dst = scalar if scalar < src else src`."""
    return _with_number("tmins", dst, src, scalar, wait)


def tands(dst: Tile, src: Tile, scalar: Number, *, wait: Wait = None) -> Event:
    """`dst = src & scalar`, bit by bit."""
    return _with_number("tands", dst, src, scalar, wait)


def tors(dst: Tile, src: Tile, scalar: Number, *, wait: Wait = None) -> Event:
    """`dst = src | scalar`, bit by bit."""
    return _with_number("tors", dst, src, scalar, wait)


def tshls(dst: Tile, src: Tile, scalar: Number, *, wait: Wait = None) -> Event:
    """`dst = src << scalar`; 0 for counts of the type's width and more."""
    return _with_number("tshls", dst, src, scalar, wait)


def tshrs(dst: Tile, src: Tile, scalar: Number, *, wait: Wait = None) -> Event:
    """`dst = src >> scalar`; the sign, 0 if unsigned, for counts of the type's width and more."""
    return _with_number("tshrs", dst, src, scalar, wait)


def tdivs(dst: Tile, dividend: Tile | Number, divisor: Tile | Number, *, wait: Wait = None) -> Event:
    """`dst = dividend / divisor`, of which one is a tile and the other a number; integers towards zero."""
    if isinstance(dividend, Tile | GlobalTensor):
        return _run("tdivs", dst, dividend, _number("tdivs", divisor, dst), modifiers=(Dividend.Tile,), wait=wait)
    if not isinstance(divisor, Tile | GlobalTensor):
        raise TypeError(f"tdivs takes a tile and a number, got {dividend!r} and {divisor!r}")
    return _run("tdivs", dst, divisor, _number("tdivs", dividend, dst), modifiers=(Dividend.Scalar,), wait=wait)


def tabs(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """`dst = |src|`; the lowest integer stays itself."""
    return _run("tabs", dst, src, wait=wait)


def tneg(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """`dst = -src`; integers wrap."""
    return _run("tneg", dst, src, wait=wait)


def texp(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """`dst = e ** src`, within 2 ulp."""
    return _run("texp", dst, src, wait=wait)


def tlog(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """`dst = ln(src)`, within 2 ulp."""
    return _run("tlog", dst, src, wait=wait)


def tsqrt(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """`dst = sqrt(src)`, correctly rounded."""
    return _run("tsqrt", dst, src, wait=wait)


def trecip(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """`dst = 1 / src`, correctly rounded."""
    return _run("trecip", dst, src, wait=wait)


def texpands(dst: Tile, scalar: Number, *, wait: Wait = None) -> Event:
    """`dst = scalar` over the valid region; a Mat tile is filled whole."""
    return _run("texpands", dst, _number("texpands", scalar, dst), wait=wait)


def tci(dst: Tile, start: Number, *, descending: bool = False, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst[0, j] = start + j`, or `start - j`; integers wrap."""
    order = IotaOrder.Descending if descending else IotaOrder.Ascending
    return _run("tci", dst, _number("tci", start, dst), modifiers=(order,), wait=wait, tmp=tmp)


def tcvt(
    dst: Tile,
    src: Tile,
    round: str | RoundMode = RoundMode.Rint,
    saturation: str | Saturation | None = None,
    *,
    tmp: Tile | None = None,
    wait: Wait = None,
) -> Event:
    """Convert to `dst`'s element type.

    Floats become integers by the round mode and floats to nearest even; a conversion of a float type to itself rounds
    to whole numbers. Saturation clamps to `dst`'s finite range; without it integers wrap. By default it is off for
    float16 to uint8, int8 and int16, float32 to int16, int64 to int32 and int32 to int16, and on for all others.
    """
    return _run("tcvt", dst, src, modifiers=(round, saturation), wait=wait, tmp=tmp)


def tcmp(dst: Tile, src0: Tile, src1: Tile, mode: str | CmpMode = CmpMode.EQ, *, wait: Wait = None) -> Event:
    """Compare two tiles into packed bits: bit k of byte j of a row of `dst` stands for column 8j + k."""
    return _run("tcmp", dst, src0, src1, modifiers=(mode,), wait=wait)


def tcmps(dst: Tile, src: Tile, scalar: Number, mode: str | CmpMode = CmpMode.EQ, *, wait: Wait = None) -> Event:
    """Compare a tile with a number into packed bits, as `tcmp`."""
    return _run("tcmps", dst, src, _number("tcmps", scalar, src), modifiers=(mode,), wait=wait)


def tsel(dst: Tile, mask: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst = src0` where the mask's bit is 1, else `src1`."""
    return _run("tsel", dst, mask, src0, src1, wait=wait, tmp=tmp)


def tsels(dst: Tile, mask: Tile, src: Tile, scalar: Number, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst = src` where the mask's bit is 1, else the number."""
    return _run("tsels", dst, mask, src, _number("tsels", scalar, dst), wait=wait, tmp=tmp)


def trowsum(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst[i, 0] = src[i, 0] + src[i, 1] + ...` in this order, in float32, rounded once; integers wrap."""
    return _run("trowsum", dst, src, wait=wait, tmp=tmp)


def trowmax(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst[i, 0]` = the largest of `src[i, :]`; a leading NaN stays, a later one loses."""
    return _run("trowmax", dst, src, wait=wait, tmp=tmp)


def trowmin(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst[i, 0]` = the smallest of `src[i, :]`; a leading NaN stays, a later one loses."""
    return _run("trowmin", dst, src, wait=wait, tmp=tmp)


def ttrans(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst[j, i] = src[i, j]` over the source's valid region."""
    return _run("ttrans", dst, src, wait=wait, tmp=tmp)


def trowexpandmul(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst = src0 * src1`, where one source has one number a row: a ColMajor column, or a 32-byte block a row."""
    return _run("trowexpandmul", dst, src0, src1, wait=wait, tmp=tmp)


def trowexpandsub(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst = src0 - src1`, where one source has one number a row: a ColMajor column, or a 32-byte block a row."""
    return _run("trowexpandsub", dst, src0, src1, wait=wait, tmp=tmp)


def trowexpanddiv(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst = src0 / src1`, where one source has one number a row: a ColMajor column, or a 32-byte block a row."""
    return _run("trowexpanddiv", dst, src0, src1, wait=wait, tmp=tmp)


def trowexpand(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """`dst[i, j] = src[i, 0]`: a column repeated."""
    return _run("trowexpand", dst, src, wait=wait)


def trowexpandadd(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst = src0 + src1`, where one source has one number a row: a ColMajor column, or a 32-byte block a row."""
    return _run("trowexpandadd", dst, src0, src1, wait=wait, tmp=tmp)


def trowexpandmax(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst = src1 if src1 > src0 else src0`, where one source has one number a row."""
    return _run("trowexpandmax", dst, src0, src1, wait=wait, tmp=tmp)


def trowexpandmin(dst: Tile, src0: Tile, src1: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst = src1 if src1 < src0 else src0`, where one source has one number a row."""
    return _run("trowexpandmin", dst, src0, src1, wait=wait, tmp=tmp)


def tcolsum(dst: Tile, src: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst[0, j] = src[0, j] + src[1, j] + ...` in this order, in float32, rounded once; integers wrap."""
    return _run("tcolsum", dst, src, wait=wait, tmp=tmp)


def tcolmax(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """`dst[0, j]` = the largest of `src[:, j]`; a leading NaN stays, a later one loses."""
    return _run("tcolmax", dst, src, wait=wait)


def tcolmin(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """`dst[0, j]` = the smallest of `src[:, j]`; a leading NaN stays, a later one loses."""
    return _run("tcolmin", dst, src, wait=wait)


def tcolexpand(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """`dst[i, j] = src[0, j]`: a row repeated."""
    return _run("tcolexpand", dst, src, wait=wait)


def tcolexpandadd(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 + src1`, where one source is a row: one number a column."""
    return _run("tcolexpandadd", dst, src0, src1, wait=wait)


def tcolexpandsub(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 - src1`, where one source is a row: one number a column."""
    return _run("tcolexpandsub", dst, src0, src1, wait=wait)


def tcolexpandmul(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 * src1`, where one source is a row: one number a column."""
    return _run("tcolexpandmul", dst, src0, src1, wait=wait)


def tcolexpanddiv(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src0 / src1`, where one source is a row: one number a column."""
    return _run("tcolexpanddiv", dst, src0, src1, wait=wait)


def tcolexpandmax(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src1 if src1 > src0 else src0`, where one source is a row: one number a column."""
    return _run("tcolexpandmax", dst, src0, src1, wait=wait)


def tcolexpandmin(dst: Tile, src0: Tile, src1: Tile, *, wait: Wait = None) -> Event:
    """`dst = src1 if src1 < src0 else src0`, where one source is a row: one number a column."""
    return _run("tcolexpandmin", dst, src0, src1, wait=wait)


def tgather(dst: Tile, src: Tile, idx: Tile, *, tmp: Tile | None = None, wait: Wait = None) -> Event:
    """`dst[i, j] = src.element[idx[i, j]]`, where element `r * cols + c` is `src[r, c]`."""
    return _run("tgather", dst, src, idx, wait=wait, tmp=tmp)


def tmatmul(dst: Tile, a: Tile, b: Tile, *, wait: Wait = None) -> Event:
    """`dst = a @ b`: Left and Right tiles into an Acc tile, summed in float32 (int32 for int8)."""
    return _run("tmatmul", dst, a, b, wait=wait)


def tmatmul_acc(dst: Tile, acc: Tile, a: Tile, b: Tile, *, wait: Wait = None) -> Event:
    """`dst = acc + a @ b`; `acc` may be `dst` itself."""
    return _run("tmatmul_acc", dst, acc, a, b, wait=wait)


def tmatmul_bias(dst: Tile, a: Tile, b: Tile, bias: Tile, *, wait: Wait = None) -> Event:
    """`dst = a @ b + bias`, the Bias tile's one row added to every row."""
    return _run("tmatmul_bias", dst, a, b, bias, wait=wait)


def textract(dst: Tile, src: Tile, row: int = 0, col: int = 0, *, wait: Wait = None) -> Event:
    """`dst[i, j] = src[row + i, col + j]`: Mat to Left or Right, Acc to Mat, Vec to Vec."""
    return _run("textract", dst, src, corner(row, "row"), corner(col, "col"), wait=wait)


for _name, _call in [*globals().items()]:
    if isinstance(_call, FunctionType) and _call.__module__ == __name__ and not _name.startswith("_"):
        globals()[_name] = public(_call)
