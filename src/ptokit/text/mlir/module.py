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
from typing import Literal, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError

from ptokit.finding import Where
from ptokit.target import DEFAULT_ARCH, left_layouts
from ptokit.text.errors import TextError, error_at, guess, place
from ptokit.text.limits import MAX_DEPTH, plain_text, shallow
from ptokit.text.mlir.comments import Comments
from ptokit.text.mlir.dialect import rows
from ptokit.text.mlir.reader import Reader, type_guess
from ptokit.text.mlir.versions import restate
from ptokit.text.mlir.writer import Writer

Result = TypeVar("Result")
Version = Literal["new", "0.27"]

_FRAMES = 60
"""Python frames that one level of nesting may take."""

_ARCH = re.compile(r'pto\.target_arch"?\s*=\s*"([^"\n]*)"')


@dataclass(eq=False)
class Module:
    """A text that was read: its operations, the names of its values, and where everything stands."""

    op: ModuleOp
    file: str
    text: str = field(repr=False)
    names: dict[SSAValue, str] = field(repr=False)
    offsets: dict[Operation, int] = field(repr=False)
    comments: Comments = field(default_factory=Comments, repr=False)
    resources: tuple[str, ...] = ()

    def where(self, op: Operation) -> Where:
        """Where an operation starts."""
        return place(self.text, self.offsets.get(op, 0), self.file)[0]

    def __eq__(self, other: object) -> bool:
        """Whether both have the same operations, with the same locations. Names of values and comments do not count."""
        return isinstance(other, Module) and (self.resources, _facts(self.op)) == (other.resources, _facts(other.op))

    __hash__ = None  # type: ignore[assignment]


def read_module(text: str | bytes, file: str = "<text>", *, arch: str | None = None) -> Module:
    """Read MLIR text with ops of the dialect `pto`.

    `arch` is `a3` or `a5`; without it, the text's own `pto.target_arch` counts, and else `a3`. It decides the layout of
    tiles in `left`. What cannot be read raises a TextError.
    """
    text = shallow(plain_text(text, file), file)
    return _with_room(lambda: _read(text, file, arch_of(text) if arch is None else arch), file)


def _read(text: str, file: str, arch: str) -> Module:
    reader = None
    try:
        reader = Reader(text, file, arch)
        op = reader.parse_module()
    except ParseError as error:
        raise _explained(error, reader, text, file) from None
    except RecursionError:
        raise
    except Exception as error:
        offset = reader.started[-1] if reader is not None and reader.started else 0
        raise error_at(f"cannot be read: {_first_line(error)}", text, offset, file) from None
    return Module(op, file, text, reader.names, reader.offsets, reader.comments, tuple(reader.resources))


def print_module(module: Module, version: Version | None = None) -> str:
    """The canonical text of a module: as it was read, or restated for a version of the assembler.

    Comments stay where they are; aliases are written in full.
    """
    if version is not None:
        module = _restated(module, version)
    return _with_room(lambda: _print(module), module.file)


def _print(module: Module) -> str:
    writer = Writer(module.names, module.comments)
    try:
        writer.print_module(module.op, module.resources)
    except RecursionError:
        raise
    except Exception as error:
        raise TextError(f"cannot be printed: {_first_line(error)}", Where(module.file, 1, 1)) from None
    return writer.text


def arch_of(text: str) -> str:
    """The architecture that a text names, if it is a known one, else the default."""
    found = _ARCH.search(text)
    return found[1] if found and found[1] in left_layouts() else DEFAULT_ARCH


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
        if (message := restate(op, version, copy.names, copy.comments)) is not None:
            raise error_at(message, module.text, module.offsets.get(original, 0), module.file)
    return copy


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


def _explained(error: ParseError, reader: Reader | None, text: str, file: str) -> TextError:
    """What xDSL found wrong, with what is known of the place."""
    message, offset = _first_line(error.msg), error.span.start
    if reader is None:
        return error_at(message, text, offset, file)
    message += type_guess(text, offset) if message.startswith("expected a type") else ""
    if reader.unknown and "did you mean" not in message:
        known = guess(f"pto.{reader.unknown}", (f"pto.{name}" for name in rows()))
        message += f" (`pto.{reader.unknown}` is not a known op){known}"
    elif message.startswith("values used but not defined"):
        name = next(iter(reader.forward_ssa_references))
        known = guess(f"%{name}", (f"%{other}" for other in reader.names.values()))
        message, offset = f"`%{name}` is not defined{known}", reader.first_use.get(name, offset)
    elif isinstance(error, MultipleSpansParseError) and error.refs and "missing block" in error.msg:
        message, offset = f"the block `{error.refs[0][0].text}` is not defined", error.refs[0][0].start
    hint = next((hint for start, hint in HINTS.items() if text.startswith(start, offset)), "")
    if "an operand" in message and text[offset : offset + 1].isdigit():
        hint = NUMBER_HINT
    elif not hint and USAGE_HELPS.match(message):
        hint = reader.usage()
    return error_at(message, text, _end_before(text, offset, message), file, hint)


