"""The functions of a source that can be run, found in its preprocessed text."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal

from ptokit.cxx.declaration import (
    Parameter,
    angle_end,
    bracket_end,
    joined,
    name_end,
    outside_brackets,
    parameters,
    parameters_start,
    qualified_start,
    split,
    type_parameters,
    without_attributes,
)
from ptokit.cxx.source_text import SourceTokens

EntryKind = Literal["launch", "kernel"]
ANY_TYPE = "float"
"""What a template of a kernel is instantiated for, if the source names no type."""
GLOBAL = "__ptokit_global__"
"""What `__global__` becomes in the text that is searched for entries."""


@dataclass(frozen=True)
class CppEntry:
    """A function that can be run: one that launches kernels, or a kernel. `blocks` is a kernel's first argument."""

    name: str
    """With namespaces and template arguments: `ns::launch<float, 64>`."""
    kind: EntryKind
    parameters: tuple[Parameter, ...]
    line: int = 0
    space: str = field(default="", repr=False)
    function: str = field(default="", repr=False)
    """The name inside its namespace."""
    result: str = field(default="void", repr=False)

    def registration(self, number: int) -> str:
        """C++ that makes the entry known to the library."""
        types = ", ".join(parameter.type for parameter in self.parameters)
        register = "RegisterKernel" if self.kind == "kernel" else "Register"
        cast = f"static_cast<{self.result} (*)({types})>(&{self.function})"
        line = f'static const ::ptokit::{register}<{cast}> ptokit_entry_{number}("{self.name}");'
        for part in reversed([part for part in self.space.split("::") if part]):
            line = f"namespace {part} {{ {line} }}"
        return line


