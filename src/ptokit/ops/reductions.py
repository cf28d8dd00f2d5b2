# pyright: strict
"""Scatters with all reductions: those of engines, means, and reductions without the values that cells had.

The order of arithmetic is defined: lane after lane, each step rounded to the table's type. A mean is that sum, divided
once by the number of values; integers are rounded down.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ptokit.engine.gpu import DeviceArray, on_gpu
from ptokit.isa.dtype import DType
from ptokit.isa.layout import packed
from ptokit.isa.move import Combine, Remap
from ptokit.lang.arrays import as_array
from ptokit.ops.call import ArrayCall
from ptokit.ops.execute import ScatterHow, move_gather, move_scatter
from ptokit.ops.lanes import MOVED, Selection, library_of, unsigned
from ptokit.ops.operands import Array, packed_copy, share_memory, type_of
from ptokit.ops.plans import Leading, check_arithmetic, plan_scatter
from ptokit.ops.synonyms import Reduction

NUMPY_FLOATS = ("float16", "float32", "float64")
"""Floats that CuPy computes with as NumPy does."""
QUIET = 0x7FC0
"""The NaN of bfloat16 that comes out of arithmetic."""


@dataclass(frozen=True)
class Arithmetic:
    """How a scatter combines values, and what executes it."""

    reduction: Reduction
    include_self: bool
    conflict: object
    accumulate: object
    engine: str
    threads: int | None

    def how(self, named: Selection) -> ScatterHow:
        """The policies of the scatter itself."""
        return Leading(named.dims), named.remap, self.reduction.combine, self.conflict, self.accumulate


def check_type(call: ArrayCall, kind: DType, how: Arithmetic) -> None:
    """Refuse reductions that a type does not have, before an index is read."""
    check_arithmetic(call, kind, how.reduction.combine)
    if how.reduction.is_mean and not ((kind.is_integer and kind.name != "bool") or kind.is_float):
        raise call.refused("A-16", f"{kind} has no mean", "convert the table to integers or floats", "table")


def reduce_into(call: ArrayCall, target: Array, source: Array, named: Selection, how: Arithmetic) -> None:
    """Combine values into the entries that are named. A call that raises has written nothing."""
    lanes, combine, policies = named.lanes, how.reduction.combine, how.how(named)
    keeps = combine is Combine.STORE or how.include_self
    if keeps and not how.reduction.is_mean:
        move_scatter(call, target, source, lanes, policies, how.engine, how.threads)
        return
    plan_scatter(call, target, source, lanes, *policies)  # refuses types and shapes before anything is written
    kind = type_of(call, "table", target)
    source, lanes = (packed_copy(each) if share_memory(target, each) else each for each in (source, lanes))
    quiet = unsigned(lanes) if lanes.dtype == np.int32 and named.remap in MOVED else lanes
    counts = _counted(call, target, quiet, named, how) if how.reduction.is_mean else None
    if not keeps:
        nothing = np.array(_nothing(combine, kind), kind.numpy)
        fills = (Leading(named.dims), named.remap, Combine.STORE, "last", None)
        move_scatter(call, target, nothing, quiet, fills, how.engine, how.threads)
    move_scatter(call, target, source, lanes, policies, how.engine, how.threads)
    if counts is not None:
        _divide(call, target, kind, counts, named.dims, how)


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


def _counted(call: ArrayCall, target: Array, lanes: Array, named: Selection, how: Arithmetic) -> Any:
    """How many lanes name each entry; an array of NumPy or CuPy."""
    library = library_of(target)
    counts = library.zeros(prod(target.shape[: named.dims]), np.int64)
    one, policies = np.ones((), np.int64), (Leading(1), named.remap, Combine.ADD, how.conflict, None)
    move_scatter(call, as_array(counts), one, lanes, policies, how.engine, how.threads)
    return counts


def _divide(call: ArrayCall, target: Array, kind: DType, counts: Any, dims: int, how: Arithmetic) -> None:
    """Divide the entries that a lane names by their counts."""
    library = library_of(target)
    (named,) = library.nonzero(counts)
    shape = (int(named.size), *target.shape[dims:])
    divisors = (counts[named] + int(how.include_self)).reshape((shape[0], *(1,) * (len(shape) - 1)))
    sums = library.empty(shape, kind.bits if kind.size <= 8 else kind.numpy)
    lanes, entries = as_array(named), Leading(dims)
    move_gather(call, target, lanes, _typed(sums, kind, target), (entries, Remap.CLAMP), how.engine, how.threads)
    means = _quotients(library, sums, divisors, kind)
    policies = entries, Remap.CLAMP, Combine.STORE, "last", None
    move_scatter(call, target, _typed(means, kind, target), lanes, policies, how.engine, how.threads)


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
        return (
            (values // divisors.astype(values.dtype if kind.name == "uint64" else np.int64))
            .astype(kind.numpy)
            .view(kind.bits)
        )
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
    """Quotients rounded once, with the one NaN of arithmetic."""
    wide: Any = np.float32 if kind.size < 4 else kind.numpy
    with np.errstate(all="ignore"):
        means = (sums.astype(wide) / divisors.astype(wide)).astype(kind.numpy)
    means[library.isnan(means)] = np.nan
    return means
