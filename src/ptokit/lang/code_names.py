"""What code reads by name: its instructions say which globals, closures, attributes, items and modules."""

from __future__ import annotations

import dis
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from ptokit.brief import brief
from ptokit.lang.recompile import codes_in

AS_TEXT = "__str__"
"""Stands among the attributes of code that makes a text of a value."""
_MISSING: Any = object()
_GLOBALS = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"])
_CELLS = frozenset(["LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"])
_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
_OTHER_ATTRIBUTES = frozenset(["IMPORT_FROM", "LOAD_SUPER_ATTR"])
_CONSTANTS = frozenset(["LOAD_CONST", "LOAD_SMALL_INT"])
_FORMATS = frozenset(["FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"])


@dataclass(frozen=True)
class Chain:
    """A name from outside and what is read of it, `config.sizes["rows"]`."""

    name: str
    is_cell: bool
    steps: tuple[tuple[str, Any], ...]
    """`attribute` or `item`, with the name or the constant."""
    line: int

    def __str__(self) -> str:
        return self.name + "".join(f".{key}" if kind == "attribute" else f"[{brief(key)}]" for kind, key in self.steps)


@dataclass(frozen=True)
class Named:
    """What code, with the functions that are defined inside it, reads by name."""

    chains: tuple[Chain, ...]
    attributes: frozenset[str]
    """Of other values."""
    imports: tuple[tuple[str, int], ...]
    """Names of modules, with the lines."""


@lru_cache(maxsize=1024)
def named_by(file: str, code: CodeType) -> Named:
    """The file is part of the key: code of two files can be equal."""
    found = _Scan(code)
    inner = [named_by(file, each) for each in codes_in(code)]
    return Named(
        (*found.chains, *(chain for each in inner for chain in each.chains)),
        found.attributes.union(*(each.attributes for each in inner)),
        (*found.imports, *(name for each in inner for name in each.imports)),
    )


class _Scan:
    """Reads the instructions of code. The value of a chain is used up by the instruction that follows it directly."""

    def __init__(self, code: CodeType) -> None:
        self.chains: list[Chain] = []
        self.attributes = frozenset[str]()
        self.imports: list[tuple[str, int]] = []
        self._open: list[Any] | None = None
        self._constant: Any = _MISSING
        line = code.co_firstlineno
        for step in dis.get_instructions(code):
            line = (step.positions.lineno if step.positions else None) or line
            if step.is_jump_target:  # the value may come from elsewhere
                self._close()
            if step.opname != "EXTENDED_ARG":
                self._step(step, line)
        self._close()

    def _step(self, step: dis.Instruction, line: int) -> None:
        name, chain = step.opname, self._open
        if chain is not None and name in _CONSTANTS and self._constant is _MISSING:
            self._constant = step.argval
            return
        if chain is not None and self._constant is _MISSING and name in _ATTRIBUTES:
            chain.append(("attribute", step.argval))
            return
        if chain is not None and self._constant is not _MISSING and _is_subscript(step):
            chain.append(("item", self._constant))
            self._constant = _MISSING
            return
        self._close()
        if name in _GLOBALS or name in _CELLS:
            self._open = [step.argval, name in _CELLS, line]
        elif name in _ATTRIBUTES or name in _OTHER_ATTRIBUTES:
            self.attributes |= {step.argval}
        elif name == "IMPORT_NAME":
            self.imports.append((step.argval, line))
        elif name == "MATCH_CLASS":
            self.attributes |= {"__dict__"}
        elif name in _FORMATS or (name == "BINARY_OP" and step.argrepr.startswith("%")):
            self.attributes |= {AS_TEXT}

    def _close(self) -> None:
        if self._open is not None:
            name, is_cell, line, *steps = self._open
            self.chains.append(Chain(name, is_cell, tuple(steps), line))
        self._open, self._constant = None, _MISSING


def _is_subscript(step: dis.Instruction) -> bool:
    return step.opname == "BINARY_SUBSCR" or (step.opname == "BINARY_OP" and step.argrepr == "[]")
