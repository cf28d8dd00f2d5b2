# pyright: strict
"""Gather and scatter over whole arrays, with the policies of the instruction set (profile `host`)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from ctypes import addressof, c_char
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any, TypeVar, cast

import numpy as np

from ptokit import repeated
from ptokit.engine.faults import IndexFault, IndexReport
from ptokit.engine.gpu import DeviceArray, on_gpu
from ptokit.engine.kept import remember
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Storage
from ptokit.engine.whole import Lent, Whole, layout_of
from ptokit.engines import AUTO, REFERENCE, addressed, arrays, chosen, in_order, names, ordering
from ptokit.finding import Finding, OutOfBoundsError, VerifyError
from ptokit.isa.common import INDEX_TYPES, REMAPS
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.instruction import Instruction
from ptokit.isa.layout import packed
from ptokit.isa.mgather import MGATHER
from ptokit.isa.move import Access, Combine, Index, IndexUnit, Move, Remap, Side
from ptokit.isa.mscatter import COMBINES, MSCATTER
from ptokit.isa.policy import Coalesce, E, GatherOOB, PtoEnum, ScatterAtomicOp, ScatterConflict, ScatterOOB
from ptokit.lang import gpu
from ptokit.lang.arrays import as_array, exact_cast, gpu_of, within, writing
from ptokit.lang.faults import trim
from ptokit.lang.launch import check_engine, check_threads, refuse_inside
from ptokit.lang.where import user_place
from ptokit.repeated import RepeatedCall

Array = np.ndarray[Any, np.dtype[Any]]
Table = TypeVar("Table")

ENGINES = names()
ON_ONE_THREAD = 1 << 18
"""Bytes of calls that run on one thread by default, at most."""
ALIGNMENT = 64
"""Results begin at a cache line: writing rows that straddle lines takes four times as long."""
HOST = "host"
"""The profile under which both calls run."""
BYTE = np.dtype(np.uint8)
NUMBERS = (bool, int, float, complex, np.generic)
FLOAT32 = dtype("float32")
SCATTER_POLICIES = ("coalesce", "oob", "atomic", "conflict", "accumulate")
EMPTY_POLICIES = (Remap.REFUSE, Remap.ZERO, Remap.SKIP)
"""The policies that an empty table allows."""


@dataclass(frozen=True)
class _Call:
    """The name, the instruction and the clause ids of one of the two calls."""

    name: str
    instruction: Instruction
    index_type: str
    same_type: str
    table_rank: str
    same_shape: str

    @cached_property
    def instead(self) -> str:
        """What to do inside a kernel."""
        return f"use pto.{self.instruction.name}, or call it between launches"

    def refused(self, rule: str, message: str, fix: str, operand: str = "", kind: str | None = None) -> VerifyError:
        """A refusal at the user's line."""
        where = user_place()
        return VerifyError(
            [Finding("error", rule, f"{self.name}: {message}", kind, operand, fix=fix, where=where, target=HOST)]
        )

    def policy(self, enum: type[E], name: str, given: object) -> E:
        try:
            return enum.parse(given)
        except (TypeError, ValueError) as problem:
            rule, kind = ("CO-SEM-01", None) if isinstance(given, str) else ("A-30", "H-39")
            raise self.refused(rule, f"{name}: {problem}", enum.choices(), name, kind) from None

    def outside(self, report: IndexReport, shape: tuple[int, ...]) -> OutOfBoundsError:
        """The error for an index out of bounds, with its position in the array of indices."""
        fault = self.instruction.faults["outside"]
        at = ", ".join(str(int(k)) for k in np.unravel_index(report.lane[0], shape))
        more = f" (and {report.count - 1} more)" if report.count > 1 else ""
        name = f"indices[{at}]" if shape else "indices"
        message = f"{self.name}: {name} = {report.value} is outside the capacity of {report.capacity}{more}"
        expected, found = f"an index below {report.capacity}", str(report.value)
        rule = fault.clause(HOST)
        finding = Finding("error", rule, message, fault.kind, "indices", expected, found, fault.fix, user_place(), HOST)
        return OutOfBoundsError([finding])


class ArrayConflict(PtoEnum):
    """Which of several writes to one cell of an array remains: as `ScatterConflict`, or that of any order."""

    Default = "default"
    Last = "last"
    Any = "any"


GATHER = _Call("gather", MGATHER, "MG-TYPE-05", "MG-TYPE-06", "MG-SHAPE-03", "MG-SHAPE-01")
SCATTER = _Call("scatter", MSCATTER, "MS-TYPE-05", "MS-TYPE-06", "MS-SHAPE-02", "A-22")


