# pyright: strict
"""Verified calls, as the long way makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np

from ptokit.brief import brief
from ptokit.engine.gpu import on_gpu
from ptokit.engine.storage import Storage
from ptokit.engine.whole import Lent, Whole, layout_of
from ptokit.isa.common import REMAPS
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.layout import packed
from ptokit.isa.move import Access, Combine, Index, IndexUnit, Move, Remap, Side
from ptokit.isa.mscatter import COMBINES
from ptokit.isa.policy import Coalesce, GatherOOB, PtoEnum, ScatterConflict, ScatterOOB
from ptokit.lang.arrays import gpu_of
from ptokit.ops.call import ArrayCall
from ptokit.ops.operands import Array, check_written, index_type, is_skewed, is_unsupported, type_of
from ptokit.ops.synonyms import atomic_of

FLOAT32 = dtype("float32")
EMPTY_POLICIES = (Remap.REFUSE, Remap.ZERO, Remap.SKIP)
"""The policies that an empty table allows."""
VERBS = {Combine.ADD: "added", Combine.MUL: "multiplied", Combine.MAX: "ordered", Combine.MIN: "ordered"}

DIMS = {Coalesce.Row: 1, Coalesce.Elem: None}
"""The dims of a table that indices number."""


class ArrayConflict(PtoEnum):
    """Which of several writes to one cell of an array remains: as `ScatterConflict`, or that of any order."""

    Default = "default"
    Last = "last"
    Any = "any"


@dataclass(frozen=True)
class CallPlan:
    """A verified call."""

    shape: tuple[int, ...]
    """The shape of the gathered or scattered data."""
    lanes: tuple[int, ...]
    """The shape of the indices."""
    dtype: np.dtype[Any]
    whole: Whole | None
    """None if no engine supports the memory layout of an array, so that it is copied first."""
    gpu: int | None
    """The GPU that has the arrays; None for the host."""
    warns: bool
    """Whether a negative index counts as an uint32 and is moved inside (H-13)."""
    dims: int | None
    """The dims of the table that indices number; None for all of them."""

    def lend(self, *arrays: Array) -> dict[str, Storage] | None:
        """The memories of the table, the indices and the other operand, by name."""
        if self.whole is None:
            return None
        types = dict(self.whole.types)
        if self.gpu is not None and on_gpu(arrays[-1]):  # such a description is as good
            return cast("dict[str, Storage]", dict(zip(types, arrays, strict=True)))
        lent = zip(types.items(), arrays, strict=True)
        return {name: Lent(array, kind, _reach(array)) for (name, kind), array in lent}


@dataclass(frozen=True)
class Entries:
    """What indices select: `capacity` entries of one shape, over the first `dims` dims of the table."""

    capacity: int
    entry: tuple[int, ...]
    dims: int


@dataclass(frozen=True)
class Leading:
    """In place of a `coalesce`: indices number the entries over so many dims, in C order."""

    dims: int


def entries(call: ArrayCall, table: Array, coalesce: object) -> Entries:
    """The entries of a table: rows, elements, or those over a number of dims, counted in C order."""
    if isinstance(coalesce, Leading):
        dims = coalesce.dims
        return Entries(prod(table.shape[:dims]), table.shape[dims:], dims)
    mode = call.policy(Coalesce, "coalesce", coalesce)
    if mode is Coalesce.Row and not table.ndim:
        fix = 'pass an array of one dim or more, or coalesce="elem"'
        raise call.refused(call.table_rank, "a table of rows has one dim or more; found none", fix, "table", "H-09")
    return Entries(len(table), table.shape[1:], 1) if mode is Coalesce.Row else Entries(table.size, (), table.ndim)


def check_capacity(call: ArrayCall, capacity: int, indices: Array, remap: Remap, shape: tuple[int, ...]) -> None:
    """Refuse an empty table if the policy needs an entry."""
    if not capacity and indices.size and remap not in EMPTY_POLICIES:
        message = f"the table is empty, so no policy can map an index into it; found shape {shape}"
        raise call.refused("A-13", message, "skip the call when the table is empty", "table", "H-43")


def plan_gather(
    call: ArrayCall, source: Array, lanes: Array, target: Array | None, coalesce: object, oob: object
) -> CallPlan:
    """The plan of a gather. `coalesce` may be a `Leading`, and `oob` a `Remap`."""
    named = entries(call, source, coalesce)
    remap = oob if isinstance(oob, Remap) else REMAPS[call.policy(GatherOOB, "oob", oob)]
    kind, index_kind = type_of(call, "table", source), index_type(call, lanes)
    check_capacity(call, named.capacity, lanes, remap, source.shape)
    shape = lanes.shape + named.entry
    if target is not None:
        check_out(call, target, kind, shape)
    steps = packed(shape) if target is None else _steps(target)
    out = Access("out", layout_of(shape, steps, lanes.ndim))
    index = _index(lanes, index_kind, named, Side.SRC, remap)
    move = Move((lanes.size, prod(named.entry)), out, _access("table", source, named.dims), index)
    whole = Whole(move, (("table", kind), ("indices", index_kind), ("out", kind)), fresh=target is None)
    return _plan(call, whole, shape, source, lanes, target, coalesce)


def check_out(call: ArrayCall, out: Array, kind: DType, shape: tuple[int, ...]) -> None:
    """Refuse an output of another type or shape."""
    check_written(call, "out", out)
    fix = f"pass {call.words('table').result.format(shape=shape)}"
    if (found := type_of(call, "out", out)) is not kind:
        message = f"out must be of the table's element type, {kind}; found {found}"
        raise call.refused(call.same_type, message, fix, "out", "H-08")
    if out.shape != shape:
        message = f"out must have the shape of the indices and of an entry, {shape}; found {out.shape}"
        raise call.refused(call.same_shape, message, fix, "out", "H-09")


def plan_scatter(
    call: ArrayCall,
    target: Array,
    source: Array,
    lanes: Array,
    coalesce: object,
    oob: object,
    atomic: object,
    conflict: object,
    accumulate: object,
) -> CallPlan:
    """The plan of a scatter. `coalesce` may be a `Leading`, `oob` a `Remap`, `atomic` a `Combine`."""
    named = entries(call, target, coalesce)
    remap = oob if isinstance(oob, Remap) else REMAPS[call.policy(ScatterOOB, "oob", oob)]
    combine = atomic if isinstance(atomic, Combine) else COMBINES[atomic_of(call, atomic)]
    if not isinstance(conflict, ScatterConflict):  # the last writer is a writer that `default` may choose
        conflict = call.policy(ArrayConflict, "conflict", conflict)
    kind, index_kind = type_of(call, "table", target), index_type(call, lanes)
    check_written(call, "table", target)
    check_arithmetic(call, kind, combine)
    wide = _accumulator(call, accumulate, kind, combine)
    check_capacity(call, named.capacity, lanes, remap, target.shape)
    shape = lanes.shape + named.entry
    spread_out = spread(call, source, kind, shape)
    index = _index(lanes, index_kind, named, Side.DST, remap)
    src, cells = _access("src", spread_out, lanes.ndim), _access("table", target, named.dims)
    move = Move((lanes.size, prod(named.entry)), cells, src, index, combine)
    types = (("table", kind), ("indices", index_kind), ("src", kind))
    whole = Whole(move, types, wide, ordered=conflict is not ArrayConflict.Any)
    return _plan(call, whole, shape, target, lanes, source, coalesce)


def check_arithmetic(call: ArrayCall, kind: DType, combine: Combine) -> None:
    """Refuse reductions that a type does not have."""
    is_ordered = kind.is_integer or kind.is_float
    if combine is Combine.STORE or is_ordered or (combine is Combine.ADD and kind.is_number):
        return
    message = f"{kind} cannot be {VERBS[combine]}"
    raise call.refused("A-16", message, "scatter without atomic= and reduce=", "table")


def _accumulator(call: ArrayCall, given: object, kind: DType, combine: Combine) -> DType | None:
    if given is None:
        return None
    if given != FLOAT32:
        message = f"accumulate takes 'float32' or None; found {brief(given)}"
        raise call.refused("A-16", message, 'pass accumulate="float32"', "accumulate")
    if combine is Combine.ADD and kind.is_float and kind.size < FLOAT32.size:
        return FLOAT32
    message = f"accumulate is for sums of floats narrower than float32; found {combine.name.lower()} of {kind}"
    raise call.refused("A-16", message, "leave accumulate out", "accumulate")


def spread(call: ArrayCall, source: Array, kind: DType, shape: tuple[int, ...]) -> Array:
    """The source, broadcast to the shape of the scattered data."""
    if (found := type_of(call, "src", source)) is not kind:
        message = f"src must be of the table's element type, {kind}; found {found}"
        fix = f"convert the data: {call.words('src').source}"
        raise call.refused(call.same_type, message, fix, "src", "H-08")
    try:
        return cast("Array", source.broadcast_to(shape)) if on_gpu(source) else np.broadcast_to(source, shape)
    except ValueError:
        message = f"src must have the shape of the indices and of an entry, {shape}, or broadcast to it"
        fix = "give src one entry for each index"
        raise call.refused(call.same_shape, f"{message}; found {source.shape}", fix, "src", "H-09") from None


def _index(lanes: Array, kind: DType, named: Entries, side: Side, remap: Remap) -> Index:
    access = _access("indices", lanes, lanes.ndim)
    return Index(access, side, IndexUnit.ROW, named.capacity, remap, cast=kind.size <= 4)


def _access(name: str, array: Array, dims: int) -> Access:
    return Access(name, layout_of(array.shape, _steps(array), dims))


def _steps(array: Array) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(step // array.itemsize for step in array.strides)


def _plan(
    call: ArrayCall,
    whole: Whole,
    shape: tuple[int, ...],
    table: Array,
    indices: Array,
    other: Array | None,
    coalesce: object,
) -> CallPlan:
    (_, kind), (_, index_kind), (name, _) = whole.types
    given = {"table": table, "indices": indices, name: other}
    arrays = {name: array for name, array in given.items() if array is not None}
    return CallPlan(
        shape=shape,
        lanes=indices.shape,
        dtype=kind.numpy,
        whole=None if any(map(is_unsupported, arrays.values())) else whole,
        gpu=_gpu(call, arrays),
        dims=coalesce.dims if isinstance(coalesce, Leading) else DIMS[Coalesce.parse(coalesce)],
        warns=index_kind.name == "int32" and whole.index.remap in (Remap.CLAMP, Remap.WRAP),
    )


def _gpu(call: ArrayCall, arrays: Mapping[str, Array]) -> int | None:
    """The GPU that has the arrays; one element of the host can be used on any."""
    for name, array in arrays.items():
        if array.size and is_skewed(array) and on_gpu(array):  # no library can copy it
            raise ValueError(f"{call.name}: {name} is on a GPU and not aligned to its elements; pass an aligned array")
    try:
        return gpu_of({name: array for name, array in arrays.items() if name != "src" or array.ndim or on_gpu(array)})
    except TypeError as problem:
        raise TypeError(f"{call.name}: {problem}") from None


def _reach(array: Array) -> int:
    """Elements from the first to the last."""
    if not array.size:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(array.shape, _steps(array), strict=True))
