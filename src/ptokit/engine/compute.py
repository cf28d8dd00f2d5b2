"""What each computing operation means, in NumPy: one function for each name that `Compute` carries. And how values are
combined into cells: with the exact results of A-16, in program order.

Integers wrap. Floats of 16 bits and less are computed in float32 and rounded once, which is the correctly rounded
result for `+ - * / sqrt`. A NaN that an operation makes is the canonical quiet one; selecting and copying keep bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import ml_dtypes
import numpy as np

from ptokit.engine.storage import Array
from ptokit.isa.dtype import DType
from ptokit.isa.move import UNSPECIFIED, Combine
from ptokit.isa.policy import CmpMode, HistByte, IotaOrder, MergeEnd, ReluMode, RoundMode, Saturation, Triangle

Shape = tuple[int, int]
Op = Callable[..., Array]
"""Takes the region's shape, the destination's type, the inputs and the options; returns the region's new values."""


SORTED = 32
"""Columns that are sorted together."""


class ZeroDivisor(Exception):
    """An integer divisor that is zero: which input, the first lane, and how many there are."""

    def __init__(self, position: int, zeroes: Array) -> None:
        self.position = position
        self.lane = tuple(int(k) for k in np.unravel_index(int(np.argmax(zeroes)), zeroes.shape))
        self.count = int(zeroes.sum())


def _wide(values: Array) -> Array:
    """Small floats as float32, anything else as it is."""
    small = values.dtype.itemsize < 4 and values.dtype.kind not in "iub"
    return values.astype(np.float32) if small else values


def _rounded(values: Array, dtype: DType) -> Array:
    """Results in their type, NaNs canonical."""
    out = values.astype(dtype.numpy)
    return np.where(np.isnan(out), np.array(np.nan, dtype.numpy), out) if dtype.is_float else out


def _arithmetic(function: Callable[..., Array], _shape: Shape, dtype: DType, *inputs: Array) -> Array:
    """An operation of NumPy, rounded once."""
    return _rounded(function(*map(_wide, inputs)), dtype)


def _transcendental(function: Callable[[Array], Array], _shape: Shape, dtype: DType, x: Array) -> Array:
    """Through float64, which leaves the result well within one ulp."""
    return _rounded(function(x.astype(np.float64)), dtype)


def _divide(a: Array, b: Array) -> Array:
    """Floats by IEEE; integers towards zero, never by zero."""
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    if (b == 0).any():
        raise ZeroDivisor(1, b == 0)
    quotient = a // b
    inexact = (quotient * b != a) & ((a < 0) != (b < 0))
    return quotient + inexact.astype(quotient.dtype)


def _remainder(function: Callable[..., Array], a: Array, b: Array) -> Array:
    """Floats by IEEE; integers never by zero."""
    if a.dtype.kind in "iu" and (b == 0).any():
        raise ZeroDivisor(1, b == 0)
    return function(a, b)


def _power(_shape: Shape, dtype: DType, base: Array, exponent: Array) -> Array:
    """Floats through float64; integers wrap, and are truncated for an exponent below zero."""
    if not dtype.is_integer:
        return _rounded(np.power(base.astype(np.float64), exponent.astype(np.float64)), dtype)
    base, exponent = np.broadcast_arrays(base, exponent)
    result, factor, left = np.ones_like(base), base.copy(), exponent.astype(np.int64).view(np.uint64)
    for _ in range(8 * dtype.size):
        result = np.where(left & 1, result * factor, result)
        factor, left = factor * factor, left >> 1
    inverse = np.where(base == 1, 1, np.where(base.astype(np.int64) == -1, 1 - 2 * (exponent % 2), 0))
    return np.where(exponent < 0, inverse, result).astype(dtype.numpy)


def _merge(shape: Shape, dtype: DType, *lists: Array, end: MergeEnd) -> Array:
    """Take the first list's pair unless that of a later one is greater, until the region is full or a list may end."""
    width = 8 // dtype.size
    pairs = [each.reshape(-1, width) for each in lists]
    keys = [_wide(each[:, 0]).tolist() for each in pairs]
    taken, order = [0] * len(lists), list[tuple[int, int]]()
    while len(order) < shape[1] // width:
        best = -1
        for k, own in enumerate(keys):
            if taken[k] < len(own) and (best < 0 or own[taken[k]] > keys[best][taken[best]]):
                best = k
        order.append((best, taken[best]))
        taken[best] += 1
        if end is MergeEnd.Exhausted and any(used == len(own) for used, own in zip(taken, keys, strict=True)):
            break
    merged = _unspecified(shape, dtype).reshape(-1, width)
    for place, (k, at) in enumerate(order):
        merged[place] = pairs[k][at]
    return merged.reshape(shape)


