"""Runs computations as machine code on separate arrays, and on the reference engine, for comparison."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptokit.engine.compute import OPS, ZeroDivisor
from ptokit.engine.llvm.address import MemoryView
from ptokit.engine.llvm.compute import operations as compute
from ptokit.engine.llvm.emit import IrModule
from ptokit.engine.llvm.move import CodeWriter
from ptokit.engine.native.jit import IrSource, library
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Compute, Input
from ptokit.program.expr import Var
from ptokit.program.symbolic import Conditions, SymbolicNumber

MARK = 0xA5
"""What fills memory before anything is written."""

LAYOUTS = {
    "plain": lambda rows, cols: Layout.plain(cols, 1),
    "padded": lambda rows, cols: Layout.plain(cols + 5, 1),
    "sparse": lambda rows, cols: Layout.plain(3 * cols + 1, 3),
    "columns": lambda rows, cols: Layout.plain(1, rows + 3),
    "nz": lambda rows, cols: Layout.boxed(rows, cols, (4, 8), boxes_by_row=False, inner_by_row=True),
    "zz": lambda rows, cols: Layout.boxed(rows, cols, (16, 16), boxes_by_row=True, inner_by_row=True),
    "zn": lambda rows, cols: Layout.boxed(rows, cols, (16, 4), boxes_by_row=True, inner_by_row=False),
}

ALONE = {("sel", 0), ("matmul", 0), ("matmul", 1)}
"""Inputs whose shape is not the result's."""


@dataclass(frozen=True)
class Region:
    """An operand: its type, its extents, how it lies."""

    kind: str
    shape: tuple[int, int]
    layout: str | Layout = "plain"

    @property
    def dtype(self) -> DType:
        return dtype(self.kind)

    @property
    def where(self) -> Layout:
        return LAYOUTS[self.layout](*self.shape) if isinstance(self.layout, str) else self.layout

    def offsets(self) -> np.ndarray:
        rows, cols = np.arange(self.shape[0])[:, None], np.arange(self.shape[1])[None, :]
        return np.broadcast_to(self.where.offset(rows, cols), self.shape)

    def memory(self, values: np.ndarray | None = None) -> np.ndarray:
        """Marked memory, a little larger than the region, that holds the values."""
        size = self.where.span(*self.shape) + 7
        made = np.full(size * self.dtype.size, MARK, np.uint8).view(self.dtype.bits)
        if values is not None:
            made[self.offsets()] = np.ascontiguousarray(values).view(self.dtype.bits)
        return made


FOLDS = ("sum", "max", "min", "prod", "argmax", "argmin")
REDUCTIONS = tuple(axis + fold for axis in ("row", "col") for fold in FOLDS)