def _end_before(text: str, offset: int, message: str) -> int:
    """Where something is missing: at the end of the last line that says something, not at the start of the next."""
    start = text.rfind("\n", 0, offset) + 1
    if start == 0 or text[start:offset].strip() or not message.startswith("expected") or "operation" in message:
        return offset
    for line in range(MOST_COMMENTS):
        end, start = start - 1, text.rfind("\n", 0, start - 1) + 1
        said = text[start:end].partition("//")[0].rstrip()
        if said or start == 0 or line == MOST_COMMENTS - 1:
            return start + len(said) if said else offset
    return offset


PHRASES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), phrase)
    for pattern, phrase in {
        r"function type signature expected": " and the types of operands and results",
        r"'([^'\n]+)' expected": r"expected `\1`",
        r"[Ee]xpected '([^'\n]+)'": r"expected `\1`",
        r"^type expected|^Expected shape type\.": "expected a type",
        r"^operand expected|^Expected an operand\.?": "expected an operand, as in `%x`",
        r"^Expected (?:block argument!|result SSA value!)": "expected a name, as in `%x`",
        r"^Expected region!|^expected region!": "expected `{`",
        r"^operation name expected": "expected an operation",
        r"^Could not parse entire input!": "expected an operation",
        r"^expect symbol name": "expected a name, as in `@name`",
        r"^Expected integer literal": "expected a number",
        r"^identifier expected": "expected a word",
        r"^attribute expected": "expected the value of an attribute",
        r"^End of file reached before closing string literal\.": "the string does not end on its line",
        r"^Expected suffix identifier after .*": "expected a name behind the mark",
        r"after operation result list": "behind the names of the results",
        r"^Operation has (\d+) results, but was given (\d+) to bind\.": r"the op gives \1 results, but \2 get a name",
        r"Unknown comparison mnemonic: (.*)": r"`\1` is no comparison, expected: eq ne slt sle sgt sge ult ule ugt uge",
        r"^Floating point value is not valid for integer type\.": "expected a whole number for an integer type",
        r"^float too large to pack with . format": "a number is too large for its type",
        r"after block argument name!": "behind the name of an argument",
        r"^invalid block name in region with named arguments": "the first block of a function has no label",
    }.items()
)
"""What xDSL says, and how it is said here."""

HINTS = {
    "--": "comments start with `//`", "/*": "comments start with `//`", ";": "an op ends with its line, without `;`",
    "}": "is there a `}` too many, or a bracket open before it?",
}  # fmt: skip
"""What to do about a text that starts so where it went wrong."""

NUMBER_HINT = "a number is a value of its own: `%c = arith.constant 0 : index`, and then `%c`"
USAGE_HELPS = re.compile(r"expected (?:an operand|`(?!=)(?!.*tile))|the op ")
"""Errors in the form of an op, where it helps to see it."""

MOST_COMMENTS = 20
"""Most lines that are looked at to find the last one that says something."""

_CHARACTER = re.compile(r"^Unexpected character: (.?).*", re.DOTALL)
_CAPITAL = re.compile(r"^(?:Expected|Unexpected|Operation)\b(?: '[^']+'(?=[a-z]))?")


def _first_line(error: object) -> str:
    """What an error says, in one line that is not too long."""
    said = str(error).strip() or type(error).__name__
    if (found := _CHARACTER.match(said)) is not None:
        sign = found[1]
        return f"unexpected character `{sign}`" if sign.isprintable() and sign else f"unexpected character {sign!a}"
    for pattern, phrase in PHRASES:
        said = pattern.sub(phrase, said)
    line = said.splitlines()[0][:300]
    return _CAPITAL.sub(lambda found: found[0].lower() + (": " if "'" in found[0] else ""), line)