def _quantise(_shape: Shape, dtype: DType, x: Array, scale: Array, *offsets: Array) -> Array:
    """The product and the sum are rounded to float32; the nearest integer, clamped."""
    scaled = x * scale
    for offset in offsets:
        scaled = scaled + offset
    return _float_to_integer(dtype, np.rint(scaled.astype(np.float64)), saturate=True)


def _reciprocal(x: Array) -> Array:
    return np.divide(x.dtype.type(1), x)


def _rectify(_shape: Shape, dtype: DType, x: Array) -> Array:
    """Zero where a number is below it, else the number."""
    return np.where(_wide(x) < 0, dtype.numpy.type(0), x)


def _leak(_shape: Shape, dtype: DType, x: Array, slope: Array) -> Array:
    """The number where it is above zero, else its product with the slope."""
    return np.where(_wide(x) > 0, x, _rounded(_wide(x) * _wide(slope), dtype))


def _reciprocal_root(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def _add_multiple(_shape: Shape, dtype: DType, y: Array, x: Array, factor: Array) -> Array:
    """In the type of the result; the product is rounded, then the sum."""
    product = _rounded(_wide(x.astype(dtype.numpy)) * _wide(factor.astype(dtype.numpy)), dtype)
    return _rounded(_wide(y) + _wide(product), dtype)


def _then_added(function: Callable[..., Array], shape: Shape, dtype: DType, a: Array, b: Array, c: Array) -> Array:
    """The result of an operation and another number; both steps are rounded."""
    return _arithmetic(np.add, shape, dtype, _arithmetic(function, shape, dtype, a, b), c)


def _rectified(function: Op, shape: Shape, dtype: DType, *inputs: Array) -> Array:
    """Zero where the result of an operation is below it."""
    return _rectify(shape, dtype, function(shape, dtype, *inputs))


def _rectified_as(function: Callable[..., Array], shape: Shape, dtype: DType, a: Array, b: Array) -> Array:
    """The same in the type of the inputs, converted then."""
    made = _wide(function(_wide(a), _wide(b)).astype(a.dtype))
    return _convert(shape, dtype, np.maximum(made, 0), mode=RoundMode.Rint, saturation=Saturation.On)


def _scaled_sum(shape: Shape, dtype: DType, a: Array, b: Array, scale: Array) -> Array:
    """The sum wraps; it and its product are rounded to float32."""
    product = (a + b).astype(np.float32) * scale
    return _convert(shape, dtype, np.maximum(product, 0), mode=RoundMode.Rint, saturation=Saturation.On)


def _place(better: Callable[[Array, Array], Array], _shape: Shape, _dtype: DType, *inputs: Array) -> Array:
    """The second place where the second value is strictly better, else the first."""
    a, b, first, second = inputs
    return np.where(better(_wide(b), _wide(a)), second, first)


def _histogram(shape: Shape, dtype: DType, x: Array, *filters: Array, byte: HistByte) -> Array:
    """How many elements of a row have at most each value in a byte, of those whose higher bytes are the filters."""
    high = x.dtype.itemsize - 1
    counted = np.ones(x.shape, bool)
    for k, own in enumerate(range(high, byte.value, -1)):
        wanted = filters[0] if high == 1 else filters[0][k, 0]
        counted &= (x >> 8 * own & 0xFF) == wanted
    values = np.where(counted, x >> 8 * byte.value & 0xFF, shape[1])
    counts = [np.bincount(row, minlength=shape[1])[: shape[1]].cumsum() for row in values]
    return np.array(counts, dtype.numpy)


def _image_to_columns(shape: Shape, dtype: DType, image: Array, *given: Array) -> Array:
    """Row m is the m-th place of a filter, column k its k-th weight: by blocks of channels, rows, columns, channels.
    Places behind the last one, and weights of no channel, have the value around the image. Numbers have 16 bits."""
    m, k, height, width, left, right, top, bottom, *steps, filter_h, filter_w, channels = (
        int(x[0, 0].astype(np.int64)) & 0xFFFF for x in given[:-1]
    )
    stride_h, stride_w, dilation_h, dilation_w = (max(step, 1) for step in steps)
    block = 32 // dtype.size
    down = (height + top + bottom - dilation_h * (filter_h - 1) - 1) // stride_h + 1
    across = (width + left + right - dilation_w * (filter_w - 1) - 1) // stride_w + 1
    place_h, place_w = np.divmod(m + np.arange(shape[0])[:, None], max(across, 1))
    rest, channel = np.divmod(k + np.arange(shape[1])[None], block)
    rest, weight_w = np.divmod(rest, max(filter_w, 1))
    of_channels, weight_h = np.divmod(rest, max(filter_h, 1))
    i = place_h * stride_h + weight_h * dilation_h - top
    j = place_w * stride_w + weight_w * dilation_w - left
    inside = (i >= 0) & (i < height) & (j >= 0) & (j < width) & (place_h < down) & (of_channels * block < channels)
    offsets = np.where(inside, ((of_channels * height + i) * width + j) * block + channel, 0)
    stored = np.append(image.reshape(-1), _unspecified((1, 1), dtype))
    return np.where(inside, stored[np.minimum(offsets, image.size)], given[-1].astype(dtype.numpy))


def _groups(shape: Shape, x: Array, *, nv: bool) -> tuple[Array, Array]:
    """Elements in groups of one row, and the exponent that each group shares, with its bias: that of the largest
    element less that of 448, or by `nv` that of the least power which brings this to 448 or below."""
    groups = x.astype(np.float32).reshape(shape[0], -1, 32)
    most = np.abs(groups).max(axis=2) * np.float32(1 / np.float32(448) if nv else 1)
    bits: Array = most.view(np.uint32).astype(np.int64)
    exponent: Array = bits >> 23
    mantissa: Array = bits & (1 << 23) - 1
    if nv:
        is_above = np.where(exponent > 0, (mantissa > 0) & (exponent < 254), mantissa > 1 << 22)
        shared = np.where(is_above, exponent + 1, np.minimum(exponent, 254))
    else:
        shared = np.maximum(exponent - 8, 0)
    return groups, np.where(np.isnan(most), 255, shared)


def _powers(shape: Shape, dtype: DType, x: Array, *, nv: bool) -> Array:
    """The exponents of groups, in bytes."""
    return _groups(shape, x, nv=nv)[1].astype(np.uint8).view(dtype.numpy)


def _scaled(shape: Shape, dtype: DType, x: Array, *, nv: bool) -> Array:
    """Elements divided by the powers of their groups, rounded to float32, then to the result; clamped."""
    groups, shared = _groups(shape, x, nv=nv)
    factors = np.where(shared == 255, np.nan, np.exp2(127.0 - shared))[..., None].astype(np.float32)
    made = (groups * factors).reshape(shape)
    return _convert(shape, dtype, made, mode=RoundMode.Rint, saturation=Saturation.On)


def _pick(better: Callable[[Array, Array], Array], _shape: Shape, _dtype: DType, a: Array, b: Array) -> Array:
    """`b` where it is strictly better, else `a`: so `a` wins ties and every comparison with a NaN."""
    return np.where(better(_wide(b), _wide(a)), b, a)


def _row_best(better: Callable[[Array, Array], Array], shape: Shape, dtype: DType, x: Array) -> Array:
    """From the first column on: a later element replaces the best so far only where it is strictly better."""
    best = x[:, :1]
    for j in range(1, x.shape[1]):
        best = _pick(better, shape, dtype, best, x[:, j : j + 1])
    return best


def _row_sum(_shape: Shape, dtype: DType, x: Array) -> Array:
    """In ascending column order, float32 inside, rounded once."""
    wide = _wide(x)
    return _rounded(np.add.accumulate(wide, axis=1, dtype=wide.dtype)[:, -1:], dtype)


def _row_product(shape: Shape, dtype: DType, x: Array) -> Array:
    """In ascending column order, every product rounded to the type."""
    total = _rounded(x[:, :1], dtype)
    for j in range(1, x.shape[1]):
        total = _arithmetic(np.multiply, shape, dtype, total, x[:, j : j + 1])
    return total


def _row_position(better: Callable[[Array, Array], Array], _shape: Shape, dtype: DType, x: Array) -> Array:
    """The column of the best element: the first of equal ones."""
    best, position = _wide(x[:, :1]), np.zeros((x.shape[0], 1), dtype.numpy)
    for j in range(1, x.shape[1]):
        element = _wide(x[:, j : j + 1])
        is_better = better(element, best)
        best, position = np.where(is_better, element, best), np.where(is_better, dtype.numpy.type(j), position)
    return position


def _by_column(of_rows: Op, shape: Shape, dtype: DType, x: Array) -> Array:
    """A reduction of rows, applied to columns: in ascending row order."""
    return of_rows(shape[::-1], dtype, x.T).T


def _shift(_shape: Shape, dtype: DType, a: Array, count: Array, *, left: bool) -> Array:
    """A count is unsigned; one of the type's width or more shifts every bit out, a right shift leaving the sign."""
    width = 8 * dtype.size
    steps = count.view(dtype.bits)
    inside = np.minimum(steps, dtype.bits.type(width - 1))
    if left:
        return np.where(steps < width, a.view(dtype.bits) << inside, dtype.bits.type(0)).view(dtype.numpy)
    shifted = a >> inside.astype(dtype.numpy)
    return shifted if dtype.family == "int" else np.where(steps < width, shifted, dtype.numpy.type(0))


def _iota(shape: Shape, dtype: DType, start: Array, *, order: IotaOrder) -> Array:
    steps = np.arange(shape[1])[None, :]
    signed = -steps if order is IotaOrder.Descending else steps
    return _rounded(_wide(start) + signed.astype(_wide(start).dtype), dtype)


def _triangle(shape: Shape, dtype: DType, diagonal: Array, *, half: Triangle) -> Array:
    """Ones on the diagonal and on one side of it, zeroes on the other."""
    beyond = np.arange(shape[1])[None, :] - np.arange(shape[0])[:, None] - int(diagonal[0, 0])
    return (beyond >= 0 if half is Triangle.Upper else beyond <= 0).astype(dtype.numpy)


COMPARISONS = {
    CmpMode.EQ: np.equal,
    CmpMode.NE: np.not_equal,
    CmpMode.LT: np.less,
    CmpMode.LE: np.less_equal,
    CmpMode.GT: np.greater,
    CmpMode.GE: np.greater_equal,
}


def _compare(shape: Shape, dtype: DType, a: Array, b: Array, *, mode: CmpMode) -> Array:
    """One bit a column, the lowest first; the rest of the mask's row is zero."""
    packed = np.packbits(COMPARISONS[mode](_wide(a), _wide(b)), axis=1, bitorder="little")
    mask = np.zeros((shape[0], shape[1] * dtype.size), np.uint8)
    mask[:, : packed.shape[1]] = packed
    return mask.view(dtype.numpy)


def _select(shape: Shape, _dtype: DType, mask: Array, a: Array, b: Array) -> Array:
    bits = np.unpackbits(mask.view(np.uint8), axis=1, bitorder="little", count=shape[1])
    return np.where(bits.astype(bool), a, b)


def _sort_blocks(shape: Shape, dtype: DType, values: Array, numbers: Array) -> Array:
    """Pairs of a value and a number, 32 at a time: the larger value first, of equal ones the smaller number."""
    rows, cols = values.shape  # NumPy puts NaNs last
    numbers = np.ascontiguousarray(numbers[:, :cols])
    order = np.empty((rows, cols), np.intp)
    for start in range(0, cols, SORTED):
        end = min(start + SORTED, cols)
        keys = numbers[:, start:end], -_wide(values[:, start:end])
        order[:, start:end] = start + np.lexsort(keys, axis=-1)
    pairs = np.zeros((rows, cols, 8), np.uint8)
    pairs[..., : dtype.size] = np.take_along_axis(values, order, 1).view(np.uint8).reshape(rows, cols, -1)
    pairs[..., 4:] = np.take_along_axis(numbers, order, 1).view(np.uint8).reshape(rows, cols, -1)
    return pairs.reshape(rows, -1).view(dtype.numpy).reshape(shape)


def _window(shape: Shape, _dtype: DType, x: Array, *, row: int, col: int) -> Array:
    return np.ascontiguousarray(x[row : row + shape[0], col : col + shape[1]])


def _copy(_shape: Shape, _dtype: DType, x: Array) -> Array:
    return x


def _matmul(_shape: Shape, dtype: DType, a: Array, b: Array, *more: Array) -> Array:
    """float32 inside; int8 by way of float64, which holds every sum of 4095 products exactly."""
    if dtype.is_integer:
        product = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(dtype.numpy)
    else:
        product = a.astype(np.float32) @ b.astype(np.float32)
    for addend in more:
        product = product + addend
    return _rounded(product, dtype)


def _matmul_mx(
    _shape: Shape, dtype: DType, a: Array, a_scale: Array, b: Array, b_scale: Array, *more: Array, group: int
) -> Array:
    """In float64, rounded once to float32; a scale counts for `group` elements along k."""
    k = a.shape[1]
    left = a.astype(np.float64) * np.repeat(a_scale.astype(np.float64), group, axis=1)[:, :k]
    right = b.astype(np.float64) * np.repeat(b_scale.astype(np.float64), group, axis=0)[:k]
    product = (left @ right).astype(np.float32)
    for addend in more:
        product = product + addend
    return _rounded(product, dtype)


def _odd(x: Array) -> Array:
    """The odd one of the two neighbours, unless exact."""
    low = np.floor(x)
    return np.where((low == x) | (np.mod(low, 2) == 1), low, low + 1)


def _away(x: Array) -> Array:
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)