@dataclass(frozen=True)
class Case:
    """One computation; `of_run` keeps its extents and row strides from the compiler."""

    op: str
    dst: Region
    inputs: tuple[Region, ...]
    options: dict[str, Any] = field(default_factory=dict)
    of_run: bool = False
    in_place: int | None = None
    """The input whose memory is the result's."""

    @property
    def types(self) -> dict[str, DType]:
        return {"dst": self.dst.dtype, **{f"in{k}": each.dtype for k, each in enumerate(self.inputs)}}

    def shape_of_lanes(self, k: int) -> tuple[int, int]:
        """The shape that an input's ones repeat over."""
        alone = self.op in (*REDUCTIONS, "window") or (self.op, k) in ALONE
        return self.inputs[k].shape if alone else self.inputs[0].shape if self.op == "cmp" else self.dst.shape

    def reference(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The bits that the reference engine gives."""
        with np.errstate(all="ignore"):
            made = OPS[self.op](self.dst.shape, self.dst.dtype, *arrays, **self.options)
        return np.ascontiguousarray(np.broadcast_to(made, self.dst.shape)).view(self.dst.dtype.bits)


class _Numbers:
    """Replaces known numbers by numbers known at run time."""

    def __init__(self, active: bool) -> None:
        self.active, self.conditions = active, Conditions()
        self.values: list[int] = []

    def number(self, value: Any) -> Any:
        if not self.active:
            return value
        self.values.append(value)
        return SymbolicNumber(Var(f"n{len(self.values) - 1}"), value, self.conditions)

    def shape(self, shape: tuple[int, int], against: tuple[int, int]) -> tuple[Any, Any]:
        """Ones that repeat stay known."""
        return tuple(self.number(n) if n == m else n for n, m in zip(shape, against, strict=True))  # type: ignore[return-value]

    def layout(self, layout: Layout) -> Layout:
        rows = tuple(Term(self.number(t.stride), t.div, t.mod) if t.stride != 1 else t for t in layout.rows)
        return Layout(rows, layout.cols)


class Compiled:
    """Cases as machine code, all in one library."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.cases = list(cases)
        module = IrModule()
        self.numbers = [self._function(module, f"f{k}", case) for k, case in enumerate(self.cases)]
        text = module.text
        self.library = library(text, lambda: IrSource(text))

    def _function(self, module: IrModule, name: str, case: Case) -> list[int]:
        numbers = _Numbers(case.of_run)
        inputs = tuple(
            Input(f"in{k}", numbers.layout(each.where), numbers.shape(each.shape, case.shape_of_lanes(k)))
            for k, each in enumerate(case.inputs)
        )
        keep_column = case.op.startswith("row")
        shape = (numbers.number(case.dst.shape[0]), 1) if keep_column else numbers.shape(case.dst.shape, case.dst.shape)
        options = tuple(
            (key, numbers.number(value) if isinstance(value, int) and case.op == "window" else value)
            for key, value in case.options.items()
        )
        work = Compute(case.op, shape, Access("dst", numbers.layout(case.dst.where)), inputs, options)
        assert compute.supports(work, case.types), case
        pointers = [("ptr", "dst"), *(("ptr", f"in{k}") for k in range(len(inputs)))]
        code = module.function(name, "i32", [*pointers, ("ptr", "numbers")])
        *places, table = code.arguments
        values = {f"n{k}": code.load("i64", code.at(table, 8 * k)) for k in range(len(numbers.values))}
        compute.emit(
            CodeWriter(code, lambda n: values[n.expr] if isinstance(n, SymbolicNumber) else code.i64(n)),
            work,
            case.types,
            MemoryView(places[0], work.dst.layout, case.dst.dtype.size),
            [
                MemoryView(base, each.layout, region.dtype.size)
                for base, each, region in zip(places[1:], inputs, case.inputs, strict=True)
            ],
            "refused",
        )
        code.ret(code.constant("i32", 0))
        code.begin("refused")
        code.ret(code.constant("i32", 1))
        assert not numbers.conditions.expressions, "a condition depends on a number known at run time"
        return numbers.values

    def run(self, k: int, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
        """The bits that machine code gives, or None where it refuses; nothing else is written."""
        case = self.cases[k]
        memories = [region.memory(values) for region, values in zip(case.inputs, arrays, strict=True)]
        target = case.dst.memory() if case.in_place is None else memories[case.in_place]
        before = target.copy()
        numbers = np.array([*self.numbers[k], 0], np.int64)
        function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * (len(memories) + 2))(
            self.library.address(f"f{k}")
        )
        refused = function(target.ctypes.data, *(m.ctypes.data for m in memories), numbers.ctypes.data)
        at = case.dst.offsets()
        found = target[at]
        if not refused:
            before[at] = found
        assert (target == before).all(), f"{case} wrote where it should not"
        return None if refused else found


def check(cases: Iterable[Case], arrays: Any) -> None:
    """Hold machine code against the reference, bit by bit; `arrays(case)` makes the inputs."""
    compiled = Compiled(cases)
    for k, case in enumerate(compiled.cases):
        given = arrays(case)
        try:
            expected = case.reference(given)
        except ZeroDivisor:
            expected = None
        found = compiled.run(k, given)
        if expected is None or found is None:
            assert expected is found, case
            continue
        wrong = np.argwhere(expected != found)
        assert not wrong.size, explain(case, given, expected, found, wrong)


def explain(case: Case, given: Sequence[np.ndarray], expected: np.ndarray, found: np.ndarray, wrong: np.ndarray) -> str:
    """The first lane that differs."""
    i, j = (int(k) for k in wrong[0])
    lanes = [
        np.broadcast_to(each.view(f"u{each.itemsize}"), case.dst.shape)[i, j]
        if np.broadcast_shapes(each.shape, case.dst.shape) == case.dst.shape
        else "..."
        for each in given
    ]
    said = [hex(int(each)) if not isinstance(each, str) else each for each in lanes]
    return f"{case}: {len(wrong)} wrong, first at ({i}, {j}): {said} gives {found[i, j]:#x}, not {expected[i, j]:#x}"
