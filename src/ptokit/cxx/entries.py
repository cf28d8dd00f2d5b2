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
    nesting,
    outside_brackets,
    parameters,
    parameters_start,
    qualified_start,
    split,
    type_parameters,
    without_attributes,
)

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
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*+"?|\w+|::|\.\.\.|->|\S')
_MARKER = re.compile(r'^#(?:line)? (\d{1,10}) "((?:\\.|[^"\\])*)"(.*)$')
_ENTERS, _LEAVES, _SYSTEM = "1", "2", "3"
"""The flags of a marker: a file begins, one goes on, it is a system header."""
_TYPES = frozenset(re.findall(r"\w+", "class struct union enum using typedef concept namespace static_assert requires"))
_DROPPED = frozenset(("inline", "extern", GLOBAL, "constexpr", "template", '"C"', "__extension__"))


class TooManyTokensError(ValueError):
    """A text that no one has written: macros made it."""


@dataclass(slots=True)
class _Token:
    text: str
    line: int


def find_entries(preprocessed: str, included: Collection[Path] = ()) -> list[CppEntry]:
    """The entries that a source defines, from its preprocessed text, in the order of the text; those of files that it
    includes if it defines none."""
    for files in ((), included):
        tokens = [*islice(_tokens(preprocessed, files), MOST_TOKENS)]
        if len(tokens) == MOST_TOKENS:
            raise TooManyTokensError(f"the source has {MOST_TOKENS:,} tokens or more without its macros")
        if found := _EntryFinder(tokens).entries():
            return found
    return []


def _tokens(preprocessed: str, included: Collection[Path]) -> Iterator[_Token]:
    """The tokens of the lines that come from the source itself, whatever file a `#line` names, and from files that it
    includes."""
    line, wanted = 1, [True]
    """The number of the line; for each file that is open, whether its tokens are wanted."""
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
            yield from (_Token(text, line) for text in _TOKEN.findall(row))
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

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens, self.place = tokens, 0
        self.spaces: list[str] = []
        self.found: list[_Function] = []

    def _walk(self) -> None:
        while self.place < len(self.tokens):
            start = self.place
            ended = self._declaration_end()
            words = self.tokens[start : self.place]
            texts = [token.text for token in words]
            if ended == "{":
                self._opened(words, texts)
            elif ended == ";":
                if texts[:1] == ["template"] and texts[1:2] != ["<"]:
                    self._add(words, (0, 0))
                self.place += 1
            elif ended == "}":
                self.place += 1
                if self.spaces:
                    self.spaces.pop()
            else:
                return

    def _declaration_end(self) -> str:
        """Move to what ends the declaration: its body, a semicolon, or the end of the scope around it."""
        depth = 0
        while self.place < len(self.tokens):
            text = self.tokens[self.place].text
            if depth == 0 and text in ("{", "}", ";"):
                return text
            depth += nesting(text)
            self.place += 1
        return ""

    def _opened(self, words: list[_Token], texts: list[str]) -> None:
        if "namespace" in texts and "using" not in texts:
            self.place += 1
            self.spaces.append(
                "::".join(
                    text
                    for text in texts
                    if re.fullmatch(r"[A-Za-z_]\w*", text) and text not in ("namespace", "inline")
                )
                or "?"
            )
        elif texts[:2] == ["extern", '"C"'] and len(texts) == 2:
            self.place += 1
            self.spaces.append("")
        else:
            first = self.place
            self._skip_body()
            if not _TYPES & set(outside_brackets(texts)):
                self._add(words, (first, self.place))

    def _skip_body(self) -> None:
        depth = 0
        while self.place < len(self.tokens):
            text = self.tokens[self.place].text
            depth += (text == "{") - (text == "}")
            self.place += 1
            if depth == 0:
                return

    def _add(self, words: list[_Token], body: tuple[int, int]) -> None:
        """Note a function: `words` are its head."""
        texts = without_attributes([token.text for token in words])
        has_list = texts[:2] == ["template", "<"]
        is_template = has_list and texts[2:3] != [">"]
        is_instance = texts[:1] == ["template"] and not is_template
        head = texts[angle_end(texts, 1) :] if has_list else texts
        opened = parameters_start(head)
        if opened is None or opened == 0:
            return
        closed = bracket_end(head, opened)
        named, arguments = name_end(head, opened)
        if named is None or not re.fullmatch(r"[A-Za-z_]\w*", head[named]):
            return
        first = qualified_start(head, named)
        before = head[:first]
        if first != named and not is_instance:
            return
        if "static" in before or "operator" in before or "?" in self.spaces or "=" in before:
            return
        result = joined([text for text in before if text not in _DROPPED])
        inside = [token.text for token in self.tokens[slice(*body)]]
        self.found.append(
            _Function(
                head[named], "".join(head[first:named]), arguments, "::".join(space for space in self.spaces if space),
                result or "void", parameters(head[opened + 1 : closed - 1]), words[0].line,
                GLOBAL in before, is_template, is_instance,
                _has_launch(inside),
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
        texts = [token.text for token in self.tokens]
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


def _has_launch(texts: list[str]) -> bool:
    return any(texts[i : i + 3] == ["<"] * 3 for i in range(len(texts) - 2))
