# pyright: strict
"""The short path of calls: from the addresses and sizes of arrays to the code of an engine.

A plan is for a kind of call: libraries, element types, policies, engine and GPU. It knows no sizes. What can be wrong
with the sizes of a call is checked on every call. A call that is wrong, or that an engine cannot take as it is, goes
the long way of `ops.functions`, which says what is wrong. It plans a kind after the first call.

Small calls take as long as this module does: it uses tuples, and few functions.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, c_char
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np

from ptokit.engine.gpu import DeviceArray
from ptokit.engine.kept import remember
from ptokit.engine.storage import address_of
from ptokit.engine.whole import MoveSizes, PreparedMove
from ptokit.isa.layout import packed
from ptokit.lang import gpu
from ptokit.lang.arrays import notify

MOST_PLANS = 1024
ALIGNMENT = 64
"""Results begin at a cache line: writing rows that straddle lines takes four times as long."""
BYTE = np.dtype(np.uint8)
NO_MORE: dict[str, Any] = {}
REFUSED = -1
"""In place of the number of a GPU, for other devices."""
HAS_ROWS = 0
"""In place of the address of the rows of a new table, which has them."""

How = tuple[Any, ...]
"""The name of a call, its policies and its engine."""
Steps = tuple[int, ...] | None
"""Strides in elements; None for arrays in C order."""
Operand = tuple[Any, int, tuple[int, ...], Steps]
"""An array: what plans depend on (its element type, its library and its GPU), its address, its shape and its steps."""


class DirectPlan(NamedTuple):
    """A kind of call that was executed before."""

    ready: PreparedMove
    dims: int | None
    """The dims of the table that indices number; None for all of them."""
    itemsize: int
    index_size: int
    dtype: np.dtype[Any]
    new: Callable[..., tuple[Any, int]]
    """Makes a result: takes the table, a shape and a type; returns an array and its address."""
    is_tracked: bool
    """Whether what is written is a torch tensor."""
    is_in_order: Callable[[], bool] | None
    """Whether work is done by the GPU of the arrays, in the order of their stream anyway; None on the host."""
    warn: Callable[[int, object], None] | None
    """Warns of negative indices; takes the capacity and the indices."""


PLANS: dict[Any, DirectPlan] = {}


def direct_gather(table: object, indices: object, out: object, how: How, threads: int | None) -> Any:
    """Gather by a plan; None if the call must go the long way."""
    cells, lanes = READ.get(type(table), _met)(table), READ.get(type(indices), _met)(indices)
    target = None if out is None else READ.get(type(out), _met)(out)
    if cells is None or lanes is None or (target is None and out is not None):
        return None
    plan = find((how, cells[0], lanes[0], None if target is None else target[0]))
    sizes = None if plan is None else sizes_of(plan.dims, cells, lanes, target, False)
    if plan is None or sizes is None:
        return None
    if plan.warn is not None:
        plan.warn(sizes[2], indices)
    if target is None:
        made, there = plan.new(table, lanes[2] if plan.dims is None else lanes[2] + cells[2][plan.dims :], plan.dtype)
    elif is_writable(out, target) and are_apart(plan, target, cells, lanes):
        made, there = out, target[1]
    else:
        return None
    if not plan.ready(cells[1], lanes[1], there, sizes, threads):
        return None
    if target is not None and plan.is_tracked:
        notify(out)
    return made


def direct_scatter(
    table: object, src: object, indices: object, how: How, threads: int | None, initial: int | None = None
) -> bool:
    """Scatter by a plan; False if the call must go the long way.

    `initial` is for a table that is new memory: the address of the rows that it has before, `ZEROS`, or `HAS_ROWS`.
    """
    cells, lanes = READ.get(type(table), _met)(table), READ.get(type(indices), _met)(indices)
    values = READ.get(type(src), _met)(src)
    if cells is None or lanes is None or values is None:
        return False
    plan = find((how, cells[0], lanes[0], values[0]))
    sizes = None if plan is None else sizes_of(plan.dims, cells, lanes, values, True)
    if plan is None or sizes is None:
        return False
    if initial is None and not (is_writable(table, cells) and are_apart(plan, cells, values, lanes)):
        return False
    if plan.warn is not None:
        plan.warn(sizes[2], indices)
    more: dict[str, Any] = {"initial": initial} if initial else NO_MORE
    is_done = True
    try:
        is_done = plan.ready(cells[1], lanes[1], values[1], sizes, threads, **more)
    finally:  # also if it is interrupted
        if is_done and initial is None and plan.is_tracked:
            notify(table)
    return is_done


def find(key: tuple[Any, ...]) -> DirectPlan | None:
    """The plan of a kind of call, if work would be in order."""
    try:
        plan = PLANS.get(key)
    except TypeError:  # an invalid policy, which the long way refuses
        return None
    if plan is None or plan.is_in_order is None or plan.is_in_order():
        return plan
    return None


def keep(plan: DirectPlan, *key: object) -> None:
    """Keep the plan of a kind of call."""
    remember(PLANS, key, plan, MOST_PLANS)


# --- sizes -----------------------------------------------------------------------------------------------------------


def sizes_of(
    leading: int | None, cells: Operand, lanes: Operand, other: Operand | None, broadcasts: bool
) -> MoveSizes | None:
    """The sizes of a call whose indices number some leading dims of a table; None if there is nothing to do, if shapes
    do not fit, or if rows are not even."""
    _, _, shape, steps = cells
    _, _, named, index_steps = lanes
    dims = len(shape) if leading is None else leading
    if dims > len(shape):
        return None
    entry = shape[dims:]
    capacity, width, count = prod(shape[:dims]), prod(entry), prod(named)
    if not (capacity and width and count):
        return None
    if steps is index_steps is None and (other is None or (other[3] is None and other[2] == named + entry)):
        return new_tuple(MoveSizes, (count, width, capacity, width, 1, width, 1, 1))
    row = other_row = width
    col = other_col = step = 1
    if steps is not None:
        row, col = joined(shape[:dims], steps[:dims]), joined(entry, steps[dims:])
    if index_steps is not None:
        step = joined(named, index_steps)
    if other is not None:
        _, _, extents, other_steps = other
        if extents != named + entry:
            other_steps = broadcast_steps(other, named + entry) if broadcasts else None
            if other_steps is None:
                return None
        if other_steps is not None:
            outer = len(named)
            other_row, other_col = joined(named, other_steps[:outer]), joined(entry, other_steps[outer:])
    if row is None or col is None or step is None or other_row is None or other_col is None:
        return None
    return new_tuple(MoveSizes, (count, width, capacity, row, col, other_row, other_col, step))


new_tuple = cast("Callable[..., Any]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""Makes a named tuple in half the time that its class takes."""


