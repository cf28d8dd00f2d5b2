"""The functions of a source that can be run, found in the tokens of its preprocessed text."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

from ptokit.cxx.parameters import Parameter, Structures
from ptokit.cxx.source_text import SourceTokens

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_KEYWORDS = frozenset(re.findall(r"\w+", "const int float double char short long unsigned signed bool void auto"))


def type_parameters(texts: list[str]) -> tuple[str, ...]:
    """The names of the parameters of a template; none if one is no type."""
    parts = [[*part] for part in split(texts)]
    if any(len(part) < 2 or part[0] not in ("typename", "class") or part[1] == "..." for part in parts):
        return ()
    return tuple(part[1] for part in parts)


def nesting(text: str) -> int:
    """How a token changes the depth of brackets."""
    return (text in _OPENING) - (text in _CLOSING)


def outside_brackets(texts: list[str]) -> Iterator[str]:
    """The tokens outside round and square brackets and the parameters of templates."""
    depth = angles = 0
    for index, text in enumerate(texts):
        depth += (text in ("(", "[")) - (text in (")", "]"))
        angles += (text == "<" and index > 0 and texts[index - 1] == "template") or (text == "<" and angles > 0)
        angles -= text == ">" and angles > 0
        if depth == 0 and angles == 0:
            yield text


def without_attributes(texts: list[str]) -> list[str]:
    """The tokens without `[[...]]`, `[aicore]`, `__attribute__((...))`, `alignas(...)`."""
    kept: list[str] = []
    index = 0
    while index < len(texts):
        if texts[index] in ("__attribute__", "alignas", "__declspec") and texts[index + 1 : index + 2] == ["("]:
            index = closing_end(texts, index + 1)
        elif texts[index : index + 2] in (["[", "["], ["[", DEVICE]):
            index = closing_end(texts, index)
        else:
            kept.append(texts[index])
            index += 1
    return kept


def closing_end(texts: list[str], start: int) -> int:
    """The index after the bracket or `>` that closes the bracket at `start`."""
    is_angle = texts[start : start + 1] == ["<"]
    angles = depth = 0
    for index in range(start, len(texts)):
        depth += nesting(texts[index])
        if depth == 0:
            angles += is_angle and (texts[index] == "<") - (texts[index] == ">")
            if angles == 0:
                return index + 1
    return len(texts)


def parameters_start(texts: list[str]) -> int | None:
    """The bracket that opens the parameters: the first one outside template arguments."""
    index = 0
    while index < len(texts):
        if texts[index] == "<" and index and re.fullmatch(r"\w+", texts[index - 1]):
            index = closing_end(texts, index)
        elif texts[index] == "(":
            if index and texts[index - 1] in ("decltype", "noexcept", "requires"):
                index = closing_end(texts, index)
            else:
                return index
        else:
            index += 1
    return None


def name_end(texts: list[str], opened: int) -> tuple[int | None, str]:
    """The index of the function's name before its parameters, and its template arguments."""
    index = opened - 1
    if texts[index] != ">":
        return index, ""
    angles = depth = 0
    for place in range(index, -1, -1):
        depth -= nesting(texts[place])
        angles += ((texts[place] == ">") - (texts[place] == "<")) * (depth == 0)
        if angles == 0:
            return (place - 1, joined(texts[place:opened])) if place else (None, "")
    return None, ""


def qualified_start(texts: list[str], named: int) -> int:
    """The index where a name starts with the namespaces before it."""
    while named >= 2 and texts[named - 1] == "::" and re.fullmatch(r"[A-Za-z_]\w*", texts[named - 2]):
        named -= 2
    return named


def parameters(texts: list[str]) -> tuple[Parameter, ...]:
    """The parameters of a function, from what is between their brackets."""
    parameters_read: list[Parameter] = []
    for part in split(texts):
        if part and part != ["void"]:
            parameters_read.append(_parameter(part, len(parameters_read)))
    return tuple(parameters_read)


def _parameter(texts: list[str], number: int) -> Parameter:
    plain = texts[: texts.index("=")] if "=" in texts else texts
    last = plain[-1]
    named = len(plain) > 1 and re.fullmatch(r"[A-Za-z_]\w*", last) and last not in _KEYWORDS and plain[-2] != "::"
    alone = named and all(text in ("const", "volatile") for text in plain[:-1])
    if named and not alone:
        return Parameter(last, joined(plain[:-1]))
    return Parameter(f"argument{number}", joined(plain))


