"""Kernels whose program was read from text: launched, checked and shown like any other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from ptokit.brief import brief
from ptokit.engine.number import float_bits
from ptokit.engine.storage import Storage
from ptokit.finding import Finding, OutOfBoundsError
from ptokit.isa.dtype import DType
from ptokit.isa.policy import TileType
from ptokit.lang.context import Mode
from ptokit.lang.faults import public, refuse
from ptokit.lang.launch import Traced
from ptokit.lang.launcher import Definition, ForeignKernel, Launchable, integer_argument, sharing
from ptokit.lang.sources import is_cpp
from ptokit.lang.tensor import Arguments, GlobalTensor, array_argument, is_integer
from ptokit.machine.report import Patch
from ptokit.program.expr import evaluate, variables
from ptokit.program.ir import Argument, Float, Integer, Program
from ptokit.program.repair import Edit, Unpatchable
from ptokit.target import DEFAULT_ARCH
from ptokit.text.edits import edited_text
from ptokit.text.forms import read_program
from ptokit.text.memories import open_extent, size_of


@public
def load(file: str | os.PathLike[str], function: str | None = None, target: str | None = None) -> Launchable:
    """Read a kernel from a file of MLIR text or plain PTO-AS, or compile it from a C++ source.

    `function` names one of several kernels in the file. A text that cannot be read, or that is no valid program,
    raises a TextError, with the line and a caret. `target` is the one that C++ is compiled for first.
    """
    path = Path(file)
    if is_cpp(path.name):
        from ptokit.lang.recorded import load_cpp

        return load_cpp(str(path), function, target)
    try:
        text = path.read_bytes()
    except OSError as problem:
        raise type(problem)(problem.errno, problem.strerror, str(file)) from None
    return from_text(text, str(file), function)


@public
def from_text(text: str | bytes, file: str = "<text>", function: str | None = None) -> TextKernel:
    """A kernel from a text itself."""
    program = read_program(text, file, function)
    source = text.decode() if isinstance(text, bytes) else text
    return TextKernel(program, lambda arch: read_program(text, file, function, arch), (source, file, function))


class TextDefinition(Definition):
    """The text of a kernel."""

    kernel: TextKernel
    origin = "was read from text"

    def rewritten(self, program: Program, edits: Sequence[Edit]) -> Patch:
        if self.kernel.source is None:
            raise Unpatchable("the program was not read from a text")
        text, file, function = self.kernel.source
        new = edited_text(text, file, program, edits)
        return Patch({file: text}, {file: new}, from_text(new, file, function))

    def with_texts(self, texts: Mapping[str, str], *, written: bool = False) -> TextKernel:
        _, file, function = self.kernel.source or ("", "", None)
        return from_text(texts[file], file, function) if file in texts else self.kernel


class TextKernel(ForeignKernel):
    """A kernel that was read from text: `kernel[grid](table=..., n=..., target="a5")`."""

    defined_by = TextDefinition

    def __init__(
        self,
        program: Program,
        reread: Callable[[str], Program] | None = None,
        source: tuple[str, str, str | None] | None = None,
    ) -> None:
        """`reread` returns the program for an architecture, if the text names none. `source` is the text, its file, and
        the function that was asked for."""
        super().__init__(program.name, None)
        self.source = source
        self.program, self.mode = program, program.mode
        self._reread = None if program.arch else reread
        given = (a for a in program.arguments if not (isinstance(a, Argument) and a.view_of))
        self.parameters = {argument.name: _kind(argument) for argument in given}
        self._traced: dict[tuple[Any, ...], Traced] = {}

    def dtype(self, name: str) -> DType | None:
        """The element type of a parameter; None for a whole number."""
        argument = next(argument for argument in self.program.arguments if argument.name == name)
        return None if isinstance(argument, Integer) else argument.dtype

    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """Sort the arguments of a launch by kind, and refuse arrays that do not fit."""
        given = self._with_extents(self.named_arguments(args, keywords))
        self.refuse_missing(given)
        arguments = self._sorted(given)
        for argument in self.program.tensors.values():
            self._check_array(argument, arguments)
        return arguments

    def missing(self, given: Mapping[str, object]) -> list[str]:
        """The required arguments that are not among these."""
        known = self._with_extents(dict(given))
        return [name for name in self.parameters if name not in known]

    def bind_for_check(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """A check needs no arrays: the text declares them."""
        return self._sorted(self.named_arguments(args, keywords))

    def _with_extents(self, given: dict[str, object]) -> dict[str, object]:
        """Also the extents that the text leaves to the arrays."""
        for name, value in tuple(given.items()):
            for dim, extent in enumerate(getattr(value, "shape", ())):
                if self.parameters.get(open_extent(name, dim)) == "integer":
                    given.setdefault(open_extent(name, dim), extent)
        return given

    def _sorted(self, given: Mapping[str, object]) -> Arguments:
        tensors: dict[str, GlobalTensor] = {}
        integers: dict[str, int] = {}
        floats: dict[str, Storage] = {}
        for name, value in given.items():
            kind = self.parameters[name]
            if kind == "array":
                tensors[name] = tensor = _tensor(name, value, self.program.tensors[name].dtype)
                integers[size_of(name)] = tensor.storage.bits.size
            elif kind == "integer":
                integers[name] = integer_argument(name, value)
            else:
                floats[name] = _float(name, value, cast("DType", self.dtype(name)))
        return Arguments(tensors, integers, {}, floats)

    def _check_array(self, argument: Argument, arguments: Arguments) -> None:
        """Refuse an array that is shorter than the text states, or of another shape."""
        values = arguments.numbers
        measures = (*argument.shape, *argument.stride, argument.offset)
        if any(not variables(measure) <= values.keys() for measure in measures):
            return  # checked at run time
        shape, stride = ([evaluate(expr, values) for expr in exprs] for exprs in (argument.shape, argument.stride))
        tensor, name = arguments.tensors[argument.array], argument.array
        last = sum((extent - 1) * step for extent, step in zip(shape, stride, strict=True))
        needed = evaluate(argument.offset, values) + last + 1 if prod(shape) else 0
        if min((*shape, *stride)) < 0 or needed > tensor.storage.bits.size:
            message = f"{name}: the text takes {shape} elements with strides {stride}, {needed} in all"
            found = f"found an array of {tensor.storage.bits.size}"
            fix = "pass a larger array, or other numbers"
            raise OutOfBoundsError([Finding("error", "KN-10", f"{message}; {found}", None, name, fix=fix)])
        if not self._fits(argument, tensor, shape, stride):
            message = f"{name} is {shape} in the text, with strides {stride}"
            found = f"found an array of shape {list(tensor.shape)}, with strides {_own_strides(tensor)}"
            fix = "pass such an array, or its elements side by side in one dim: np.ascontiguousarray(a).reshape(-1)"
            raise refuse("KN-17", f"{message}; {found}", fix, name)

    def _fits(self, argument: Argument, tensor: GlobalTensor, shape: list[int], stride: list[int]) -> bool:
        """Whether an array has the memory layout of the text: contiguous, in its shape, or with the same strides."""
        own, views = list(tensor.shape), [a for a in self.program.tensors.values() if a.array == argument.array]
        if not tensor.is_plain:
            return False
        if not tensor.array.flags.c_contiguous:
            return len(views) == 1 and own == shape and _own_strides(tensor) == stride
        return len(own) <= 1 or len(views) > 1 or own in (shape, _without_ones(shape))

    def trace(self, arguments: Arguments, mode: Mode) -> Traced:
        """The program; it depends on which arrays share memory."""
        shared, arch = arguments.shared(), mode.profile.arch or DEFAULT_ARCH
        key = (arch, *shared.items())
        if key not in self._traced:
            self._traced[key] = Traced(sharing(self._program(arch), shared))
        return self._traced[key]

    def _program(self, arch: str) -> Program:
        has_left = any(tile.spec.loc is TileType.Left for tile in self.program.tiles.values())
        return self._reread(arch) if self._reread is not None and has_left else self.program

    def storages(self, arguments: Arguments) -> dict[str, Storage]:
        """The memory of each argument: views have that of their pointer."""
        tensors = self.program.tensors
        found = {name: arguments.tensors[argument.array].storage for name, argument in tensors.items()}
        return {**found, **arguments.floats}


def _kind(argument: Argument | Integer | Float) -> str:
    return {Argument: "array", Integer: "integer", Float: "float"}[type(argument)]


def _tensor(name: str, value: object, expected: DType) -> GlobalTensor:
    if is_integer(value):
        raise refuse("KN-17", f"`{name}` takes an array; found {brief(value)}", "pass a NumPy array", name)
    tensor = value if isinstance(value, GlobalTensor) else array_argument(name, value)
    if tensor.dtype is expected:
        return tensor
    if tensor.dtype.size == expected.size and expected.family == "raw":
        return tensor.with_array(tensor.array, dtype=expected)
    fix = f'pass an array of {expected}: a.astype("{expected}")'
    raise refuse("KN-17", f"`{name}` holds {expected} in the text; found {tensor.dtype}", fix, name)


def _float(name: str, value: object, dtype: DType) -> Storage:
    if value is None or isinstance(value, bool | str) or np.ndim(cast("Any", value)) != 0:
        raise refuse("KN-17", f"`{name}` takes one number; found {brief(value)}", "pass a float", name)
    return Storage(float_bits(np.asarray(value), dtype, f"`{name}`").reshape(1), dtype)


def _own_strides(tensor: GlobalTensor) -> list[int]:
    """The strides of the array itself, in elements."""
    return [step // tensor.array.itemsize for step in tensor.array.strides]


def _without_ones(shape: list[int]) -> list[int]:
    """The shape without its leading ones."""
    first = next((dim for dim, extent in enumerate(shape) if extent != 1), len(shape))
    return shape[first:]