ROUNDINGS: dict[RoundMode, Callable[[Array], Array]] = {
    RoundMode.NONE: np.trunc,
    RoundMode.Rint: np.rint,
    RoundMode.Round: _away,
    RoundMode.Floor: np.floor,
    RoundMode.Ceil: np.ceil,
    RoundMode.Trunc: np.trunc,
    RoundMode.Odd: _odd,
}


def _convert(_shape: Shape, dtype: DType, x: Array, *, mode: RoundMode, saturation: Saturation) -> Array:
    """Clamp under saturation, round to an integer if the destination is one, then take the destination's type."""
    saturate = saturation is Saturation.On
    if x.dtype.kind in "iu":
        return _from_integer(dtype, x, saturate)
    if not dtype.is_integer:
        return _to_float(dtype, x, mode, saturate)
    return _float_to_integer(dtype, ROUNDINGS[mode](x.astype(np.float64)), saturate)


OFFSET, SIGNED = np.uint64(37), np.uint64(46)
"""Bits of a factor's word: the first bit of the 9-bit offset, and the bit that makes the result signed."""


def _fixpipe(_shape: Shape, dtype: DType, x: Array, *words: Array, relu: ReluMode, whole: bool) -> Array:
    """What leaves an accumulator: multiplied by a factor, rectified, converted to the nearest."""
    if not words:
        return _rounded(np.where(x < 0, x.dtype.type(0), x), dtype)
    word = words[0].view(np.uint64)
    kept = np.uint32(0xFFFFFFFF if whole else 0xFFFFE000)
    factor = (word.astype(np.uint32) & kept).view(np.float32)
    product = x.astype(np.float32) * factor
    made = _quantised(dtype, product, word) if dtype.is_integer else _clipped(dtype, product)
    return np.where(_wide(made) < 0, dtype.numpy.type(0), made) if relu is ReluMode.Relu else made


