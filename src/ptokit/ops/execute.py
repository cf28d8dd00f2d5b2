# pyright: strict
"""Verified calls, and planned ones on an engine: the order of streams, results, refusals, copies of what engines do not
support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from ptokit.brief import brief
from ptokit.engine.faults import IndexFault, IndexReport
from ptokit.engine.gpu import on_gpu
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Storage
from ptokit.engine.whole import Lent, Whole, layout_of
from ptokit.engines import (
    AUTO,
    REFERENCE,
    arrays,
    chosen,
    in_order,
    is_captured,
    names,
    not_captured,
    ordering,
    prepared_move,
)
from ptokit.isa.common import REMAPS
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.layout import packed
from ptokit.isa.move import Access, Combine, Index, IndexUnit, Move, Remap, Side
from ptokit.isa.mscatter import COMBINES
from ptokit.isa.policy import Coalesce, GatherOOB, PtoEnum, ScatterConflict, ScatterOOB
from ptokit.lang import gpu
from ptokit.lang.arrays import as_array, gpu_of, within
from ptokit.lang.launch import WAITS, check_engine, refuse_captured
from ptokit.ops.array_call import ArrayCall, atomic_of
from ptokit.ops.direct import DirectPlan, How, describe, direct_gather, direct_scatter, keep, new_function
from ptokit.ops.operands import (
    Array,
    check_written,
    copy_into,
    empty_like,
    index_type,
    is_skewed,
    is_unsupported,
    packed_copy,
    share_memory,
    supported,
    type_of,
)

ENGINES = names()
CAPTURABLE = (
    'call it once before the capture with a policy that checks nothing (oob="clamp", "wrap", "zero", "skip") and int64 '
    "indices, or leave it out of the capture"
)
"""Advice for calls in a CUDA graph."""

Notified = AbstractContextManager[object] | None
Operands = tuple[object, object, object]
"""The table, the indices and the other array, as the user has them."""
Arrays = tuple[Array, Array, Array | None]
"""The same as arrays; no output stands for a new one."""


def move_gather(call: ArrayCall, source: Array, lanes: Array, target: Array, how: How, threads: int | None) -> None:
    """Gather into an array, which may share memory with what is read."""
    if direct_gather(source, lanes, target, how, threads) is None:
        arrays = source, lanes, target
        gather_by_plan(call, how, threads, arrays, arrays)


def gather_by_plan(
    call: ArrayCall, how: How, threads: int | None, operands: Operands, arrays: Arrays, notified: Notified = None
) -> Any:
    """Verify a gather and execute it in its order; returns the output, or a new result of the table's library."""
    (table, _, out), (source, lanes, given), (_, *policies, engine) = operands, arrays, how
    plan = plan_gather(call, source, lanes, given, *policies)
    order = order_of(call, plan.gpu, engine, source, lanes, given, plan=plan)

    def run() -> Any:
        result, target = out, given
        if target is None:
            result, _ = new_function(table, on_gpu(source))(table, plan.shape, plan.dtype)
            target = as_array(result)
        storages = plan.lend(source, lanes, target)
        if storages is None or (given is not None and _share_memory(given, source, lanes)):
            _refuse_captured_copies(call, source)
            fresh = target if given is None else empty_like(target)
            move_gather(call, supported(source), supported(lanes), fresh, how, threads)
            if given is not None:
                copy_into(target, fresh)
        else:
            _run(call, plan, storages, lanes, engine, threads)
        return result

    result = within(order, notified, run)
    if order is None:
        _learn(call, plan, how, operands, arrays)
    return result


def move_scatter(call: ArrayCall, target: Array, source: Array, lanes: Array, how: How, threads: int | None) -> None:
    """Scatter into an array, which may share memory with what is read."""
    if not direct_scatter(target, source, lanes, how, threads):
        arrays = target, lanes, source
        scatter_by_plan(call, how, threads, arrays, arrays)


def scatter_by_plan(
    call: ArrayCall, how: How, threads: int | None, operands: Operands, arrays: Any, notified: Notified = None
) -> None:
    """Verify a scatter and execute it in its order."""
    (target, lanes, source), (_, *policies, engine) = arrays, how
    plan = plan_scatter(call, target, source, lanes, *policies)
    order = order_of(call, plan.gpu, engine, target, lanes, source, plan=plan)

    def run() -> None:
        storages = plan.lend(target, lanes, source)
        if storages is None or _share_memory(target, source, lanes):
            _refuse_captured_copies(call, target)
            cells = packed_copy(target) if is_unsupported(target) else target
            move_scatter(call, cells, packed_copy(source), packed_copy(lanes), how, threads)
            if cells is not target:
                copy_into(target, cells)
        else:
            _run(call, plan, storages, lanes, engine, threads)

    within(order, notified, run)
    if order is None:
        _learn(call, plan, how, operands, arrays)


