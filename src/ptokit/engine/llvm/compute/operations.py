"""Computing operations as machine code: each is one loop nest that gives the bits of `engine/compute.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptokit.engine.llvm.address import MemoryView, is_number
from ptokit.engine.llvm.compute import convert, cube, elements, masks, rows
from ptokit.engine.llvm.compute.elements import ElementSite, is_float, lanes_for, operations
from ptokit.engine.llvm.compute.walk import RegionView, RegionWalk, side
from ptokit.engine.llvm.emit import I64, Chip, IrValue, Variable
from ptokit.engine.llvm.move import CodeWriter
from ptokit.engine.llvm.numbers import BYTE_FORMATS
from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine, Compute
from ptokit.isa.policy import IotaOrder, Triangle

PRODUCTS = {"int8": "int32", **dict.fromkeys(("float16", "bfloat16", "float32", *BYTE_FORMATS), "float32")}
"""What matrices can be multiplied, and the type of their product."""
REGISTERS = (1, 2, 4, 8)
"""Sizes of elements that are moved as they are."""


@dataclass(frozen=True)
class ComputeTask:
    """A computation, with where its operands lie."""

    work: Compute
    writer: CodeWriter
    into: DType
    """The result's type."""
    input_types: tuple[DType, ...]
    """The inputs' types."""
    dst: RegionView
    inputs: tuple[RegionView, ...]
    options: Mapping[str, Any]
    refused: str

    def site(self, dtype: DType) -> ElementSite:
        """Where elements of a type are computed with."""
        return ElementSite(self.writer.code, dtype)

    def walk(self, *inputs: RegionView) -> RegionWalk:
        """The lanes of the result, and what they read."""
        return RegionWalk(self.writer, self.work.shape, self.dst, inputs or self.inputs)

    def apply(self, most: int, function: Callable[[Sequence[IrValue]], IrValue], *inputs: RegionView) -> None:
        """Apply a function of elements to all lanes, up to `most` at once."""
        self.walk(*inputs).vectorised(most).apply(most, lambda given, _j, _lanes: function(given))


def _elementwise(task: ComputeTask) -> None:
    apply, site = operations(task.into)[task.work.op], task.site(task.into)
    task.apply(elements.lanes_of_op(task.work.op, task.into), lambda given: apply(site, *given))


def _refuse_zeroes(task: ComputeTask) -> None:
    """Leave before anything is written if a divisor is zero."""
    if is_float(task.into):
        return
    code, divisor, most = task.writer.code, task.inputs[1], lanes_for(task.into)

    def find(found: Variable) -> None:
        def check(given: Sequence[IrValue], _j: IrValue, lanes: int) -> None:
            zeroes = given[0].compare("eq", 0)
            found.set(found.get() | (zeroes if lanes == 1 else zeroes.bits(f"i{lanes}").compare("ne", 0)))

        RegionWalk(task.writer, task.work.inputs[1].shape, None, (divisor,)).vectorised(most).apply(most, check)

    code.leave_if(code.any(find), task.refused)


def _copy(task: ComputeTask) -> None:
    task.apply(lanes_for(task.into), lambda given: given[0])


def _window(task: ComputeTask) -> None:
    """Copy what lies at `row` and `col` of the input and beyond."""
    corner = task.options["row"], task.options["col"]
    for number in corner:
        task.writer.value_of(number)  # here, not in a loop: what was computed once is used from then on
    task.apply(
        lanes_for(task.into), lambda given: given[0], RegionView(task.writer, task.inputs[0].place, shift=corner)
    )


def _count(task: ComputeTask) -> None:
    """From the first number on, one more or less with every column."""
    code, dtype = task.writer.code, task.into
    down = task.options["order"] is IotaOrder.Descending

    def step(given: Sequence[IrValue], j: IrValue, _lanes: int) -> IrValue:
        signed = code.i64(0) - j if down else j
        if not is_float(dtype):
            return given[0] + signed.to("trunc", given[0].type)
        start = elements.single(code, dtype, given[0])
        return elements.from_single(code, dtype, start + signed.to("sitofp", start.type))

    task.walk().apply(1, step)