def _quantised(dtype: DType, product: Array, word: Array) -> Array:
    """Rounded to 9 bits, plus the offset, clamped to the range that the word names; a NaN becomes zero."""
    nine = np.rint(np.clip(np.where(np.isnan(product), np.float32(0), product), -256, 255)).astype(np.int64)
    sum_ = nine + (word >> OFFSET & np.uint64(0x1FF)).astype(np.int64)
    is_signed = (word >> SIGNED & np.uint64(1)).astype(bool)
    return np.where(is_signed, np.clip(sum_, -128, 127), np.clip(sum_, 0, 255)).astype(dtype.numpy)


def _clipped(dtype: DType, product: Array) -> Array:
    """At most the largest finite number."""
    return _rounded(np.clip(product, -largest(dtype.numpy), largest(dtype.numpy)), dtype)


def largest(kind: np.dtype[Any]) -> float:
    """The largest finite number of a float type."""
    return float(cast("Any", ml_dtypes.finfo(kind)).max)


def _from_integer(dtype: DType, x: Array, saturate: bool) -> Array:
    if not dtype.is_integer:
        limit = largest(dtype.numpy)
        return (np.clip(x.astype(np.float64), -limit, limit) if saturate and limit < 2.0**63 else x).astype(dtype.numpy)
    if not saturate:
        return x.astype(dtype.numpy)
    result, source = np.iinfo(dtype.numpy), np.iinfo(x.dtype)
    return np.clip(x, max(result.min, source.min), min(result.max, source.max)).astype(dtype.numpy)