def gather(
    table: object,
    indices: object,
    *,
    coalesce: str | Coalesce = "row",
    oob: str | GatherOOB = "undefined",
    out: object = None,
    engine: str = AUTO,
    threads: int | None = None,
) -> Any:
    """Rows (`coalesce="row"`) or elements (`"elem"`, counted in C order) of `table`, by index.

    The result has the shape of `indices`, followed by the shape of a row; it is a torch tensor if the table is one,
    a CuPy array if the table is on a GPU, a NumPy array otherwise, or `out`. Indices are int32, uint32 or int64. `oob`
    selects what an index outside the table does: `undefined` (refused before anything is written), `clamp`, `wrap` or
    `zero`.
    """
    try:
        refuse_inside(GATHER.name, GATHER.instead)
        if threads is not None:
            check_threads(threads)
        how = (GATHER.name, coalesce, oob, engine, threads)
        known = None if type(table) is np.ndarray else repeated.find(how, table, indices, out)
        if known is not None:
            return known[0].gather(table, out, known[1])
        source = table if type(table) is np.ndarray else _array(GATHER, "table", table)
        lanes = indices if type(indices) is np.ndarray else _array(GATHER, "indices", indices)
        given = out if out is None or type(out) is np.ndarray else _array(GATHER, "out", out, written=True)
        key = (_signature(source), _signature(lanes), None if given is None else _signature(given), coalesce, oob)
        plan = _cached(key) or remember(PLANS, key, _plan_gather(source, lanes, given, coalesce, oob), MOST_PLANS)
        options: dict[str, Any] = {"coalesce": coalesce, "oob": oob, "engine": engine, "threads": threads}
        order = _order(plan, engine, source, lanes, given)
        notified = None if given is out else writing((out,))
        result = within(order, notified, _gather, plan, table, source, lanes, given, out, options)
        if plan.gpu is not None and order is None:
            _keep(GATHER, how, plan, (table, indices, out), (source, lanes, given))
        return result
    except Exception as problem:
        trim(problem)
        raise


def scatter(
    table: Table,
    src: object,
    indices: object,
    *,
    coalesce: str | Coalesce = "row",
    oob: str | ScatterOOB = "undefined",
    atomic: str | ScatterAtomicOp = "none",
    conflict: str | ScatterConflict = "last",
    accumulate: object = None,
    engine: str = AUTO,
    threads: int | None = None,
) -> Table:
    """Write `src` to rows (`coalesce="row"`) or elements (`"elem"`) of `table`, by index; returns `table`.

    `src` has the shape of `indices`, followed by the shape of a row, or broadcasts to it; it may be a number. `atomic`
    combines with the cell instead (`add`, `max`, `min`), index after index; without it the last writer stays.
    `conflict="any"` allows any order instead, which is faster on a GPU. Sums of floats round at every step, or once
    with `accumulate="float32"`. `oob` selects what an index outside the table does:
    `undefined` (refused before anything is written), `skip`, `clamp` or `wrap`.
    """
    try:
        refuse_inside(SCATTER.name, SCATTER.instead)
        if threads is not None:
            check_threads(threads)
        policies = (coalesce, oob, atomic, conflict, accumulate)
        how = (SCATTER.name, *policies, engine, threads)
        known = None if type(table) is np.ndarray else repeated.find(how, table, indices, src)
        if known is not None:
            known[0].run(table, known[1])
            return table
        target = table if type(table) is np.ndarray else _array(SCATTER, "table", table, written=True)
        lanes = indices if type(indices) is np.ndarray else _array(SCATTER, "indices", indices)
        source = src if type(src) is np.ndarray else _source(src, target)
        key = (_signature(target), _signature(source), _signature(lanes), *policies)
        plan = _cached(key) or remember(PLANS, key, _plan_scatter(target, source, lanes, *policies), MOST_PLANS)
        order = _order(plan, engine, target, lanes, source)
        notified = None if target is table else writing((table,))
        within(order, notified, _scatter, plan, target, source, lanes, policies, engine, threads)
        if plan.gpu is not None and order is None:
            _keep(SCATTER, how, plan, (table, indices, src), (target, lanes, source))
        return table
    except Exception as problem:
        trim(problem)
        raise