def _triangle(task: ComputeTask) -> None:
    """Ones from the diagonal on, or up to it."""
    code, dtype, value_of = task.writer.code, task.into, task.writer.value_of
    zero = code.i64(0)
    kind, diagonal = f"i{8 * dtype.size}", task.inputs[0].row(zero).load(zero).to("sext", I64)
    one = code.constant(kind, int.from_bytes(np.ones((), dtype.numpy).tobytes(), sys.byteorder))
    how = "sge" if task.options["half"] is Triangle.Upper else "sle"
    with code.share(0, value_of(task.work.shape[0])) as i:
        row = task.dst.row(i)
        with code.loop(0, value_of(task.work.shape[1])) as j:
            row.store(code.select(j.compare(how, i + diagonal), one, code.constant(kind, 0)), j)


def _convert(task: ComputeTask) -> None:
    types = task.input_types[0], task.into
    options = task.options["mode"], task.options["saturation"]
    most, code = convert.lanes_of_conversion(*types), task.writer.code
    task.apply(most, lambda given: convert.convert(code, *types, given[0], *options))


def _compare(task: ComputeTask) -> None:
    wide = next((each for each in task.work.inputs if not is_number(each.shape[1], 1)), task.work.inputs[0])
    site = task.site(task.input_types[0])
    masks.compare(site, task.options["mode"], task.dst, task.inputs, task.work.shape, wide.shape[1])


def _select(task: ComputeTask) -> None:
    mask, *inputs = task.inputs
    masks.select(task.site(task.into), task.dst, mask, inputs, task.work.shape)


REDUCERS = {"row": rows.reduce_rows, "col": rows.reduce_columns}


def _reduce(task: ComputeTask) -> None:
    axis, fold = task.work.op[:3], rows.FOLDS[task.work.op[3:]]
    REDUCERS[axis](task.site(task.into), fold, task.dst, task.inputs[0], *task.work.inputs[0].shape)


LOCATORS = {"row": rows.locate_rows, "col": rows.locate_columns}


def _locate(task: ComputeTask) -> None:
    axis, how = task.work.op[:3], rows.BETTER[task.work.op[3:]]
    LOCATORS[axis](task.site(task.input_types[0]), how, task.dst, task.inputs[0], *task.work.inputs[0].shape)


def _add_multiple(task: ComputeTask) -> None:
    """The inputs as elements of the result's type."""
    code, into, ops = task.writer.code, task.into, operations(task.into)
    site = task.site(into)

    def alike(bits: IrValue, given: DType) -> IrValue:
        return bits if given is into else elements.from_single(code, into, elements.single(code, given, bits))

    def step(given: Sequence[IrValue]) -> IrValue:
        y, x, factor = map(alike, given, task.input_types)
        return ops["add"](site, y, ops["mul"](site, x, factor))

    task.apply(lanes_for(into, *task.input_types), step)


def _multiply(task: ComputeTask) -> None:
    extents = (*task.work.shape, task.work.inputs[0].shape[1])
    left, right = map(task.site, task.input_types[:2])
    cube.multiply(task.site(task.into), (left, right), task.dst, task.inputs, extents)


Types = Sequence[DType]
Takes = Callable[[str, DType, Types], bool]
"""Given an operation's name, the result's type and the inputs'."""


def _alike(into: DType, given: Types) -> bool:
    return all(each is into for each in given)


def _takes_elements(op: str, into: DType, given: Types) -> bool:
    return _alike(into, given) and op in operations(into)


def _takes_bits(_op: str, into: DType, given: Types) -> bool:
    return _alike(into, given) and into.size in REGISTERS


def _takes_numbers(_op: str, into: DType, given: Types) -> bool:
    return elements.is_numeric(into) and _alike(into, given)


def _takes_whole_number(_op: str, into: DType, given: Types) -> bool:
    return elements.is_numeric(into) and given[0].name == "int32"


def _takes_conversion(_op: str, into: DType, given: Types) -> bool:
    """No instruction makes floats of one byte from whole numbers, and the reference signs the NaNs they overflow to."""
    return all(map(elements.is_numeric, (into, *given))) and (is_float(given[0]) or into.name not in BYTE_FORMATS)


def _takes_comparison(_op: str, into: DType, given: Types) -> bool:
    return into.is_integer and _alike(given[0], given) and "max" in operations(given[0])


def _takes_selection(op: str, into: DType, given: Types) -> bool:
    return given[0].is_integer and _takes_bits(op, into, given[1:])