def _to_float(dtype: DType, x: Array, mode: RoundMode, saturate: bool) -> Array:
    """To the nearest, ties to even; a conversion to the type itself rounds to whole numbers instead."""
    wide = _wide(x)
    if x.dtype == dtype.numpy:
        return x if mode is RoundMode.NONE else _rounded(ROUNDINGS[mode](wide), dtype)
    if saturate:
        limit = min(largest(dtype.numpy), largest(x.dtype))
        wide = np.clip(wide, -limit, limit)
    return _rounded(wide, dtype)


def _float_to_integer(dtype: DType, whole: Array, saturate: bool) -> Array:
    """Whole numbers in float64, clamped or wrapped; a NaN becomes zero."""
    limits = np.iinfo(dtype.numpy)
    modulus = 2.0**64
    finite = np.where(np.isfinite(whole), whole, 0.0)
    rest = np.fmod(finite, modulus)
    rest = np.where(rest >= 2.0**63, rest - modulus, np.where(rest < -(2.0**63), rest + modulus, rest))
    wrapped = rest.astype(np.int64).astype(dtype.numpy)
    if not saturate:
        return wrapped
    low = np.where(whole < float(limits.min), dtype.numpy.type(limits.min), wrapped)
    return np.where(whole >= float(limits.max), dtype.numpy.type(limits.max), low)


