# pyright: strict
"""Indices of all shapes as numbers of entries, computed where the indices are, in NumPy or in CuPy.

Then scatters with all reductions: those of engines, means, and reductions without the values that cells had.

The order of arithmetic is defined: lane after lane, each step rounded to the table's type. A mean is that sum, divided
once by the number of values; integers are rounded down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ptokit.engine.faults import IndexReport
from ptokit.engine.gpu import DeviceArray, import_cupy, on_gpu
from ptokit.isa.dtype import DType
from ptokit.isa.layout import packed
from ptokit.isa.move import Combine, Remap
from ptokit.lang import gpu
from ptokit.lang.arrays import as_array
from ptokit.ops.array_call import ArrayCall, OutsidePolicy, Reduction
from ptokit.ops.execute import Leading, check_arithmetic, check_capacity, move_gather, move_scatter, plan_scatter
from ptokit.ops.operands import Array, packed_copy, share_memory, type_of

NONE = -1
"""The number of no entry."""
MOST_NUMBERS = 1 << 20
"""Numbers of entries that are made at a time, if an index selects along an inner axis; on a GPU, all."""
GREATEST = np.iinfo(np.int64).max
WIDE = frozenset((np.dtype(np.int64), np.dtype(np.uint32)))
"""Index types whose values engines read as they are."""
MOVED = (Remap.CLAMP, Remap.WRAP)
"""Policies that move an index inside."""


@dataclass(frozen=True)
class Selection:
    """Entries that lanes name, over the first `dims` dims of a table."""

    lanes: Array
    dims: int
    remap: Remap
    shape: tuple[int, ...]
    """The shape of all lanes."""
    rows: int = 0
    """If not 0: how many rows of the table's first dim `lanes` covers; each row has the same."""

    def parts(self) -> Iterator[tuple[slice, Array]]:
        """Rows of the table's first dim, and the lanes for them."""
        extent = self.shape[0] if self.rows else 0
        for first in range(0, extent, max(1, self.rows)):
            count = min(self.rows, extent - first)
            yield slice(first, first + count), self.lanes[:count]


def plain(call: ArrayCall, lanes: Array, dims: int, table: Array, policy: OutsidePolicy) -> Selection:
    """Lanes that number entries themselves; what engines can do is left to them."""
    is_wide = lanes.dtype == np.uint64
    if lanes.dtype == np.int32 and not policy.signed:
        return Selection(lanes, dims, policy.remap, lanes.shape)
    if policy.from_end or is_wide:
        raw, found = _raw(lanes)
        values, outside = resolve(call, raw, found, prod(table.shape[:dims]), table, policy)
        return _selection(_numbered(found, values, outside), dims, policy, outside, lanes.shape)
    if lanes.dtype in WIDE:
        return Selection(lanes, dims, policy.remap, lanes.shape)
    return Selection(as_array(_raw(lanes)[0].astype(np.int64)), dims, policy.remap, lanes.shape)


