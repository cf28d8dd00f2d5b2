"""PTO programs as MLIR text: read into operations, printed in one canonical form.

module = read_module(text, "kernel.pto")
print_module(module)                      # a fixed point: reading it again prints the same; comments stay
print_module(module, version="0.27")      # for the older assembler, or a TextError that says what it cannot say
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

from ptokit.finding import Where
from ptokit.progress import task
from ptokit.target import DEFAULT_ARCH, left_layouts
from ptokit.text.errors import Problem, Source, TextError, error_at, joined
from ptokit.text.limits import MAX_DEPTH, plain_text, shallow
from ptokit.text.mlir.ir import MlirOp
from ptokit.text.mlir.parser import StopReading
from ptokit.text.mlir.reader import Reader
from ptokit.text.mlir.versions import restated
from ptokit.text.mlir.writer import Writer

Result = TypeVar("Result")
Version = Literal["new", "0.27"]

_FRAMES = 20
"""Python frames that one level of nesting may take."""

_ARCH = re.compile(r'pto\.target_arch"?\s*=\s*"([^"\n]*)"')


@dataclass(eq=False)
class Module:
    """A text that was read, or a tree that is to be printed: its operations, and where they stand."""

    op: MlirOp
    file: str
    text: str = field(default="", repr=False)
    end: list[str] = field(default_factory=list, repr=False)
    """Comments at the end of the text."""
    resources: tuple[str, ...] = ()
    errors: tuple[TextError, ...] = ()
    """What could not be read. The statements concerned are not among the operations."""

    @cached_property
    def source(self) -> Source:
        """The text, with its lines."""
        return Source(self.text, self.file)

    def where(self, op: MlirOp) -> Where:
        """Where an operation starts."""
        return self.source.where(op.offset)


def read_module(text: str | bytes, file: str = "<text>", *, arch: str | None = None) -> Module:
    """Read a text. What cannot be read raises one TextError with every error that was found.

    `arch` (`a3` or `a5`) decides the layout of tiles in `left`; without it the text's own word does, and else `a3`.
    """
    module = parse_module(text, file, arch)
    if module.errors:
        raise joined(module.errors)
    return module


def parse_module(text: str | bytes, file: str, arch: str | None = None) -> Module:
    """Read what can be read of a text. The module has the errors of the rest."""
    text = shallow(plain_text(text, file), file)
    return _with_room(lambda: _read(text, file, arch_of(text) if arch is None else arch), file)


def _read(text: str, file: str, arch: str) -> Module:
    try:
        reader = Reader(text, arch)
    except Problem as problem:
        raise error_at(problem.message, text, problem.offset, file) from None
    try:
        with task(f"read {file}", len(text), "characters") as reader.task:
            op, end = reader.read()
        return Module(op, file, text, end, tuple(reader.resources), reader.errors(file))
    except StopReading:
        pass
    except Problem as problem:
        reader.problems.append(problem)
    raise joined(reader.errors(file))


def print_module(module: Module, version: Version | None = None) -> str:
    """The canonical text of a module: as it was read, or restated for a version of the assembler.

    Comments stay where they are; aliases are written in full.
    """
    change: Callable[[MlirOp], MlirOp] | None = None if version is None else lambda op: restated(op, version)
    try:
        return _with_room(lambda: Writer(module.op, change).print(module.resources, module.end), module.file)
    except Problem as problem:
        raise error_at(problem.message, module.text, problem.offset, module.file) from None


def arch_of(text: str) -> str:
    """The architecture that a text names, if it is a known one, else the default."""
    match = _ARCH.search(text)
    return match[1] if match and match[1] in left_layouts() else DEFAULT_ARCH


def _with_room(work: Callable[[], Result], file: str) -> Result:
    """What some work gives. Only where text nests deep, more calls than usual are allowed while it is done again."""
    with suppress(RecursionError):
        return work()
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MAX_DEPTH * _FRAMES))
    try:
        return work()
    except RecursionError:
        raise TextError("nested too deep", Where(file, 1, 1)) from None
    finally:
        sys.setrecursionlimit(before)