def _unspecified(shape: Shape, dtype: DType, *_: Array) -> Array:
    """Every bit is set: a NaN, or -1."""
    return np.full((shape[0], shape[1] * dtype.size), 0xFF, np.uint8).view(dtype.numpy)


OPS: dict[str, Op] = {
    "add": partial(_arithmetic, np.add),
    "sub": partial(_arithmetic, np.subtract),
    "mul": partial(_arithmetic, np.multiply),
    "div": partial(_arithmetic, _divide),
    "rem": partial(_arithmetic, partial(_remainder, np.remainder)),
    "fmod": partial(_arithmetic, partial(_remainder, np.fmod)),
    "pow": _power,
    "max": partial(_pick, np.greater),
    "min": partial(_pick, np.less),
    "abs": partial(_arithmetic, np.abs),
    "neg": partial(_arithmetic, np.negative),
    "exp": partial(_transcendental, np.exp),
    "log": partial(_transcendental, np.log),
    "sqrt": partial(_arithmetic, np.sqrt),
    "recip": partial(_arithmetic, _reciprocal),
    "rsqrt": partial(_transcendental, _reciprocal_root),
    "relu": _rectify,
    "prelu": _leak,
    "axpy": _add_multiple,
    "addc": partial(_then_added, np.add),
    "subc": partial(_then_added, np.subtract),
    "axpyrelu": partial(_rectified, _add_multiple),
    "subrelu": partial(_rectified, partial(_arithmetic, np.subtract)),
    "addreluconv": partial(_rectified_as, np.add),
    "subreluconv": partial(_rectified_as, np.subtract),
    "adddeqrelu": _scaled_sum,
    "placemax": partial(_place, np.greater),
    "placemin": partial(_place, np.less),
    "histogram": _histogram,
    "img2col": _image_to_columns,
    **{f"powers_{name}": partial(_powers, nv=name == "nv") for name in ("ocp", "nv")},
    **{f"scaled_{name}": partial(_scaled, nv=name == "nv") for name in ("ocp", "nv")},
    "and": partial(_arithmetic, np.bitwise_and),
    "or": partial(_arithmetic, np.bitwise_or),
    "xor": partial(_arithmetic, np.bitwise_xor),
    "not": partial(_arithmetic, np.bitwise_not),
    "shl": partial(_shift, left=True),
    "shr": partial(_shift, left=False),
    "copy": _copy,
    "iota": _iota,
    "tri": _triangle,
    "cvt": _convert,
    "fixpipe": _fixpipe,
    "cmp": _compare,
    "sel": _select,
    "rowsum": _row_sum,
    "rowmax": partial(_row_best, np.greater),
    "rowmin": partial(_row_best, np.less),
    "rowprod": _row_product,
    "rowargmax": partial(_row_position, np.greater),
    "rowargmin": partial(_row_position, np.less),
    "colsum": partial(_by_column, _row_sum),
    "colmax": partial(_by_column, partial(_row_best, np.greater)),
    "colmin": partial(_by_column, partial(_row_best, np.less)),
    "colprod": partial(_by_column, _row_product),
    "colargmax": partial(_by_column, partial(_row_position, np.greater)),
    "colargmin": partial(_by_column, partial(_row_position, np.less)),
    "window": _window,
    "sort32": _sort_blocks,
    "merge": _merge,
    "quant": _quantise,
    "matmul": _matmul,
    "matmul_mx": _matmul_mx,
    UNSPECIFIED: _unspecified,
}
"""Every operation by name. Adding an instruction seldom needs a new one."""