def _gather(
    plan: _Plan, table: object, source: Array, lanes: Array, given: Array | None, out: Any, options: dict[str, Any]
) -> Any:
    target, out = _result(table, source, plan) if given is None else (given, out)
    storages = plan.lend(source, lanes, "out", target)
    if storages is None or (given is not None and plan.overlap(_addresses(storages))):
        fresh = target if given is None else _empty(target)
        gather(_supported(source), _supported(lanes), out=fresh, **options)
        if given is not None:
            _copy(target, fresh)
    else:
        _run(GATHER, plan, storages, options["engine"], options["threads"])
    return out


def _scatter(
    plan: _Plan,
    target: Array,
    source: Array,
    lanes: Array,
    policies: tuple[Any, ...],
    engine: str,
    threads: int | None,
) -> None:
    storages = plan.lend(target, lanes, "src", source)
    if storages is None or plan.overlap(_addresses(storages)):
        options: dict[str, Any] = dict(zip(SCATTER_POLICIES, policies, strict=True))
        cells = _packed(target) if _is_unsupported(target) else target
        scatter(cells, _packed(source), _packed(lanes), engine=engine, threads=threads, **options)
        if cells is not target:
            _copy(target, cells)
    else:
        _run(SCATTER, plan, storages, engine, threads)


# --- Operands --------------------------------------------------------------------------------------------------


def _array(call: _Call, name: str, given: object, *, written: bool = False) -> Array:
    """An operand's memory as an array; never a copy."""
    if written and isinstance(given, np.generic):
        raise TypeError(f"{call.name}: {name}: a NumPy number has no memory to write to; pass an array")
    try:
        return as_array(given)
    except TypeError as problem:
        raise TypeError(f"{call.name}: {name}: {problem}") from None


def _source(given: object, table: Array) -> Array:
    """The source of a scatter: an array, or a number that the table's type represents exactly."""
    if not isinstance(given, NUMBERS):
        return _array(SCATTER, "src", given)
    kind = _type(SCATTER, "table", table)
    try:
        if kind.family == "complex":
            return _complex(given, kind)
        return exact_cast(cast("object", given), kind, "a table").view(kind.numpy)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"{SCATTER.name}: src: {problem}") from None


def _complex(number: Any, kind: DType) -> Array:
    """A number as one complex element."""
    with np.errstate(all="ignore"):
        kept = np.asarray(number).astype(kind.numpy)
    if kept.item() != number and number == number:
        raise ValueError(f"{number!r} is not representable in {kind}; round or convert it first")
    return kept


def _type(call: _Call, name: str, array: Array) -> DType:
    try:
        return dtype(array.dtype)
    except TypeError as problem:
        raise TypeError(f"{call.name}: {name}: {problem}") from None


def _index_type(call: _Call, indices: Array) -> DType:
    kind, allowed = _type(call, "indices", indices), INDEX_TYPES["host"]
    if kind.name in allowed:
        return kind
    is_mask = kind.name == "bool"
    fix = "pass positions instead: np.flatnonzero(mask)" if is_mask else 'convert them: indices.astype("int64")'
    message = f"indices are {', '.join(allowed[:-1])} or {allowed[-1]}; found {'a mask of bool' if is_mask else kind}"
    raise call.refused(call.index_type, message, fix, "indices", "H-08")


def _check_written(call: _Call, name: str, array: Array) -> None:
    if not array.flags.writeable:
        raise ValueError(f"{call.name}: {name} is read-only; pass a writable array")
    reach = array.itemsize
    for step, extent in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if step < reach and array.size:
            message = f"cells of {name} share memory: shape {array.shape}, strides {array.strides} in bytes"
            raise call.refused("CO-SEM-01", message, "copy the array first", name)
        reach += step * (extent - 1)


# --- Plans -----------------------------------------------------------------------------------------------------


_Operand = tuple[DType, int]
"""An element type, and elements from the first to the last, gaps included."""


@dataclass(frozen=True)
class _Plan:
    """A verified call, for all arrays of the same dtypes, shapes and strides."""

    shape: tuple[int, ...]
    """The shape of the gathered or scattered data."""
    lanes: tuple[int, ...]
    """The shape of the indices."""
    dtype: np.dtype[Any]
    nbytes: int
    whole: Whole | None
    """None if no engine supports the memory layout of an array, so that it is copied first."""
    gpu: int | None
    """The GPU that has the arrays; None for the host."""
    table: _Operand
    indices: _Operand
    other: _Operand
    """The output of a gather, or the source of a scatter."""
    extents: Mapping[str, int]
    """Bytes from the first element to the last, by operand."""

    def lend(self, table: Array, indices: Array, name: str, other: Array) -> dict[str, Storage] | None:
        """The memories of the operands, by name."""
        if self.whole is None:
            return None
        if self.gpu is not None and on_gpu(other):  # such a description is as good
            return cast("dict[str, Storage]", {"table": table, "indices": indices, name: other})
        return {
            "table": Lent(table, *self.table),
            "indices": Lent(indices, *self.indices),
            name: Lent(other, *self.other),
        }

    def overlap(self, addresses: Mapping[str, int]) -> bool:
        """Whether what is written shares memory with what is read."""
        assert self.whole is not None
        written = self.whole.move.dst.operand
        start = addresses[written]
        end = start + self.extents[written]
        for name, other in addresses.items():
            if name != written and start < other + self.extents[name] and other < end:
                return True
        return False