def split(texts: list[str]) -> Iterator[list[str]]:
    """The parts between commas outside brackets."""
    part: list[str] = []
    depth = 0
    for text in texts:
        depth += nesting(text) + (text == "<") - (text == ">")
        if text == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(text)
    yield part


def joined(texts: Sequence[str]) -> str:
    """The tokens as text, with spaces only where it needs them."""
    text = " ".join(texts)
    text = re.sub(r" ?(::|[<>(),&*\[\]]) ?", r"\1", text)
    return re.sub(r"([,])(?=\S)", r"\1 ", re.sub(r"([>*&])(?=\w)", r"\1 ", text)).strip()


EntryKind = Literal["launch", "kernel", "template"]
ANY_TYPE = "float"
"""What a template of a kernel is instantiated for, if the source names no type."""
DEVICE = "aicore"
"""In square brackets: a function of the device, and a kernel if it is `extern "C"`, too."""
GLOBAL = "__ptokit_global__"
"""What `__global__` becomes in the text that is searched for entries."""


@dataclass(frozen=True)
class CppEntry:
    """A function that can be run: one that launches kernels, or a kernel. `blocks` is a kernel's first argument. Beside
    those, a template of a kernel that nothing instantiates, which cannot."""

    name: str
    """With namespaces and template arguments: `ns::launch<float, 64>`."""
    kind: EntryKind
    parameters: tuple[Parameter, ...]
    line: int = 0
    space: str = field(default="", repr=False)
    function: str = field(default="", repr=False)
    """The name inside its namespace."""
    result: str = field(default="void", repr=False)
    is_used: bool = True
    """Whether its name occurs besides its declarations: something may launch it."""
    signature: tuple[Parameter, ...] = ()
    """The parameters of the function, if some are structures: `parameters` has their members, as `tiling.rows`."""

    def with_members(self, structures: Structures) -> CppEntry:
        """The entry with the members of structures as parameters."""
        by_name = {each.name: structures.members(each.structure) for each in self.parameters if each.structure}
        if not any(by_name.values()):
            return self
        listed = tuple(
            Parameter(f"{each.name}.{member.name}" if member is not each else each.name, member.type)
            for each in self.parameters
            for member in by_name.get(each.name) or (each,)
        )
        return replace(self, parameters=listed, signature=self.parameters)

    def registration(self, number: int) -> str:
        """C++ that makes the entry known to the library."""
        types = ", ".join(parameter.type for parameter in self.parameters)
        register = "RegisterKernel" if self.kind == "kernel" else "Register"
        filling, called = f"ptokit_filling_{number}", f"static_cast<{self.result} (*)({types})>(&{self.function})"
        line = f'static const ::ptokit::{register}<{called}> ptokit_entry_{number}("{self.name}");'
        if self.signature:
            line = self._filling(filling) + line.replace(called, f"&{filling}")
        for part in reversed([part for part in self.space.split("::") if part]):
            line = f"namespace {part} {{ {line} }}"
        return line

    def _filling(self, name: str) -> str:
        """A C++ function that takes the members of structures, fills these, and calls the entry."""
        taken, filled, passed = list[str](), list[str](), list[str]()
        for place, each in enumerate(self.signature):
            own = f"{each.name}."
            fields = [member.name.removeprefix(own) for member in self.parameters if member.name.startswith(own)]
            passed.append(f"p{place}")
            if not fields:
                taken.append(f"{each.type} p{place}")
                continue
            filled.append(f"{each.structure} p{place}{{}};")
            for member in fields:
                number = len(taken)
                taken.append(f"decltype(std::declval<{each.structure}&>().{member}) m{number}")
                filled.append(f"p{place}.{member} = m{number};")
        call = f"{self.function}({', '.join(passed)});"
        return f"static void {name}({', '.join(taken)}) {{ {' '.join((*filled, call))} }} "


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
        if found := _EntryFinder(tokens, [line for _, line in rows], of_source=not files).entries():
            structures = Structures(preprocessed)
            return [entry.with_members(structures) for entry in found]
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

        parameters = tuple(Parameter(parameter.name, named(parameter.type)) for parameter in self.parameters)
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

    def __init__(self, tokens: SourceTokens, lines: list[int], *, of_source: bool) -> None:
        """`of_source`: the text is that of the source, and not of files that it includes."""
        self.tokens, self.lines, self.of_source = tokens, lines, of_source
        self.spaces: list[str] = []
        self.functions: list[_Function] = []

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
        head = texts[closing_end(texts, 1) :] if has_list else texts
        opened = parameters_start(head)
        if opened is None or opened == 0:
            return
        closed = closing_end(head, opened)
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
        is_kernel = GLOBAL in before or {"extern", DEVICE} <= {*self.tokens.texts[first:end]}
        self.functions.append(
            _Function(
                head[named], "".join(head[start:named]), arguments, "::".join(space for space in self.spaces if space),
                result or "void", parameters(head[opened + 1 : closed - 1]), self.lines[self.tokens.line(first) - 1],
                is_kernel, is_template, is_instance, "<<<" in self.tokens.texts[end:last],
                type_parameters(texts[2 : closing_end(texts, 1) - 1]) if is_template else (),
            )
        )  # fmt: skip

    def entries(self) -> list[CppEntry]:
        """The functions that launch or are kernels, once each; without any, the templates of kernels."""
        self._walk()
        if not (found := self._entries()):
            self.functions += self._instances()
            found = self._entries()
        return [*found, *self._unused_templates()] if found else []

    def _may_launch(self, parameters: Sequence[Parameter]) -> bool:
        """Whether a function with these parameters may launch by another one: it has a stream. One of another file has
        pointers to data, too: others are helpers of host programs."""
        of_data = [
            each for each in parameters if not each.is_stream and ("*" in each.type or each.plain_type == "GM_ADDR")
        ]
        return any(each.is_stream for each in parameters) and (self.of_source or bool(of_data))

    def _unused_templates(self) -> list[CppEntry]:
        """Templates of kernels that nothing instantiates."""
        instantiated = {function.name for function in self.functions if not function.is_template}
        return [
            CppEntry(each.name, "template", each.parameters, each.line)
            for each in self.functions
            if each.is_kernel and each.is_template and each.name not in instantiated and not self._used[each.name]
        ]

    @cached_property
    def _used(self) -> Counter[str]:
        """How often each name occurs, but for declarations of kernels: there it is behind `void`, or its attribute."""
        return Counter(text for before, text in pairwise(self.tokens.texts) if before not in ("void", "]"))

    def _instances(self) -> list[_Function]:
        """Templates of kernels over types, for types that the source names in calls of its own templates."""
        names = {function.name for function in self.functions if function.is_template}
        variables = {name for function in self.functions for name in function.types}
        texts = self.tokens.texts
        known: dict[int, list[str]] = {}
        calls = (at for at, text in enumerate(texts[1:]) if text == "<" and texts[at] in names)
        for at in islice(calls, MOST_CALLS):
            end = at + 1 + closing_end(texts[at + 1 : at + 1 + MOST_ARGUMENTS], 0)
            if texts[end : end + 1] == ["("] and not variables & set(texts[at + 2 : end]):
                types = [joined(part) for part in split(texts[at + 2 : end - 1])]
                known.setdefault(len(types), types)
        kernels = [function for function in self.functions if function.is_kernel and function.types]
        return [kernel.instance(known.get(len(kernel.types), [ANY_TYPE] * len(kernel.types))) for kernel in kernels]

    def _entries(self) -> list[CppEntry]:
        launching = {function.overload for function in self.functions if function.launches}
        kernels = {function.overload for function in self.functions if function.is_kernel}
        entries: dict[tuple[str, tuple[Parameter, ...]], CppEntry] = {}
        for function in self.functions:
            is_kernel = function.overload in kernels
            launches = function.overload in launching or self._may_launch(function.parameters)
            if function.is_template or function.name == "main" or not (is_kernel or launches):
                continue
            name = f"{function.scope}{function.name}{function.arguments}"
            full = f"{function.space}::{name}" if function.space else name
            kind: EntryKind = "kernel" if is_kernel else "launch"
            types = tuple(Parameter("", parameter.type) for parameter in function.parameters)
            entry = CppEntry(
                full, kind, function.parameters, function.line, function.space, name, function.result,
                self._used[function.name] > 0,
            )  # fmt: skip
            entries.setdefault((full, types), entry)
        return list(entries.values())