def joined(shape: tuple[int, ...], steps: tuple[int, ...]) -> int | None:
    """The step of several dims as one; None if they do not join."""
    found: int | None = None
    reach = 0
    for extent, step in zip(reversed(shape), reversed(steps), strict=True):
        if extent == 1:
            continue
        if found is None:
            found = step
        elif step != reach:
            return None
        reach = step * extent
    return found or 0


def broadcast_steps(array: Operand, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The steps of an array repeated to a shape; None if it does not broadcast."""
    _, _, own, steps = array
    more = len(shape) - len(own)
    if more < 0 or any(mine not in (1, n) for mine, n in zip(own, shape[more:], strict=True)):
        return None
    paired = zip(packed(own) if steps is None else steps, own, shape[more:], strict=True)
    return *(0,) * more, *(step if mine == n else 0 for step, mine, n in paired)


def are_apart(plan: DirectPlan, written: Operand, values: Operand, lanes: Operand) -> bool:
    """Whether what is written shares no memory with what is read."""
    size = plan.itemsize
    start, end = bounds_of(written, size)
    for first, last in (bounds_of(values, size), bounds_of(lanes, plan.index_size)):
        if first < end and start < last:
            return False
    return True


def bounds_of(array: Operand, itemsize: int) -> tuple[int, int]:
    """The addresses of the first element, and behind the last."""
    _, address, shape, steps = array
    if steps is None:
        return address, address + prod(shape) * itemsize
    return address, address + (1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))) * itemsize


# --- arrays of the libraries -----------------------------------------------------------------------------------------


def describe(array: object) -> Operand | None:
    """An array as engines take it; None for other objects, and for arrays that the long way copies or refuses."""
    return READ.get(type(array), _met)(array)


def _met(array: Any) -> Operand | None:
    """As `describe`, for an object of a type that was not met before."""
    if not (gpu.is_torch(array) or gpu.is_cupy(array)):
        return None
    read = READ[type(array)] = _tensor if gpu.is_torch(array) else _cupy
    return read(array)


def _numpy(array: Any) -> Operand | None:
    flags, kind = array.flags, array.dtype
    if not flags.aligned:
        return None
    if flags.c_contiguous:
        try:
            return kind, addressof(c_char.from_buffer(array)), array.shape, None
        except (TypeError, ValueError):  # read-only, or empty
            return kind, address_of(array), array.shape, None
    steps = steps_of(array.strides, kind.itemsize)
    return None if steps is None else (kind, address_of(array), array.shape, steps)


def steps_of(strides: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """Strides in elements; None if one is negative, or leads between elements."""
    if any(stride < 0 or stride % itemsize for stride in strides):
        return None
    return tuple(stride // itemsize for stride in strides)


def _tensor(tensor: Any) -> Operand | None:
    if tensor.requires_grad and gpu.is_recorded(tensor):
        return None
    try:
        address, kind = tensor.data_ptr(), tensor.dtype
    except RuntimeError:  # sparse, or without values
        return None
    number = None if tensor.is_cpu else tensor.get_device() if tensor.is_cuda else REFUSED
    if number == REFUSED or not address or address % kind.itemsize or tensor.is_neg():
        return None
    if kind.is_complex and tensor.is_conj():
        return None
    return (kind, number), address, tuple(tensor.shape), None if tensor.is_contiguous() else tensor.stride()


def _device(array: DeviceArray) -> Operand | None:
    steps = steps_of(array.strides, array.itemsize)
    if steps is None or array.address % array.itemsize:
        return None
    return (array.dtype, array.gpu, array.order), array.address, array.shape, steps


def _cupy(array: Any) -> Operand | None:
    memory, kind, is_packed = array.data, array.dtype, array.flags.c_contiguous
    steps = None if is_packed else steps_of(array.strides, kind.itemsize)
    if memory.ptr % kind.itemsize or not (is_packed or steps):
        return None
    return (kind, memory.device_id, "cupy"), memory.ptr, array.shape, steps


READ: dict[type[Any], Callable[[Any], Operand | None]] = {np.ndarray: _numpy, np.memmap: _numpy, DeviceArray: _device}
"""How arrays of a type are described, for those that were met."""


def is_writable(array: Any, described: Operand) -> bool:
    """Whether an array may be written, and no two of its elements share memory."""
    if type(array) is not DeviceArray and hasattr(array, "setflags") and not array.flags.writeable:
        return False
    _, _, shape, steps = described
    if steps is None:
        return True
    end = 1
    for step, extent in sorted((s, n) for s, n in zip(steps, shape, strict=True) if n > 1):
        if step < end:
            return False
        end += step * (extent - 1)
    return type(array) is not DeviceArray or array.writeable


def new_array(_table: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, int]:
    """A new NumPy array, and its address."""
    memory: Any = np.empty(prod(shape) * dtype.itemsize + ALIGNMENT, BYTE)
    start = addressof(c_char.from_buffer(memory))
    offset = -start % ALIGNMENT
    return np.ndarray(shape, dtype, memory, offset), start + offset


def new_tensor(table: Any, shape: tuple[int, ...], _dtype: object) -> tuple[Any, int]:
    """A new torch tensor where a table is, and its address."""
    made = gpu.new_tensor(table, shape)
    return made, made.data_ptr()


def new_function(table: object, on_gpu: bool) -> Callable[..., tuple[Any, int]]:
    """The function that makes results in the library of a table; in CuPy for other arrays on a GPU."""
    return new_tensor if gpu.is_torch(table) else gpu.new if on_gpu else new_array
