"""Ops whose syntax nobody here knows: kept as they are written, with the values and the regions that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from xdsl.ir import Attribute, Data, Operation, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRTokenKind

from ptokit.text.mlir.types import UNKNOWN

_STARTS_OP = re.compile(
    r'%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*\s*=|"[^"\n]*"\s*\(|[A-Za-z_][\w$]*(?:\.[\w$]+)+(?!\s*=)|(?:return|call|module)\b'
)
_STARTS_REGION = re.compile(
    r'\{\s*(?:[%^]|"[^"\n]*"\s*\(|[A-Za-z_][\w$.]*(?!\s*[=,}\w$.]))'
    r"|\{[ \t\r]*\n\s*[A-Za-z_][\w$]*\.[\w$.]*(?!\s*[=,\w$.])"
)
"""A brace that is not that of a dictionary."""
_LABELLED = re.compile(r"\{\s*\^")
_BLANKS = re.compile(r'("(?:[^"\\\n]|\\.)*")|\s+')
_OPENING, _CLOSING = ("(", "[", "{", "<"), (")", "]", "}", ">")


class Slot(NamedTuple):
    """A place in the text of an op: for an operand, for a region, or for an argument of the next region."""

    kind: str
    number: int
    region: int = 0


class WordingAttr(Data[tuple[str | Slot, ...]]):
    """The text of an op behind its name, with slots for all that has a name or a body of its own."""

    name = "pto.wording"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str | Slot, ...]:
        parser.raise_error("the wording of an op is never written as an attribute")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


class LooseOp(Operation):
    """An op that is kept as it is written. Its results get their types from where they are used."""

    traits = traits_def()

    @classmethod
    def parse(cls, parser: Parser) -> LooseOp:
        wording = _Wording(parser, cls.name)
        results = [UNKNOWN] * getattr(parser, "bound", 0)
        wording.read()
        return cls.create(
            operands=wording.operands,
            result_types=results,
            regions=wording.regions,
            properties={"$wording": WordingAttr(tuple(wording.pieces))},
        )

    def print(self, printer: Printer) -> None:
        wording = self.properties["$wording"]
        for piece in wording.data if isinstance(wording, WordingAttr) else ():
            if isinstance(piece, str):
                printer.print_string(piece)
            elif piece.kind == "operand":
                printer.print_ssa_value(self.operands[piece.number])
            elif piece.kind == "region":
                printer.print_region(self.regions[piece.number], print_entry_block_args=_is_labelled(wording, piece))
            else:
                printer.print_ssa_value(self.regions[piece.region].blocks[0].args[piece.number])


@lru_cache(maxsize=4096)
def loose_class(name: str) -> type[LooseOp]:
    """The class of an op that is kept as it is written."""
    return type(name, (LooseOp,), {"name": name, "__doc__": f"The op `{name}`, as it is written."})


def ends_op(parser: Parser) -> bool:
    """Whether the text can go on with another op."""
    token = parser._current_token
    if token.kind is MLIRTokenKind.EOF or token.text in ("}", "loc") or token.text.startswith("^"):
        return True
    return _STARTS_OP.match(parser.lexer.input.content, token.span.start) is not None


def starts_region(parser: Parser) -> bool:
    """Whether the text goes on with a region, and not with a dictionary."""
    return _STARTS_REGION.match(parser.lexer.input.content, parser.pos) is not None


def _is_labelled(wording: Attribute, region: Slot) -> bool:
    """Whether the arguments of a region are written in it, and not before it."""
    pieces: Any = wording.data if isinstance(wording, WordingAttr) else ()
    return not any(isinstance(piece, Slot) and piece[::2] == ("argument", region.number) for piece in pieces)


@dataclass
class _Wording:
    """Reads an op behind its name, to the end of its last line."""

    parser: Parser
    name: str
    pieces: list[str | Slot] = field(default_factory=list)
    operands: list[SSAValue] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    new: dict[str, UnresolvedOperand] = field(default_factory=dict)
    """Names that are not defined yet: arguments of the next region, if there is one."""
    depth: int = 0

    def read(self) -> None:
        """All of it."""
        text = self.parser.lexer.input.content
        self.done = text.rfind(self.name, 0, self.parser.pos) + len(self.name)
        end = self.done
        while not self._at_end(end):
            token = self.parser._current_token
            end = token.span.end
            if token.text.startswith("%"):
                end = self._operand()
            elif token.text == "{" and _STARTS_REGION.match(text, token.span.start):
                end = self._region(token.span.start)
            elif (
                token.text[:1] in ("!", "#")
                and token.text in self.parser.attribute_aliases
                and text[end : end + 1] != "<"
            ):
                self._flush(token.span.start)
                self.parser._consume_token()
                self._say(str(self.parser.attribute_aliases[token.text]))
                self.done = end
            else:
                self._mark(token.text, text[end : end + 1])
                self.parser._consume_token()
        self._flush(end)
        self._settle()

    def _at_end(self, end: int) -> bool:
        token, text = self.parser._current_token, self.parser.lexer.input.content
        if token.kind is MLIRTokenKind.EOF:
            return True
        if self.depth:
            return False
        if token.text in _CLOSING or (token.text == "loc" and text.startswith("(", token.span.end)):
            return True
        on_new_line = text.find("\n", end, token.span.start) >= 0
        return on_new_line and (token.text.startswith("^") or _STARTS_OP.match(text, token.span.start) is not None)

    def _mark(self, mark: str, following: str) -> None:
        """Count brackets; `<=` and `>=` are none."""
        if following == "=" and mark in ("<", ">"):
            return
        if mark in _OPENING:
            self.depth += 1
        elif mark in _CLOSING:
            self.depth -= 1
        elif mark.startswith("^"):
            self.parser.raise_error(
                f"`{self.name}` is not known; ops that branch are then read in the generic form only"
            )

    def _flush(self, end: int) -> None:
        """Keep the text up to here."""
        piece = _BLANKS.sub(lambda found: found[1] or " ", self.parser.lexer.input.content[self.done : end])
        self._say(piece)

    def _say(self, text: str) -> None:
        """Add to the text."""
        if self.pieces and isinstance(before := self.pieces[-1], str):
            self.pieces[-1] = before + text
        elif text:
            self.pieces.append(text)

    def _operand(self) -> int:
        token = self.parser._current_token
        self._flush(token.span.start)
        operand = self.parser.parse_unresolved_operand()
        name, end = operand.operand_name, token.span.end
        if operand.index:
            end = self.parser.lexer.input.content.index(str(operand.index), end) + len(str(operand.index))
        self.done = end
        known = self.parser.ssa_values.get(name)
        if known is not None and operand.index < len(known):
            self._add(known[operand.index])
        elif known is None and not operand.index:
            self.new.setdefault(name, operand)
            self.pieces.append(Slot("argument", list(self.new).index(name), len(self.regions)))
        else:
            self._add(self.parser.resolve_operand(operand, UNKNOWN))
        return end

    def _add(self, value: SSAValue) -> None:
        self.pieces.append(Slot("operand", len(self.operands)))
        self.operands.append(value)

    def _region(self, start: int) -> int:
        text = self.parser.lexer.input.content
        self._flush(start)
        named = None
        if self.new and _LABELLED.match(text, start) is None:
            named = [Parser.Argument(operand.span, UNKNOWN) for operand in self.new.values()]
        else:
            self._settle()
        self.pieces.append(Slot("region", len(self.regions)))
        self.regions.append(self.parser.parse_region(named))
        self.new = {}
        self.done = text.rfind("}", 0, self.parser.pos) + 1
        return self.done

    def _settle(self) -> None:
        """Names that no region defines are values that are defined later."""
        names = list(self.new.values())
        for position, piece in enumerate(self.pieces):
            if isinstance(piece, Slot) and piece.kind == "argument" and piece.region == len(self.regions):
                self.pieces[position] = Slot("operand", len(self.operands))
                self.operands.append(self.parser.resolve_operand(names[piece.number], UNKNOWN))
        self.new = {}