def _takes_rows(_op: str, into: DType, given: Types) -> bool:
    return _alike(into, given) and "max" in operations(into)


def _takes_position(_op: str, into: DType, given: Types) -> bool:
    return into.is_integer and into.name != "bool" and "max" in operations(given[0])


WIDENED = {("float32", "float16")}
"""Types of a result and of its addend, if they differ."""


def _takes_multiple(_op: str, into: DType, given: Types) -> bool:
    first, *others = given
    is_known = all(each is into or (into.name, each.name) in WIDENED for each in others)
    return first is into and is_float(into) and is_known


def _takes_product(_op: str, into: DType, given: Types) -> bool:
    bytes_only = all(each.name in BYTE_FORMATS for each in given[:2])
    multiplied = PRODUCTS.get(given[0].name) == into.name and (bytes_only or _alike(given[0], given[:2]))
    return multiplied and _alike(into, given[2:])


@dataclass(frozen=True)
class NativeOperation:
    """How an operation is written, for which types, and whether lane by lane."""

    emit: Callable[[ComputeTask], None]
    takes: Takes
    lanewise: bool = False
    in_order: bool = False
    """Whether it is lanewise only if one thread takes the lanes in their order."""
    added: int = 0
    """The first input that is added to the result at the end, lane by lane, if there are such inputs."""
    check: Callable[[ComputeTask], None] | None = None
    """What is checked before anything is written."""


OPERATIONS: Mapping[str, NativeOperation] = {
    **dict.fromkeys(
        (*elements.FLOAT_OPS, *elements.WHOLE_OPS), NativeOperation(_elementwise, _takes_elements, lanewise=True)
    ),
    "div": NativeOperation(_elementwise, _takes_elements, lanewise=True, check=_refuse_zeroes),
    "copy": NativeOperation(_copy, _takes_bits, lanewise=True),
    "iota": NativeOperation(_count, _takes_numbers, lanewise=True),
    "tri": NativeOperation(_triangle, _takes_whole_number),
    "cvt": NativeOperation(_convert, _takes_conversion, lanewise=True),
    "sel": NativeOperation(_select, _takes_selection, lanewise=True, in_order=True),
    "cmp": NativeOperation(_compare, _takes_comparison),
    "window": NativeOperation(_window, _takes_bits),
    "axpy": NativeOperation(_add_multiple, _takes_multiple, lanewise=True),
    **{axis + best: NativeOperation(_locate, _takes_position) for axis in LOCATORS for best in rows.BETTER},
    **{axis + fold: NativeOperation(_reduce, _takes_rows) for axis in REDUCERS for fold in rows.FOLDS},
    "matmul": NativeOperation(_multiply, _takes_product, added=2),
}
"""Every operation by name."""


def supports(work: Compute, types: Mapping[str, DType]) -> bool:
    """Whether there is machine code for an operation on these types."""
    given = [types[each.operand] for each in work.inputs]
    is_known = work.combine is Combine.STORE and work.op in OPERATIONS
    return is_known and OPERATIONS[work.op].takes(work.op, types[work.dst.operand], given)


def is_lanewise(work: Compute, chip: Chip, nth: int = 0) -> bool:
    """Whether lane (i, j) of the result needs that lane only of its n-th input, if that lies as the result does.

    Such an input may be the memory of the result itself.
    """
    operation = OPERATIONS[work.op]
    is_added = 0 < operation.added <= nth
    return is_added or (operation.lanewise and not (operation.in_order and chip.lanes != 1))


def emit(
    writer: CodeWriter,
    work: Compute,
    types: Mapping[str, DType],
    dst: MemoryView,
    inputs: Sequence[MemoryView],
    refused: str,
) -> None:
    """Write a computation that `supports` has agreed to. Code goes to `refused`, before anything is written, where an
    integer would be divided by zero."""
    given = tuple(types[each.operand] for each in work.inputs)
    sides = tuple(side(writer, place, each.shape) for place, each in zip(inputs, work.inputs, strict=True))
    task = ComputeTask(
        work, writer, types[work.dst.operand], given, RegionView(writer, dst), sides, dict(work.options), refused
    )
    operation = OPERATIONS[work.op]
    if operation.check is not None:
        operation.check(task)
    with writer.code.phase():
        operation.emit(task)