def warn_negative(call: ArrayCall, capacity: int, indices: object) -> None:
    """Warn of negative int32 indices that are moved inside (H-13)."""
    lanes = as_array(indices)
    values: Any = gpu.cupy_array(lanes) if on_gpu(lanes) else lanes
    is_packed = not on_gpu(lanes) and lanes.flags.c_contiguous  # NumPy then finds it faster, and copies it otherwise
    if not lanes.size or int(values.item(values.argmin()) if is_packed else values.min()) >= 0:
        return
    host = cast("Array", values.get() if on_gpu(lanes) else values)
    below = host < 0
    first = int(np.argmax(below))
    count, value = int(np.count_nonzero(below)), int(host.flat[first])
    call.warn_negative(IndexReport("negative", "indices", (first,), value, capacity, count), lanes.shape)


# --- Orders, results, engines ----------------------------------------------------------------------------------


def order_of(
    call: ArrayCall, number: int | None, engine: str, *arrays: Array | None, plan: CallPlan | None = None
) -> AbstractContextManager[object] | None:
    """A block whose work is done by a GPU, in the order of the arrays' streams; None if all work is.

    Refuses invalid engines, and work that cannot be captured in a CUDA graph; without a plan, that is all work.
    """
    if engine not in ENGINES:
        check_engine(engine, ENGINES, "the machine runs kernels: kernel[grid](..., engine='machine')")
    if number is None:
        return None
    name = chosen(engine, True)  # refuses engines of the host, and says what is missing
    found = [array for array in arrays if on_gpu(array)]
    if is_captured(found) and (why := _not_captured(name, number, arrays, plan)):
        refuse_captured(call.name, found, why, CAPTURABLE)
    return in_order(found)


def _not_captured(engine: str, number: int, arrays: Sequence[Array | None], plan: CallPlan | None) -> str:
    """Why a call cannot be captured in a CUDA graph; empty if it can."""
    table, lanes, other = arrays if len(arrays) == 3 else (*arrays, None)
    if plan is None or plan.whole is None or plan.warns or not on_gpu(table) or not on_gpu(lanes):
        return WAITS
    if other is None and not gpu.is_torch(table.owner):
        return "CuPy would use the memory of its result again"
    if other is not None and not on_gpu(other):
        return "a number of the host is copied to the GPU"
    return not_captured(engine, plan.whole, number, *(each.address for each in (table, other) if each is not None))


def _refuse_captured_copies(call: ArrayCall, array: Array) -> None:
    if on_gpu(array):
        refuse_captured(call.name, [array], "it copies an array first", CAPTURABLE)


def _share_memory(written: Array, *read: Array) -> bool:
    return any(share_memory(written, array) for array in read)


def _run(
    call: ArrayCall, plan: CallPlan, storages: Mapping[str, Storage], lanes: Array, engine: str, threads: int | None
) -> None:
    """Execute a move; the reference engine is the fallback of `auto`."""
    whole = plan.whole
    assert whole is not None
    if plan.warns:
        warn_negative(call, whole.index.capacity, lanes)
    if 0 in plan.lanes:
        return
    try:
        try:
            arrays(chosen(engine, plan.gpu is not None))(whole, storages, threads)
        except Unsupported as problem:
            if plan.gpu is not None:
                raise ValueError(f"a GPU does not take this call: {problem}; copy the arrays to the host") from None
            if engine != AUTO:
                raise ValueError(f'engine "{engine}" does not take this call: {problem}; use engine="auto"') from None
            arrays(REFERENCE)(whole, storages, 1)
    except IndexFault as fault:
        raise call.outside(fault.report, plan.lanes) from None


def _learn(call: ArrayCall, plan: CallPlan, how: How, operands: Operands, described: Arrays) -> None:
    """Keep the kind of a call that was executed in order, if an engine takes such calls by addresses and sizes."""
    found = [each if each is None else describe(each) for each in operands]
    places = [array for array in described if array is not None]
    if plan.whole is None or plan.whole.sizes is None or 0 in plan.lanes or found[0] is None or found[1] is None:
        return
    if found[2] is None and operands[2] is not None:
        return
    orders = {array.order if on_gpu(array) else None for array in places}
    if plan.gpu is not None and not (all(map(on_gpu, places)) and len(orders) == 1):
        return
    try:
        ready = prepared_move(chosen(how[-1], plan.gpu is not None), plan.whole.kind, plan.gpu)
    except Unsupported:
        return
    if ready is None:
        return
    _, index_type, _ = plan.whole.types
    kinds = [None if each is None else each[0] for each in found]
    made = DirectPlan(
        ready=ready,
        dims=plan.dims,
        itemsize=plan.dtype.itemsize,
        index_size=index_type[1].size,
        dtype=plan.dtype,
        new=new_function(operands[0], plan.gpu is not None),
        is_tracked=gpu.is_torch(operands[2] if plan.whole.kind.gathers else operands[0]),
        is_in_order=None if plan.gpu is None else ordering(cast("Any", places)),
        warn=partial(warn_negative, call.of()) if plan.warns else None,
    )
    keep(made, how, *kinds)


# --- planned calls ---------------------------------------------------------------------------------------------------


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
    """Instead of a `coalesce`: indices number the entries over this many dims, in C order."""

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