def _addresses(storages: Mapping[str, Storage]) -> dict[str, int]:
    return {name: storage.address for name, storage in storages.items()}


PLANS: dict[Any, _Plan] = {}
"""The cache of plans, by the dtypes, shapes and strides of the arrays. Cleared when it is full."""
MOST_PLANS = 1024


def _signature(array: Array) -> tuple[Any, ...]:
    return array.dtype, array.shape, array.strides, array.flags.num


def _cached(key: Any) -> _Plan | None:
    try:
        return PLANS.get(key)
    except TypeError:  # an invalid policy; it will be refused by name
        return None


@dataclass(frozen=True)
class _Table:
    """What indices select: `capacity` entries of one shape, over the first `dims` dims of the table."""

    capacity: int
    entry: tuple[int, ...]
    dims: int


def _table(call: _Call, table: Array, mode: Coalesce, indices: Array, remap: Remap) -> _Table:
    if mode is Coalesce.Row and not table.ndim:
        fix = 'pass an array of one dim or more, or coalesce="elem"'
        raise call.refused(call.table_rank, "a table of rows has one dim or more; found none", fix, "table", "H-09")
    named = _Table(len(table), table.shape[1:], 1) if mode is Coalesce.Row else _Table(table.size, (), table.ndim)
    if not named.capacity and indices.size and remap not in EMPTY_POLICIES:
        message = f"the table is empty, so no policy can map an index into it; found shape {table.shape}"
        raise call.refused("A-13", message, "skip the call when the table is empty", "table", "H-43")
    return named


def _plan_gather(source: Array, lanes: Array, target: Array | None, coalesce: object, oob: object) -> _Plan:
    mode, remap = GATHER.policy(Coalesce, "coalesce", coalesce), REMAPS[GATHER.policy(GatherOOB, "oob", oob)]
    kind, index_kind = _type(GATHER, "table", source), _index_type(GATHER, lanes)
    named = _table(GATHER, source, mode, lanes, remap)
    shape = lanes.shape + named.entry
    if target is not None:
        _check_out(target, kind, shape)
    steps = packed(shape) if target is None else _steps(target)
    out = Access("out", layout_of(shape, steps, lanes.ndim))
    index = _index(lanes, index_kind, named, Side.SRC, remap)
    move = Move((lanes.size, prod(named.entry)), out, _access("table", source, named.dims), index)
    whole = Whole(move, (("table", kind), ("indices", index_kind), ("out", kind)), fresh=target is None)
    return _plan(GATHER, whole, shape, source, lanes, target)


def _check_out(out: Array, kind: DType, shape: tuple[int, ...]) -> None:
    _check_written(GATHER, "out", out)
    if (found := _type(GATHER, "out", out)) is not kind:
        message = f"out must be of the table's element type, {kind}; found {found}"
        raise GATHER.refused(GATHER.same_type, message, f"pass np.empty({shape}, table.dtype)", "out", "H-08")
    if out.shape != shape:
        message = f"out must have the shape of the indices and of an entry, {shape}; found {out.shape}"
        raise GATHER.refused(GATHER.same_shape, message, f"pass np.empty({shape}, table.dtype)", "out", "H-09")