# --- combining values into cells -------------------------------------------------------------------------------------


ARITHMETIC = {Combine.ADD: np.add, Combine.MUL: np.multiply}
PICKS = {Combine.MAX: np.maximum, Combine.MIN: np.minimum}


def accumulate(cells: Array, where: Array, values: Array, combine: Combine, dtype: DType) -> None:
    """`cells[where] = combine(cells[where], values)`, once for every entry, in order.

    `cells` and `values` hold bits of `dtype`; `where` selects along the first axis and may repeat.
    """
    if not where.size:
        return
    touched, lane = np.unique(where, return_inverse=True)
    old, new = cells[touched], np.ascontiguousarray(values)
    with np.errstate(all="ignore"):
        if combine in ARITHMETIC:
            cells[touched] = _compute(ARITHMETIC[combine], old, lane, new, dtype)
        elif dtype.is_float:
            cells[touched] = _pick_float(old, lane, new, combine, dtype)
        else:
            best = old.view(dtype.numpy)
            PICKS[combine].at(best, lane, new.view(dtype.numpy))
            cells[touched] = best.view(dtype.bits)


def _compute(operation: np.ufunc, old: Array, lane: Array, new: Array, dtype: DType) -> Array:
    """Integers wrap; floats round at every step; a NaN result is the canonical quiet one, in each part of a complex."""
    total = old.view(dtype.numpy)
    operation.at(total, lane, new.view(dtype.numpy))
    if dtype.is_float or dtype.family == "complex":
        parts: Array = total.view(np.real(total).dtype)
        parts[np.isnan(parts)] = np.nan
    return total.view(dtype.bits)


def _pick_float(old: Array, lane: Array, new: Array, combine: Combine, dtype: DType) -> Array:
    """The greatest or least number combined into each cell: NaNs are ignored, -0 lies below +0, ties keep any bits."""
    width = 1 if old.ndim == 1 else int(old.shape[1])
    cell = lane if old.ndim == 1 else np.add.outer(lane * width, np.arange(width))
    bits = np.concatenate([old.ravel(), new.ravel()])
    cells = np.concatenate([np.arange(old.size), cell.ravel()])
    values = bits.view(dtype.numpy).astype(np.float64 if dtype.size <= 8 else dtype.numpy)
    counts = np.flatnonzero(~np.isnan(values))
    order = counts[np.lexsort((~np.signbit(values[counts]), values[counts], cells[counts]))]
    edge = {"append": -1} if combine is Combine.MAX else {"prepend": -1}
    ends = np.flatnonzero(np.diff(cells[order], **edge))
    best = old.copy()
    best.reshape(-1)[cells[order[ends]]] = bits[order[ends]]
    return best
