"""PTO programs as MLIR text: read into operations, printed in one canonical form.

module = read_module(text, "kernel.pto")
print_module(module)                      # a fixed point: reading it again prints the same
print_module(module, version="0.27")      # for the older assembler, or a TextError that says what it cannot say
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import ParseError

from ptokit.finding import Where
from ptokit.text.dialect import ROWS
from ptokit.text.errors import TextError, error_at, guess, place
from ptokit.text.reader import Reader
from ptokit.text.versions import restate
from ptokit.text.writer import Writer

Version = Literal["new", "0.27"]

MAX_BYTES = 64 << 20
MAX_DEPTH = 200
_FRAMES = 60
"""Python frames that one level of nesting may take."""

_BRACKETS = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|->|[<({\[]|[\])}>]')
_ARCH = re.compile(r'pto\.target_arch"?\s*=\s*"([^"\n]*)"')


@dataclass(eq=False)
class Module:
    """A text that was read: its operations, the names of its values, and where everything stands."""

    op: ModuleOp
    file: str
    text: str = field(repr=False)
    names: dict[SSAValue, str] = field(repr=False)
    offsets: dict[Operation, int] = field(repr=False)

    def where(self, op: Operation) -> Where:
        """Where an operation starts."""
        return place(self.text, self.offsets.get(op, 0), self.file)[0]

    def __eq__(self, other: object) -> bool:
        """Whether both have the same operations, with the same locations. Names of values do not count."""
        return isinstance(other, Module) and _facts(self.op) == _facts(other.op)

    __hash__ = None  # type: ignore[assignment]


def read_module(text: str | bytes, file: str = "<text>", *, arch: str | None = None) -> Module:
    """Read MLIR text with ops of the dialect `pto`.

    `arch` is `a3` or `a5`; without it, the text's own `pto.target_arch` counts, and else `a3`. It decides the layout of
    tiles in `left`. What cannot be read raises a TextError.
    """
    text = _checked(text, file)
    reader = None
    with _deep_calls():
        try:
            reader = Reader(text, file, arch_of(text) if arch is None else arch)
            op = reader.parse_module()
        except ParseError as error:
            raise _explained(error, reader, text, file) from None
        except Exception as error:
            offset = reader.pos if reader is not None else 0
            raise error_at(f"cannot be read: {_first_line(error)}", text, offset, file) from None
    return Module(op, file, text, reader.names, reader.offsets)


def print_module(module: Module, version: Version | None = None) -> str:
    """The canonical text of a module: as it was read, or restated for a version of the assembler."""
    if version is not None:
        module = _restated(module, version)
    writer = Writer(module.names)
    with _deep_calls():
        try:
            writer.print_op(module.op)
        except Exception as error:
            raise TextError(f"cannot be printed: {_first_line(error)}", Where(module.file, 1, 1)) from None
    return writer.text + "\n"


def arch_of(text: str) -> str:
    """The architecture that a text is for: `a5` if it says so, else `a3`."""
    found = _ARCH.search(text)
    return "a5" if found and found[1] == "a5" else "a3"


def _facts(module: Operation) -> list[object]:
    """All that a module says, with values and blocks as numbers in their order."""
    ops = list(module.walk())
    blocks = {block: number for number, block in enumerate(b for op in ops for r in op.regions for b in r.blocks)}
    values = [value for block in blocks for value in block.args] + [value for op in ops for value in op.results]
    numbers: dict[SSAValue, int] = {value: number for number, value in enumerate(values)}
    facts: list[object] = [
        (op.name, op.attributes, op.properties, op.location, [value.type for value in op.results],
         [numbers[value] for value in op.operands], [blocks[block] for block in op.successors],
         [[blocks[block] for block in region.blocks] for region in op.regions])
        for op in ops
    ]  # fmt: skip
    arguments = [(blocks[block], [(a.type, a.location) for a in block.args], len(block.ops)) for block in blocks]
    return facts + arguments


def _restated(module: Module, version: Version) -> Module:
    """A copy of a module in the spelling of a version."""
    copy = read_module(print_module(module), module.file, arch=arch_of(module.text))
    for original, op in zip(list(module.op.walk()), list(copy.op.walk()), strict=True):
        if (message := restate(op, version, copy.names)) is not None:
            raise error_at(message, module.text, module.offsets.get(original, 0), module.file)
    return copy


def _checked(text: str | bytes, file: str) -> str:
    """The text, if it is text, not too long and not too deep."""
    if len(text) > MAX_BYTES:
        raise TextError(f"the text is longer than {MAX_BYTES >> 20} MB", Where(file, 1, 1))
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            read = text[: error.start].decode("utf-8")
            message = f"byte {error.start} (0x{text[error.start]:02x}) is not UTF-8"
            raise error_at(message, read, len(read), file) from None
    depth = 0
    for found in _BRACKETS.finditer(text):
        if (mark := found[0]) in "<({[":
            depth += 1
            if depth > MAX_DEPTH:
                raise error_at(f"nested more than {MAX_DEPTH} deep", text, found.start(), file)
        elif mark in "])}>":
            depth = max(0, depth - 1)
    return text


@contextmanager
def _deep_calls() -> Iterator[None]:
    """Room for the calls that nested text needs."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MAX_DEPTH * _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _explained(error: ParseError, reader: Reader | None, text: str, file: str) -> TextError:
    """What xDSL found wrong, with what is known of the place."""
    message, offset = _first_line(error.msg), error.span.start
    if reader is not None and reader.unknown and "did you mean" not in message:
        known = guess(f"pto.{reader.unknown}", (f"pto.{name}" for name in ROWS))
        message += f" (`pto.{reader.unknown}` is not a known op){known}"
    elif reader is not None and message.startswith("values used but not defined"):
        name = next(iter(reader.forward_ssa_references))
        known = guess(f"%{name}", (f"%{other}" for other in reader.names.values()))
        message, offset = f"`%{name}` is not defined{known}", reader.first_use.get(name, offset)
    return error_at(message, text, offset, file)


_CAPITAL = re.compile(r"^(?:Expected|Unexpected|Operation)\b(?: '[^']+'(?=[a-z]))?")


def _first_line(error: object) -> str:
    """What an error says, in one line that is not too long."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _CAPITAL.sub(lambda found: found[0].lower() + (": " if "'" in found[0] else ""), lines[0][:300])