def _plan_scatter(
    target: Array,
    source: Array,
    lanes: Array,
    coalesce: object,
    oob: object,
    atomic: object,
    conflict: object,
    accumulate: object,
) -> _Plan:
    mode, remap = SCATTER.policy(Coalesce, "coalesce", coalesce), REMAPS[SCATTER.policy(ScatterOOB, "oob", oob)]
    combine = COMBINES[SCATTER.policy(ScatterAtomicOp, "atomic", atomic)]
    if not isinstance(conflict, ScatterConflict):  # the last writer is a writer that `default` may choose
        conflict = SCATTER.policy(ArrayConflict, "conflict", conflict)
    kind, index_kind = _type(SCATTER, "table", target), _index_type(SCATTER, lanes)
    _check_written(SCATTER, "table", target)
    _check_arithmetic(kind, combine)
    wide = _accumulator(accumulate, kind, combine)
    named = _table(SCATTER, target, mode, lanes, remap)
    shape = lanes.shape + named.entry
    spread = _spread(source, kind, shape)
    index = _index(lanes, index_kind, named, Side.DST, remap)
    src, cells = _access("src", spread, lanes.ndim), _access("table", target, named.dims)
    move = Move((lanes.size, prod(named.entry)), cells, src, index, combine)
    types = (("table", kind), ("indices", index_kind), ("src", kind))
    whole = Whole(move, types, wide, ordered=conflict is not ArrayConflict.Any)
    return _plan(SCATTER, whole, shape, target, lanes, source)


def _check_arithmetic(kind: DType, combine: Combine) -> None:
    is_ordered = kind.is_integer or kind.is_float
    if combine is Combine.STORE or is_ordered or (combine is Combine.ADD and kind.is_number):
        return
    message = f"{kind} cannot be {'added' if combine is Combine.ADD else 'ordered'}"
    raise SCATTER.refused("A-16", message, "scatter without atomic=", "table")


def _accumulator(given: object, kind: DType, combine: Combine) -> DType | None:
    if given is None:
        return None
    if given != FLOAT32:
        message = f"accumulate takes 'float32' or None; found {given!r}"
        raise SCATTER.refused("A-16", message, 'pass accumulate="float32"', "accumulate")
    if combine is Combine.ADD and kind.is_float and kind.size < FLOAT32.size:
        return FLOAT32
    message = f"accumulate is for sums of floats narrower than float32; found {combine.name.lower()} of {kind}"
    raise SCATTER.refused("A-16", message, "leave accumulate out", "accumulate")


def _spread(source: Array, kind: DType, shape: tuple[int, ...]) -> Array:
    """The source, broadcast to the shape of the scattered data."""
    if (found := _type(SCATTER, "src", source)) is not kind:
        message, fix = f"src must be of the table's element type, {kind}; found {found}", "src.astype(table.dtype)"
        raise SCATTER.refused(SCATTER.same_type, message, f"convert the data: {fix}", "src", "H-08")
    try:
        return cast("Array", source.broadcast_to(shape)) if on_gpu(source) else np.broadcast_to(source, shape)
    except ValueError:
        message = f"src must have the shape of the indices and of an entry, {shape}, or broadcast to it"
        fix = "give src one entry for each index"
        raise SCATTER.refused(SCATTER.same_shape, f"{message}; found {source.shape}", fix, "src", "H-09") from None


def _index(lanes: Array, kind: DType, named: _Table, side: Side, remap: Remap) -> Index:
    access = _access("indices", lanes, lanes.ndim)
    return Index(access, side, IndexUnit.ROW, named.capacity, remap, cast=kind.size <= 4)


def _access(name: str, array: Array, dims: int) -> Access:
    return Access(name, layout_of(array.shape, _steps(array), dims))


def _steps(array: Array) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(step // array.itemsize for step in array.strides)


def _plan(
    call: _Call, whole: Whole, shape: tuple[int, ...], table: Array, indices: Array, other: Array | None
) -> _Plan:
    (_, _), (_, _), (name, _) = whole.types
    given = {"table": table, "indices": indices, name: other}
    arrays = {name: array for name, array in given.items() if array is not None}
    (_, kind), (_, index_kind), _ = whole.types
    return _Plan(
        shape=shape,
        lanes=indices.shape,
        dtype=kind.numpy,
        nbytes=prod(shape) * kind.size,
        whole=None if any(map(_is_unsupported, arrays.values())) else whole,
        gpu=_gpu(call, arrays),
        table=(kind, _reach(table)),
        indices=(index_kind, _reach(indices)),
        other=(kind, prod(shape) if other is None else _reach(other)),
        extents={name: _reach(array) * array.itemsize for name, array in arrays.items()},
    )


def _gpu(call: _Call, arrays: Mapping[str, Array]) -> int | None:
    """The GPU that has the arrays; one element of the host can be used on any."""
    for name, array in arrays.items():
        if array.size and _is_skewed(array) and on_gpu(array):  # no library can copy it
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


# --- Memory layouts that no engine supports, and shared memory ---------------------------------------------------


def _is_unsupported(array: Array) -> bool:
    """Whether elements lie backwards, between the places of elements, or across their alignment."""
    return array.size > 0 and (_is_skewed(array) or any(step < 0 for step in _moving(array)))


def _is_skewed(array: Array) -> bool:
    return not array.flags.aligned or any(step % array.itemsize for step in _moving(array))


def _moving(array: Array) -> list[int]:
    return [step for step, extent in zip(array.strides, array.shape, strict=True) if extent > 1]


def _supported(array: Array) -> Array:
    return _packed(array) if _is_unsupported(array) else array


def _packed(array: Array) -> Array:
    """A copy in C order; broadcast dims stay broadcast."""
    if on_gpu(array):
        return gpu.packed_copy(array)
    once = tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)
    copy = array[once].copy()
    return copy if copy.shape == array.shape else np.broadcast_to(copy, array.shape)