def along_axis(call: ArrayCall, lanes: Array, axis: int, table: Array, policy: OutsidePolicy) -> Selection:
    """Every lane selects along an axis, for all positions before it: those positions, then the lanes."""
    raw, found = _raw(lanes)
    before, extent = table.shape[:axis], table.shape[axis]
    values, outside = resolve(call, raw, found, extent, table, policy)
    each = prod(before[1:])
    rows = before[0] if on_gpu(lanes) else min(before[0], max(1, MOST_NUMBERS // max(1, each * lanes.size)))
    starts = (found.arange(rows * each) * extent).reshape((rows, *before[1:], *(1,) * lanes.ndim))
    numbers = _numbered(found, starts + values, outside)
    whole = _selection(numbers, axis + 1, policy, outside, (*before, *lanes.shape))
    return whole if rows == before[0] else Selection(whole.lanes, whole.dims, whole.remap, whole.shape, rows)


def along_elements(call: ArrayCall, lanes: Array, axis: int, table: Array, policy: OutsidePolicy) -> Selection:
    """Every lane selects the element at its own position, except along an axis (ONNX GatherElements)."""
    raw, found = _raw(lanes)
    values, outside = resolve(call, raw, found, table.shape[axis], table, policy)
    steps = packed(table.shape)
    numbers = values * steps[axis]
    for dim, extent in enumerate(lanes.shape):
        if dim != axis:
            behind = (1,) * (lanes.ndim - dim - 1)
            numbers = numbers + (found.arange(extent) * steps[dim]).reshape((extent, *behind))
    return _selection(_numbered(found, numbers, outside), table.ndim, policy, outside, lanes.shape)


def by_coordinates(call: ArrayCall, lanes: Array, batch: int, table: Array, policy: OutsidePolicy) -> Selection:
    """The last dim of the lanes holds coordinates, behind `batch` dims that both share (ONNX GatherND)."""
    raw, found = _raw(lanes)
    shape, dims = lanes.shape[:-1], batch + lanes.shape[-1]
    values, outside = resolve(call, raw, found, table.shape[batch:dims], table, policy)
    steps = packed(table.shape[:dims])
    numbers = (values * found.asarray(np.array(steps[batch:], np.int64))).sum(axis=-1)
    for dim in range(batch):
        behind = (1,) * (len(shape) - dim - 1)
        numbers = numbers + (found.arange(shape[dim]) * steps[dim]).reshape((shape[dim], *behind))
    nowhere = None if outside is None else outside.any(axis=-1)
    return _selection(_numbered(found, numbers, nowhere), dims, policy, nowhere, shape)


def unsigned(lanes: Array) -> Array:
    """int32 lanes as the uint32 that they count as, for moves that need not warn again."""
    return as_array(found_array(_raw(lanes)[0].astype(np.int64) & 0xFFFFFFFF))


def library_of(array: Array) -> Any:
    """The library that computes where an array is: NumPy or CuPy."""
    return import_cupy() if on_gpu(array) else np


def _raw(lanes: Array) -> tuple[Any, Any]:
    """The indices as an array of NumPy or CuPy, and that library."""
    library = library_of(lanes)
    return gpu.cupy_array(lanes) if on_gpu(lanes) else lanes, library


def _numbered(found: Any, numbers: Any, outside: Any) -> Any:
    return numbers if outside is None else found.where(outside, NONE, numbers)


def _selection(numbers: Any, dims: int, policy: OutsidePolicy, outside: Any, shape: tuple[int, ...]) -> Selection:
    """Numbers that were resolved: all are inside, or those that are not are marked."""
    remap = Remap.CLAMP if outside is None else policy.remap
    return Selection(as_array(found_array(numbers)), dims, remap, shape)


def found_array(numbers: Any) -> Any:
    """An array, also where a library returned a number."""
    return np.asarray(numbers, np.int64) if np.isscalar(numbers) else numbers


def resolve_into(call: ArrayCall, out: Array, lanes: Array, capacity: int, table: Array, policy: OutsidePolicy) -> None:
    """Write the entries that lanes name to an array of int64, with `NONE` for those outside."""
    raw, found = _raw(lanes)
    values, outside = resolve(call, raw, found, capacity, table, policy)
    _raw(out)[0][...] = _numbered(found, values, outside)


def resolve(
    call: ArrayCall, raw: Any, found: Any, capacity: int | tuple[int, ...], table: Array, policy: OutsidePolicy
) -> tuple[Any, Any]:
    """Indices as int64 inside their capacity, one for all or one for each of the last dim; and which are outside.

    Raises if one is outside that must not be; warns of negative ones that count as uint32.
    """
    capacities = np.atleast_1d(np.asarray(capacity, np.int64))
    check_capacity(call, int(capacities.min(initial=GREATEST)), raw, policy.remap, table.shape)
    limits: Any = capacity if isinstance(capacity, int) else found.asarray(capacities)
    values = _wide(raw, found, limits, policy)
    if raw.dtype == np.int32 and not policy.signed and policy.remap in MOVED and (below := raw < 0).any():
        call.warn_negative(_report("negative", raw, below, capacities), raw.shape)
    if policy.from_end:
        values = values + found.where(values < 0, limits, 0)
    if policy.remap is Remap.CLAMP:
        return found.clip(values, 0, limits - 1), None
    if policy.remap is Remap.WRAP:
        return values % limits, None
    outside = (values < 0) | (values >= limits)
    if policy.remap is not Remap.REFUSE:
        return values, outside
    if outside.any():
        raise call.outside(_report("outside", raw, outside, capacities), raw.shape)
    return values, None


def _wide(raw: Any, found: Any, limits: Any, policy: OutsidePolicy) -> Any:
    """Indices as int64. An int32 is taken for an uint32 unless it has a sign; an uint64 is never taken as negative."""
    if raw.dtype == np.uint64:
        if policy.remap is Remap.WRAP:
            raw = raw % (np.uint64(limits) if isinstance(limits, int) else limits.astype(np.uint64))
        return found.minimum(raw, np.uint64(GREATEST)).astype(np.int64)
    if raw.dtype == np.int32 and not policy.signed:
        return raw.astype(np.int64) & 0xFFFFFFFF
    return raw.astype(np.int64)


def _report(kind: str, raw: Any, where: Any, capacities: Array) -> IndexReport:
    """A report on the first of some indices, and their number."""
    first = int(where.argmax())
    capacity = int(capacities[first % capacities.size])
    return IndexReport(kind, "indices", (first,), int(raw.reshape(-1)[first]), capacity, int(where.sum()))


# --- all reductions --------------------------------------------------------------------------------------------------


NUMPY_FLOATS = ("float16", "float32", "float64")
"""Floats that CuPy computes with as NumPy does."""
QUIET = 0x7FC0
"""The NaN of bfloat16 that comes out of arithmetic."""


@dataclass(frozen=True)
class Arithmetic:
    """How a scatter combines values, and what executes it."""

    call: ArrayCall
    reduction: Reduction
    include_self: bool
    conflict: object
    accumulate: object
    engine: str
    threads: int | None

    def scatter(self, target: Array, source: Array, lanes: Array, *policies: object) -> None:
        """Scatter to entries, by policies as `plan_scatter` takes them."""
        move_scatter(self.call, target, source, lanes, (self.call.name, *policies, self.engine), self.threads)


def check_type(kind: DType, how: Arithmetic) -> None:
    """Refuse reductions that a type does not have, before an index is read."""
    check_arithmetic(how.call, kind, how.reduction.combine)
    if how.reduction.is_mean and not ((kind.is_integer and kind.name != "bool") or kind.is_float):
        raise how.call.refused("A-16", f"{kind} has no mean", "convert the table to integers or floats", "table")


def reduce_into(target: Array, source: Array, named: Selection, how: Arithmetic) -> None:
    """Combine values into the entries that are named. A call that raises has written nothing."""
    lanes, combine, where = named.lanes, how.reduction.combine, (Leading(named.dims), named.remap)
    policies = *where, combine, how.conflict, how.accumulate
    keeps = combine is Combine.STORE or how.include_self
    if keeps and not how.reduction.is_mean:
        how.scatter(target, source, lanes, *policies)
        return
    plan_scatter(how.call, target, source, lanes, *policies)  # refuses before anything is written
    kind = type_of(how.call, "table", target)
    source, lanes = (packed_copy(each) if share_memory(target, each) else each for each in (source, lanes))
    quiet = unsigned(lanes) if lanes.dtype == np.int32 and named.remap in MOVED else lanes
    counts = _counted(target, quiet, named, how) if how.reduction.is_mean else None
    if not keeps:
        nothing = np.array(_nothing(combine, kind), kind.numpy)
        how.scatter(target, nothing, quiet, *where, Combine.STORE, "last", None)
    how.scatter(target, source, lanes, *policies)
    if counts is not None:
        _divide(target, kind, counts, named.dims, how)


def _nothing(combine: Combine, kind: DType) -> Any:
    """The value that a cell begins with, if its own does not count."""
    if combine.rounds:
        return combine is Combine.MUL
    if kind.is_float:  # which yields to a number
        return np.nan
    if kind.name == "bool":
        return combine is Combine.MIN
    limits = np.iinfo(kind.numpy)
    return limits.min if combine is Combine.MAX else limits.max


def _counted(target: Array, lanes: Array, named: Selection, how: Arithmetic) -> Any:
    """How many lanes name each entry; an array of NumPy or CuPy."""
    counts = library_of(target).zeros(prod(target.shape[: named.dims]), np.int64)
    policies = Leading(1), named.remap, Combine.ADD, how.conflict, None
    how.scatter(as_array(counts), np.ones((), np.int64), lanes, *policies)
    return counts


def _divide(target: Array, kind: DType, counts: Any, dims: int, how: Arithmetic) -> None:
    """Divide the entries that a lane names by their counts."""
    library = library_of(target)
    (named,) = library.nonzero(counts)
    shape = (int(named.size), *target.shape[dims:])
    divisors = (counts[named] + int(how.include_self)).reshape((shape[0], *(1,) * (len(shape) - 1)))
    sums = library.empty(shape, kind.bits if kind.size <= 8 else kind.numpy)
    lanes, where = as_array(named), (Leading(dims), Remap.CLAMP)
    read = how.call.name, *where, how.engine
    move_gather(how.call, target, lanes, _typed(sums, kind, target), read, how.threads)
    means = _quotients(library, sums, divisors, kind)
    how.scatter(target, _typed(means, kind, target), lanes, *where, Combine.STORE, "last", None)


def _typed(bits: Any, kind: DType, like: Array) -> Array:
    """An array of bits as one of an element type; CuPy does not have all of them."""
    if not on_gpu(like):
        return bits.view(kind.numpy)
    shape, address = bits.shape, bits.data.ptr
    strides = tuple(step * kind.size for step in packed(shape))
    made: Any = DeviceArray(bits, address, shape, strides, kind.numpy, like.gpu)
    return made


def _quotients(library: Any, sums: Any, divisors: Any, kind: DType) -> Any:
    """Bits of sums divided by their counts: floats narrower than float32 in float32, integers rounded down."""
    if kind.is_integer:
        values = sums.view(kind.numpy)
        quotients = values // divisors.astype(values.dtype if kind.name == "uint64" else np.int64)
        return quotients.astype(kind.numpy).view(kind.bits)
    if library is np:
        return _divided(sums.view(kind.numpy), divisors, kind)
    if kind.name in NUMPY_FLOATS:
        return _canonical(library, sums.view(kind.numpy), divisors, kind).view(kind.bits)
    if kind.name != "bfloat16":  # by the host
        return library.asarray(_divided(sums.get().view(kind.numpy), divisors.get(), kind))
    wide = (sums.astype(np.uint32) << 16).view(np.float32) / divisors.astype(np.float32)
    raw = wide.view(np.uint32)
    rounded = ((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16).astype(np.uint16)
    return library.where(library.isnan(wide), np.uint16(QUIET), rounded)


def _divided(sums: Array, divisors: Array, kind: DType) -> Array:
    means = _canonical(np, sums, divisors, kind)
    return means.view(kind.bits) if kind.size <= 8 else means


def _canonical(library: Any, sums: Any, divisors: Any, kind: DType) -> Any:
    """Quotients rounded once, with the canonical NaN of arithmetic."""
    wide: Any = np.float32 if kind.size < 4 else kind.numpy
    with np.errstate(all="ignore"):
        means = (sums.astype(wide) / divisors.astype(wide)).astype(kind.numpy)
    means[library.isnan(means)] = np.nan
    return means