MOST_TOKENS = 1_000_000
"""Of a source with what its macros stand for."""
MOST_CALLS, MOST_ARGUMENTS = 10_000, 256
"""Calls of templates, and tokens of their arguments, that are looked at."""
_MARKER = re.compile(r'^#(?:line)? (\d{1,10}) "((?:\\.|[^"\\])*)"(.*)$')
_ENTERS, _LEAVES, _SYSTEM = "1", "2", "3"
"""The flags of a marker: a file begins, one goes on, it is a system header."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_TYPES = frozenset(re.findall(r"\w+", "class struct union enum using typedef concept namespace static_assert requires"))
_DROPPED = frozenset(("inline", "extern", GLOBAL, "constexpr", "template", "__extension__"))


class TooManyTokensError(ValueError):
    """A text that no one has written: macros made it."""


def find_entries(preprocessed: str, included: Collection[Path] = ()) -> list[CppEntry]:
    """The entries that a source defines, from its preprocessed text, in the order of the text; those of files that it
    includes if it defines none."""
    for files in ((), included):
        rows = [*_rows(preprocessed, files)]
        tokens = SourceTokens("\n".join(row for row, _ in rows), MOST_TOKENS)
        if len(tokens.texts) == MOST_TOKENS:
            raise TooManyTokensError(f"the source has {MOST_TOKENS:,} tokens or more without its macros")
        if found := _EntryFinder(tokens, [line for _, line in rows]).entries():
            return found
    return []


def _rows(preprocessed: str, included: Collection[Path]) -> Iterator[tuple[str, int]]:
    """The lines that come from the source itself, whatever file a `#line` names, and from files that it includes, each
    with its number."""
    line, wanted = 1, [True]
    """The number of the line; for each file that is open, whether its lines are wanted."""
    for row in preprocessed.splitlines():
        marker = _MARKER.match(row)
        if marker:
            line = int(marker[1])
            flags = marker[3].split()
            if _ENTERS in flags:
                wanted.append(bool(included) and _SYSTEM not in flags and _path(marker[2]) in included)
            elif _LEAVES in flags and len(wanted) > 1:
                wanted.pop()
            continue
        if wanted[-1] and not row.startswith("#"):
            yield row, line
        line += 1


@lru_cache(maxsize=1024)
def _path(quoted: str) -> Path:
    return Path(os.path.realpath(re.sub(r"\\(.)", r"\1", quoted)))


@dataclass
class _Function:
    """A function or an instantiation that was found."""

    name: str
    scope: str
    """What is written before the name of an instantiation: `ns::`."""
    arguments: str
    space: str
    result: str
    parameters: tuple[Parameter, ...]
    line: int
    is_kernel: bool
    is_template: bool
    is_instance: bool
    launches: bool
    types: tuple[str, ...] = ()
    """The parameters of a template, if all are types."""

    def instance(self, types: Sequence[str]) -> _Function:
        """The template for some types."""
        by_name = dict(zip(self.types, types, strict=True))
        words = re.compile(rf"\b(?:{'|'.join(map(re.escape, self.types))})\b")

        def named(text: str) -> str:
            return words.sub(lambda match: by_name[match[0]], text)

        parameters = tuple(Parameter(each.name, named(each.type)) for each in self.parameters)
        arguments = f"<{', '.join(types)}>"
        return replace(
            self, arguments=arguments, result=named(self.result), parameters=parameters, is_template=False, types=()
        )

    @property
    def overload(self) -> tuple[str, int]:
        """What tells overloads apart: the name and the number of parameters."""
        return self.name, len(self.parameters)


class _EntryFinder:
    """Walks over the declarations of a text; bodies are skipped."""

    def __init__(self, tokens: SourceTokens, lines: list[int]) -> None:
        self.tokens, self.lines = tokens, lines
        self.spaces: list[str] = []
        self.found: list[_Function] = []

    def _walk(self) -> None:
        texts, partners = self.tokens.texts, self.tokens.partners
        number = first = 0
        while number < len(texts):
            text, end = texts[number], number
            if text == "{":
                end = self._opened(first, number)
            elif text == ";" and texts[first] == "template" and texts[first + 1] != "<":
                self._add(first, number, number)
            elif text == "}" and self.spaces:
                self.spaces.pop()
            elif text in ("(", "["):
                end = partners[number] if partners[number] >= 0 else len(texts)
            number = end + 1
            first = number if text in ("{", "}", ";") else first

    def _opened(self, first: int, opened: int) -> int:
        """The last token that belongs to a head and the bracket behind it: that of a body, or the bracket itself."""
        texts = self.tokens.texts[first:opened]
        if "namespace" in texts and "using" not in texts:
            names = (text for text in texts if _WORD.fullmatch(text) and text not in ("namespace", "inline"))
            self.spaces.append("::".join(names) or "?")
            return opened
        if texts == ["extern"]:
            self.spaces.append("")
            return opened
        last = self.tokens.partners[opened] if self.tokens.partners[opened] >= 0 else len(self.tokens.texts)
        if not _TYPES & set(outside_brackets(texts)):
            self._add(first, opened, last)
        return last

    def _add(self, first: int, end: int, last: int) -> None:
        """Note a function: its head ends before a token, its body at another one."""
        texts = without_attributes(self.tokens.texts[first:end])
        has_list = texts[:2] == ["template", "<"]
        is_template = has_list and texts[2:3] != [">"]
        is_instance = texts[:1] == ["template"] and not is_template
        head = texts[angle_end(texts, 1) :] if has_list else texts
        opened = parameters_start(head)
        if opened is None or opened == 0:
            return
        closed = bracket_end(head, opened)
        named, arguments = name_end(head, opened)
        if named is None or not _WORD.fullmatch(head[named]):
            return
        start = qualified_start(head, named)
        before = head[:start]
        if start != named and not is_instance:
            return
        if "static" in before or "operator" in before or "?" in self.spaces or "=" in before:
            return
        result = joined([text for text in before if text not in _DROPPED])
        self.found.append(
            _Function(
                head[named], "".join(head[start:named]), arguments, "::".join(space for space in self.spaces if space),
                result or "void", parameters(head[opened + 1 : closed - 1]), self.lines[self.tokens.line(first) - 1],
                GLOBAL in before, is_template, is_instance, "<<<" in self.tokens.texts[end:last],
                type_parameters(texts[2 : angle_end(texts, 1) - 1]) if is_template else (),
            )
        )  # fmt: skip

    def entries(self) -> list[CppEntry]:
        """The functions that launch or are kernels, once each; without any, the templates of kernels."""
        self._walk()
        if not (found := self._entries()):
            self.found += self._instances()
            found = self._entries()
        return found

    def _instances(self) -> list[_Function]:
        """Templates of kernels over types, for types that the source names in calls of its own templates."""
        names = {function.name for function in self.found if function.is_template}
        variables = {name for function in self.found for name in function.types}
        texts = self.tokens.texts
        known: dict[int, list[str]] = {}
        calls = (at for at, text in enumerate(texts[1:]) if text == "<" and texts[at] in names)
        for at in islice(calls, MOST_CALLS):
            end = at + 1 + angle_end(texts[at + 1 : at + 1 + MOST_ARGUMENTS], 0)
            if texts[end : end + 1] == ["("] and not variables & set(texts[at + 2 : end]):
                types = [joined(part) for part in split(texts[at + 2 : end - 1])]
                known.setdefault(len(types), types)
        kernels = [function for function in self.found if function.is_kernel and function.types]
        return [kernel.instance(known.get(len(kernel.types), [ANY_TYPE] * len(kernel.types))) for kernel in kernels]

    def _entries(self) -> list[CppEntry]:
        launching = {function.overload for function in self.found if function.launches}
        kernels = {function.overload for function in self.found if function.is_kernel}
        entries: dict[tuple[str, tuple[Parameter, ...]], CppEntry] = {}
        for function in self.found:
            is_kernel = function.overload in kernels
            launches = function.overload in launching or any(parameter.is_stream for parameter in function.parameters)
            if function.is_template or function.name == "main" or not (is_kernel or launches):
                continue
            name = f"{function.scope}{function.name}{function.arguments}"
            full = f"{function.space}::{name}" if function.space else name
            kind: EntryKind = "kernel" if is_kernel else "launch"
            types = tuple(Parameter("", parameter.type) for parameter in function.parameters)
            entry = CppEntry(full, kind, function.parameters, function.line, function.space, name, function.result)
            entries.setdefault((full, types), entry)
        return list(entries.values())