def _empty(like: Array) -> Any:
    """A new array of the same shape, type and library."""
    return gpu.empty(like, like.shape).owner if on_gpu(like) else np.empty(like.shape, like.dtype)


def _copy(target: Array, values: Any) -> None:
    """Copy an array of the same library into this one."""
    if on_gpu(target):
        gpu.assign(target, values)
    else:
        np.copyto(target, values)


# --- Results and engines ---------------------------------------------------------------------------------------


def _order(plan: _Plan, engine: str, *arrays: object) -> AbstractContextManager[object] | None:
    """A block whose work is done where the arrays are, in the order of their streams; None if all work is. Refuses
    invalid engines."""
    if engine not in ENGINES:
        check_engine(engine, ENGINES, "the machine runs kernels: kernel[grid](..., engine='machine')")
    if plan.gpu is None:
        return None
    chosen(engine, True)  # refuses engines of the host, and says what is missing
    return in_order([array for array in arrays if type(array) is DeviceArray])


def _keep(call: _Call, how: tuple[Any, ...], plan: _Plan, operands: Sequence[Any], described: Sequence[Any]) -> None:
    """Keep a call on a GPU that was executed, if only addresses are needed to repeat it."""
    arrays = [each for each in described if each is not None]
    if plan.whole is None or 0 in plan.lanes or not all(map(on_gpu, arrays)) or len({a.order for a in arrays}) > 1:
        return
    made = RepeatedCall(
        execute=addressed(chosen(how[-2], True), plan.whole, arrays[0].gpu),
        is_in_order=ordering(arrays),
        is_tracked=gpu.is_torch(operands[0]),
        operands=tuple(plan.extents),
        overlap=plan.overlap if len(arrays) == len(described) else None,
        outside=partial(call.outside, shape=plan.lanes),
        shape=plan.shape,
        dtype=plan.dtype,
    )
    repeated.keep(how, operands, made)


def _result(table: object, source: Array, plan: _Plan) -> tuple[Array, Any]:
    """New memory for the result, and the object that is returned: of the table's own kind."""
    if on_gpu(source):
        made = gpu.empty(source, plan.shape)
        return cast("Array", made), made.owner
    if type(table) is not np.ndarray and (torch := sys.modules.get("torch")) and isinstance(table, torch.Tensor):
        tensor = cast("Any", table).new_empty(plan.shape)
        return as_array(tensor), tensor
    memory: Any = np.empty(plan.nbytes + ALIGNMENT, BYTE)
    result: Array = np.ndarray(plan.shape, plan.dtype, memory, -addressof(c_char.from_buffer(memory)) % ALIGNMENT)
    return result, result


def _run(call: _Call, plan: _Plan, storages: Mapping[str, Storage], engine: str, threads: int | None) -> None:
    if 0 in plan.lanes:
        return
    assert plan.whole is not None
    try:
        _execute(plan, plan.whole, storages, engine, threads)
    except IndexFault as fault:
        raise call.outside(fault.report, plan.lanes) from None


def _execute(plan: _Plan, whole: Whole, storages: Mapping[str, Storage], engine: str, threads: int | None) -> None:
    try:
        name = chosen(engine, plan.gpu is not None)
        return arrays(name)(whole, storages, 1 if threads is None and plan.nbytes <= ON_ONE_THREAD else threads)
    except Unsupported as problem:
        if plan.gpu is not None:
            raise ValueError(f"a GPU does not take this call: {problem}; copy the arrays to the host") from None
        if engine != AUTO:
            raise ValueError(f'engine "{engine}" does not take this call: {problem}; use engine="auto"') from None
    return arrays(REFERENCE)(whole, storages, 1)
