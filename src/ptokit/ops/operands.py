# pyright: strict
"""Operands as arrays over their memory: indices of all forms, numbers, layouts that no engine supports."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ptokit.brief import brief
from ptokit.engine.gpu import on_gpu
from ptokit.engine.number import float_bits
from ptokit.finding import Fix, OperandName
from ptokit.isa.common import INDEX_TYPES
from ptokit.isa.dtype import DType, dtype
from ptokit.lang import gpu
from ptokit.lang.arrays import as_array, exact_cast
from ptokit.lang.launch import refuse_captured
from ptokit.ops.array_call import ArrayCall

Array = np.ndarray[Any, np.dtype[Any]]

NUMBERS = (bool, int, float, complex, np.generic)
LISTS = (list, tuple, range)
LISTED_INDICES, LISTED_VALUES = (*LISTS, int), (*NUMBERS, *LISTS)
DIRECT = frozenset(np.dtype(name) for name in INDEX_TYPES["host"])
"""The index types that engines read."""
OTHERS = frozenset(np.dtype(name) for name in ("int8", "int16", "uint8", "uint16", "uint64"))
"""Index types that are converted to int64 first."""


def array_of(call: ArrayCall, name: str, given: object, *, written: bool = False) -> Array:
    """An operand's memory as an array; never a copy."""
    if written and isinstance(given, np.generic):
        raise TypeError(f"{call.name}: {name}: a NumPy number has no memory to write to; pass an array")
    try:
        return as_array(given)
    except TypeError as problem:
        raise TypeError(f"{call.name}: {name}: {problem}") from None


def listed_indices(call: ArrayCall, given: object, table: object) -> object:
    """Indices, as an array if they are a list, a range or an integer."""
    return indices_of(call, cast("object", given), table) if isinstance(given, LISTED_INDICES) else given


def listed_source(call: ArrayCall, given: object, table: object) -> object:
    """The source of a scatter, as an array if it is a number or a list."""
    return source_of(call, cast("object", given), table) if isinstance(given, LISTED_VALUES) else given


def indices_of(call: ArrayCall, given: object, table: object) -> Array:
    """Indices as an array: the memory of one, or a new one for a list, a range or an integer, where the table is."""
    if isinstance(given, range):
        made = _ranged(call, given)
    elif isinstance(given, list | tuple | int):
        made = listed(call, cast("object", given))
    else:
        return array_of(call, "indices", given)
    there = array_of(call, "table", table)
    return _uploaded(call, made, there) if on_gpu(there) else made


def _uploaded(call: ArrayCall, made: Array, table: Any) -> Array:
    """An array of the host where the table is."""
    refuse_captured(call.name, [table], "a list is copied to the GPU", "pass an array that is there")
    return cast("Array", gpu.upload(made, table.gpu))


def listed(call: ArrayCall, given: object) -> Array:
    """A list, a tuple or a number as an array of indices."""
    try:
        made = np.asarray(given)
    except ValueError:
        raise ValueError(
            f"{call.name}: indices: the rows of the list differ in length; pass a rectangular one"
        ) from None
    if made.dtype.kind in "fO" and made.size and all(isinstance(each, int) for each in np.asarray(given, object).flat):
        raise _too_large(call)  # NumPy makes floats or objects of them
    return made if made.size else made.astype(np.int64)


def _ranged(call: ArrayCall, given: range) -> Array:
    """A range as int64; NumPy's own would wrap around."""
    ends = (given[0], given[-1], given.step) if len(given) > 1 else (*given, 1)
    if any(not -(1 << 63) <= each < 1 << 63 for each in ends):
        raise _too_large(call)
    return np.arange(len(given), dtype=np.int64) * ends[-1] + (ends[0] if given else 0)


def _too_large(call: ArrayCall) -> Exception:
    message = "indices are integers of 8 to 64 bits; found numbers that no such type holds"
    return call.refused(call.index_type, message, "pass an array of int64 or uint64", "indices", "H-08")


def source_of(call: ArrayCall, given: object, table: object) -> Array:
    """The source of a scatter: an array, or numbers in the table's type, rounded once for floats."""
    if not isinstance(given, LISTED_VALUES):
        return array_of(call, "src", given)
    table = array_of(call, "table", table, written=True)
    made = numbers_of(call, cast("object", given), type_of(call, "table", table))
    if not made.ndim or not on_gpu(table):
        return made
    if made.dtype.isbuiltin != 1:  # CuPy takes NumPy's own types
        raise TypeError(
            f"{call.name}: src: a list of {made.dtype} cannot be copied to a GPU; pass an array that is there"
        )
    return _uploaded(call, made, table)


