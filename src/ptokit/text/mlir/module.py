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
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

from ptokit.finding import Where
from ptokit.isa.instruction import Instruction, Modifier
from ptokit.isa.policy import PtoEnum
from ptokit.progress import task
from ptokit.target import DEFAULT_ARCH, left_layouts
from ptokit.text.errors import Problem, Source, TextError, error_at, joined
from ptokit.text.limits import MAX_DEPTH, plain_text, shallow
from ptokit.text.mlir.attributes import keyword
from ptokit.text.mlir.dialect import form_of
from ptokit.text.mlir.ir import Attributes, MlirOp, SsaValue
from ptokit.text.mlir.parser import StopReading
from ptokit.text.mlir.pieces import INSIDE
from ptokit.text.mlir.reader import Reader
from ptokit.text.mlir.types import type_of
from ptokit.text.mlir.writer import Writer
from ptokit.text.spelling import default_of, instruction_of

RENAMED = {"pto.load_scalar": "pto.load", "pto.store_scalar": "pto.store"}
"""Ops by their name in 0.27, with their name in the newer grammar."""


def restated(op: MlirOp, version: str) -> MlirOp:
    """An op in the spelling of a version: itself, or a copy."""
    if not op.is_pto or op.form is None:
        return op
    renamed = RENAMED if version == "new" else {new: old for old, new in RENAMED.items()}
    if op.name in renamed:
        other = copy(op)
        other.name = renamed[op.name]
        other.form = form_of(other.name.removeprefix("pto."))
        return other
    instruction = instruction_of(op.name.removeprefix("pto."))
    if instruction is None:
        return op
    if version == "new":
        return _new(op, instruction)
    if instruction.text.newer_inside and INSIDE in op.properties:
        raise Problem(f"version 0.27 has no mask form of {instruction.op}", op.offset)
    return _old(op, instruction)


def _new(op: MlirOp, instruction: Instruction) -> MlirOp:
    """The newer grammar always writes some attributes: their default follows from the operands (A-25, A-69)."""
    added: Attributes = {}
    for modifier, text in instruction.attributes:
        if text.always and text.key not in op.attributes:
            member = _default(op, instruction, modifier)
            if member is not None:
                added[text.key] = keyword(text.kind, str(text.written(member)))
    return _with(op, {**op.attributes, **added}) if added else op


def _old(op: MlirOp, instruction: Instruction) -> MlirOp:
    """0.27 does not have some attributes and operands: a default is left out, all else is refused."""
    newer = [(modifier, text) for modifier, text in instruction.attributes if text.newer]
    optional = [param for param in instruction.operands if param.optional]
    if newer and optional and len(_sources(op)) >= len(instruction.operands) - 1:
        raise Problem(f"version 0.27 has no {optional[0].name} operand of {instruction.op}", op.offset)
    for modifier, text in reversed(newer):
        written, usual = _word(op, text.key), modifier.fixed_default
        if not written:
            continue
        if usual is not None and written != usual.text:
            raise Problem(f"version 0.27 has no {text.key}, here `{written}`", op.offset)
        default = _default(op, instruction, modifier)
        if usual is None and (default is None or written != default.text):
            message = f"version 0.27 has no {text.key}, and {instruction.op} without it does not mean `{written}` here"
            raise Problem(message, op.offset)
    left_out = {text.key for _, text in newer}
    return _with(op, {name: value for name, value in op.attributes.items() if name not in left_out})


def _with(op: MlirOp, attributes: Attributes) -> MlirOp:
    other = copy(op)
    other.attributes = attributes
    return other


def _default(op: MlirOp, instruction: Instruction, modifier: Modifier) -> PtoEnum | None:
    """The default of a modifier for the operands of an op."""
    return default_of(instruction, modifier, [type_of(value.type) for value in _sources(op)])


def _word(op: MlirOp, name: str) -> str:
    """The keyword of an attribute, if it has one."""
    value = op.attributes.get(name)
    return str(value.value) if value is not None and value.short.startswith("<") else ""


def _sources(op: MlirOp) -> list[SsaValue]:
    """What an op reads, in either form."""
    return op.part("ins") or op.part("args")


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