def numbers_of(call: ArrayCall, given: object, kind: DType) -> Array:
    """A number, or numbers in lists, as the source of a scatter into a table of this type."""
    if not isinstance(given, LISTS):
        return number_of(call, given, kind)
    ragged = ValueError(f"{call.name}: src: the rows of the list differ in length; pass a rectangular one")
    try:
        cells = np.asarray(given, object)
    except ValueError:
        raise ragged from None
    made = np.empty(cells.shape, kind.numpy)
    for at, each in np.ndenumerate(cells):
        if isinstance(each, LISTS) or getattr(each, "ndim", 0):
            raise ragged
        made[at] = number_of(call, each, kind)
    return made


def number_of(call: ArrayCall, given: object, kind: DType) -> Array:
    """A number as the source of a scatter into a table of this type."""
    try:
        return _number(given, kind)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"{call.name}: src: {problem}") from None


def _number(given: Any, kind: DType) -> Array:
    number = np.asarray(given)
    if kind.family == "complex":
        return _complex(number, kind)
    if not kind.is_float or number.dtype == kind.numpy or kind.size > 8:
        return exact_cast(given, kind, "a table").view(kind.numpy)
    if (number.dtype.hasobject and not isinstance(given, int)) or number.dtype.kind in "SUMmc":
        raise TypeError(f"a table of {kind} takes a real number; found {brief(given)}")
    return float_bits(number, kind, "a number").view(kind.numpy).reshape(())


def _complex(number: Array, kind: DType) -> Array:
    """A number as one complex element, each part rounded once."""
    with np.errstate(all="ignore"):
        kept, wide = number.astype(kind.numpy), number.astype(np.clongdouble)
    if not np.isfinite(kept) and np.isfinite(wide):
        raise ValueError(f"{brief(number.item())} is not representable in {kind}; it would become infinite")
    return kept


def type_of(call: ArrayCall, name: str, array: Array) -> DType:
    """The element type of an operand."""
    try:
        return dtype(array.dtype)
    except TypeError as problem:
        raise TypeError(f"{call.name}: {name}: {problem}") from None


def index_type(call: ArrayCall, indices: Array) -> DType:
    """The element type of indices; refuses what is no integer."""
    kind, words = type_of(call, "indices", indices), call.words("indices")
    if indices.dtype in DIRECT or indices.dtype in OTHERS:
        return kind
    is_mask = kind.name == "bool"
    converted = Fix("convert them: ", OperandName("indices"), words.integers)
    fix = f"pass positions instead: {words.positions}" if is_mask else converted
    message = f"indices are integers of 8 to 64 bits; found {'a mask of bool' if is_mask else kind}"
    raise call.refused(call.index_type, message, fix, "indices", "H-08")


def check_written(call: ArrayCall, name: str, array: Array) -> None:
    """Refuse read-only arrays, and those whose cells may share memory."""
    if not array.flags.writeable:
        raise ValueError(f"{call.name}: {name} is read-only; pass a writable array")
    reach = array.itemsize
    for step, extent in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if step < reach and array.size:
            message = f"cells of {name} share memory: shape {array.shape}, strides {array.strides} in bytes"
            raise call.refused("CO-SEM-01", message, "copy the array first", name)
        reach += step * (extent - 1)


# --- Memory layouts that no engine supports, and shared memory ---------------------------------------------------


def is_unsupported(array: Array) -> bool:
    """Whether elements lie backwards, between the places of elements, or across their alignment."""
    return array.size > 0 and (is_skewed(array) or any(step < 0 for step in _moving(array)))


def is_skewed(array: Array) -> bool:
    """Whether elements lie between the places of elements, or across their alignment."""
    return not array.flags.aligned or any(step % array.itemsize for step in _moving(array))


def _moving(array: Array) -> list[int]:
    return [step for step, extent in zip(array.strides, array.shape, strict=True) if extent > 1]


def share_memory(array: Array, other: Array) -> bool:
    """Whether the ranges of the memories of two arrays overlap."""
    if on_gpu(array) and on_gpu(other):
        (start, end), (begin, stop) = array.bounds, other.bounds
        return array.gpu == other.gpu and start < stop and begin < end
    return not on_gpu(array) and not on_gpu(other) and np.may_share_memory(array, other)


def supported(array: Array) -> Array:
    """The array, or a copy that engines support."""
    return packed_copy(array) if is_unsupported(array) else array


def packed_copy(array: Array) -> Array:
    """A copy in C order; broadcast dims stay broadcast."""
    if on_gpu(array):
        return as_array(gpu.packed_copy(array))
    once = tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)
    copy = array[(..., *once)].copy()  # an array also without dims, where `array[()]` is a number
    return copy if copy.shape == array.shape else np.broadcast_to(copy, array.shape)


def empty_like(array: Array) -> Array:
    """A new array of the same shape, type and library."""
    return cast("Array", gpu.empty(array, array.shape)) if on_gpu(array) else np.empty(array.shape, array.dtype)


def copy_into(target: Array, values: Array) -> None:
    """Copy an array of the same library into this one."""
    if on_gpu(target):
        gpu.assign(target, cast("Any", values).owner)
    else:
        np.copyto(target, values)
