"""What must be known of a C++ source before it is compiled: launches, included files, functions that can be run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

MOST_FILES = 500
"""Included files that are looked at."""
LONGEST = 4 * 1024 * 1024
"""Bytes of a source that is read."""

_SKIPPED = re.compile(
    r"""//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)|R"([^()\s\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
_CORES = re.compile(r"\b__DAV_\w*(?:VEC|CUBE)\w*|\bTM?Pipe\b|\bASCEND_IS_AI[CV]\b")
_NEWLINE = re.compile(r"\\?\r?\n")
_OPEN, _CLOSE = "([{", ")]}"


def masked(text: str) -> str:
    """The text with comments, strings and characters blanked; every other character keeps its place."""
    return _SKIPPED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def rewrite(text: str) -> str:
    """The text as a host compiler takes it: launches are calls, code of the device's registers is gone, addresses of
    on-chip memories become pointers; lines stay."""
    if "<<<" in text:
        text = rewrite_launches(text)
    text = _ON_CHIP.sub(_on_chip, text) if "buf__" in text else text
    text = re.sub(r"\[\s*aicore\s*\]", lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    text = _replaced(text, _ASSEMBLY, "(void)0") if "asm" in text else text
    return _replaced(text, _REGISTERS, '::ptokit::record("vec_scope");') if "__VEC_SCOPE__" in text else text


_ON_CHIP = re.compile(
    r"\breinterpret_cast\s*<\s*(?P<const>(?:\b(?:const|volatile)\s+)*)__(?P<memory>ubuf|cbuf)__\s+"
    r"(?P<type>[\w:]+(?:\s+[\w:]+)*\s*\*)\s*>"
)
"""A cast to a pointer into an on-chip memory."""
_MEMORIES = {"ubuf": "vec", "cbuf": "mat"}


def _on_chip(match: re.Match[str]) -> str:
    lines = "".join(_NEWLINE.findall(match[0]))
    return f"::ptokit::on_chip<::ptokit::Memory::{_MEMORIES[match['memory']]}, {match['const']}{match['type']}>{lines}"


_ASSEMBLY = re.compile(r"\b(?:asm|__asm__)\b\s*(?:\b(?:volatile|__volatile__)\b\s*)?\(")
_REGISTERS = re.compile(r"\b__VEC_SCOPE__\s*\{")


def _replaced(text: str, start: re.Pattern[str], by: str) -> str:
    """The text with each part that a pattern starts, up to its closing bracket, replaced."""
    plain = masked(text)
    pieces: list[str] = []
    done = 0
    for match in start.finditer(plain):
        end = _matching(plain, match.end() - 1)
        if match.start() >= done and end is not None:
            pieces += [text[done : match.start()], by, *_NEWLINE.findall(text[match.start() : end])]
            done = end
    return "".join([*pieces, text[done:]])


def rewrite_launches(text: str) -> str:
    """The text with `kernel<<<blocks, ...>>>(arguments)` as calls of `ptokit::chevron`; lines keep their numbers."""
    plain = masked(text)
    pieces: list[str] = []
    done = 0
    for start, opened, closed, end in _launches(plain):
        head = text[start:opened]
        config = re.sub(r"\s+", " ", _NEWLINE.sub(" ", plain[opened + 3 : closed])).strip()
        kept = "".join(_NEWLINE.findall(text[opened:closed]))
        name = re.sub(r"\s+", " ", _NEWLINE.sub(" ", plain[start:opened])).strip()
        label = "" if "#" in name else name
        pieces += [text[done:start], f'::ptokit::chevron("{label}", [&] {{ ', head, kept, text[closed + 3 : end]]
        pieces.append(f"; }}, {config})")
        done = end
    return "".join([*pieces, text[done:]])


def _launches(plain: str) -> Iterator[tuple[int, int, int, int]]:
    """The start of each launched name, of its `<<<` and `>>>`, and the end of its arguments."""
    after = 0
    for match in re.finditer(r"(?<!<)<<<(?!<)", plain):
        opened = match.start()
        if opened < after:
            continue
        start = _name_before(plain, opened)
        closed = _level_end(plain, opened + 3, ">>>")
        if start is None or closed is None:
            continue
        bracket = re.compile(r"(?:\s|\\\r?\n)*\(").match(plain, closed + 3)
        end = _matching(plain, bracket.end() - 1) if bracket else None
        if end is not None:
            after = end
            yield start, opened, closed, end


def _name_before(plain: str, opened: int) -> int | None:
    """Where the name before a position starts, with its template arguments."""
    place = _blank_before(plain, opened)
    if place and plain[place - 1] == ">":
        opening = _angle_before(plain, place - 1)
        if opening is None:
            return None
        place = _blank_before(plain, opening)
    if place and plain[place - 1] == ")":  # a macro that makes the name
        opening = _bracket_before(plain, place - 1)
        if opening is None:
            return None
        place = _blank_before(plain, opening)
    match = re.search(r"(?:\w|::|\s*##\s*)+$", plain[max(0, place - 500) : place])
    if match is None or not match[0].strip():
        return None
    return place - len(match[0].lstrip())


def _blank_before(plain: str, place: int) -> int:
    while place and (plain[place - 1].isspace() or (plain[place - 1] == "\\" and plain[place : place + 1] in "\r\n")):
        place -= 1
    return place


def _bracket_before(plain: str, place: int) -> int | None:
    """The bracket that the closing one at a position belongs to."""
    depth = 0
    for index in range(place, max(-1, place - 4000), -1):
        depth += (plain[index] in _CLOSE) - (plain[index] in _OPEN)
        if depth == 0:
            return index
    return None


def _angle_before(plain: str, place: int) -> int | None:
    """The `<` that belongs to the `>` at a position."""
    angles = depth = 0
    for index in range(place, max(-1, place - 4000), -1):
        char = plain[index]
        if char in _CLOSE:
            depth += 1
        elif char in _OPEN:
            depth -= 1
            if depth < 0:
                return None
        elif depth == 0 and char == ">" and plain[index - 1 : index] != "-":
            angles += 1
        elif depth == 0 and char == "<":
            angles -= 1
            if angles == 0:
                return index
        elif depth == 0 and char == ";":
            return None
    return None


def _level_end(plain: str, start: int, stop: str) -> int | None:
    """Where `stop` first occurs outside brackets."""
    depth = 0
    for index in range(start, min(len(plain), start + 4000)):
        if plain[index] in _OPEN:
            depth += 1
        elif plain[index] in _CLOSE:
            depth -= 1
        elif depth == 0 and plain.startswith(stop, index):
            return index
        if depth < 0:
            return None
    return None


def _matching(plain: str, start: int) -> int | None:
    """The position after the bracket that closes the one at `start`."""
    depth = 0
    for match in re.compile(r"[()\[\]{}]").finditer(plain, start):
        depth += 1 if match[0] in _OPEN else -1
        if depth == 0:
            return match.end()
    return None


@dataclass(frozen=True)
class SourceFiles:
    """A source and the user's files that it includes."""

    texts: dict[Path, str]
    """By absolute path; the source is the first one."""
    edges: dict[Path, dict[str, Path]] = field(repr=False)
    """What each file includes: the name it writes, and the file."""
    changed: frozenset[Path] = frozenset()
    """Files whose text is not that on disk."""

    @property
    def asks_for_cores(self) -> bool:
        """Whether the code depends on the core that it is compiled for."""
        return any(_CORES.search(masked(text)) for text in self.texts.values())

    def rewritten(self) -> list[Path]:
        """The files that must be rewritten, and those that include them."""
        found = {path for path, text in self.texts.items() if path in self.changed or rewrite(text) != text}
        while True:
            more = {path for path, names in self.edges.items() if path not in found and found & set(names.values())}
            if not more:
                return [path for path in self.texts if path in found]
            found |= more


def read_files(source: Path, folders: Sequence[Path], changed: Mapping[Path, str] | None = None) -> SourceFiles:
    """The source and the files that it includes from its own folder and from the user's folders. `changed` has texts
    that replace those of files."""
    texts: dict[Path, str] = {}
    edges: dict[Path, dict[str, Path]] = {}
    waiting = [source.resolve()]
    while waiting and len(texts) < MOST_FILES:
        path = waiting.pop()
        if path in texts:
            continue
        texts[path] = changed[path] if changed and path in changed else _read(path)
        edges[path] = {}
        for name in _INCLUDE.findall(texts[path]):
            found = next((file for folder in (path.parent, *folders) if (file := folder / name).is_file()), None)
            if found is not None:
                edges[path][name] = found.resolve()
                waiting.append(edges[path][name])
    return SourceFiles(texts, edges, frozenset(changed or ()))


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(LONGEST).decode("utf-8", "replace")


def write_rewritten(files: SourceFiles, folder: Path) -> dict[Path, Path]:
    """Write copies of the files that must be rewritten; the copy of each. They name their originals to the compiler."""
    copies = {path: folder / f"{index}_{path.name}" for index, path in enumerate(files.rewritten())}
    for path, copy in copies.items():
        text = rewrite(files.texts[path])
        for name, file in files.edges[path].items():
            if file in copies:
                written = re.compile(rf"(#[ \t]*include[ \t]*)[<\"]{re.escape(name)}[>\"]")
                text = written.sub(lambda match, to=copies[file]: f'{match[1]}"{to}"', text)
        copy.write_text(f"#line 1 {_quoted(path)}\n{text}\n")
    return copies


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


EntryKind = Literal["launch", "kernel"]
ANY_TYPE = "float"
"""What a template of a kernel is instantiated for, if the source names no type."""
GLOBAL = "__ptokit_global__"
"""What `__global__` becomes in the text that is searched for entries."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an entry, as it is written."""

    name: str
    type: str

    @property
    def is_stream(self) -> bool:
        """Whether it is the stream of a launch."""
        return self.type.replace(" ", "") in ("void*", "aclrtStream", "rtStream_t") and "stream" in self.name.lower()


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


_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\w+|::|\.\.\.|->|\S')
_MARKER = re.compile(r'^#(?:line)? (\d+) "((?:\\.|[^"\\])*)".*$')
_TYPES = frozenset(re.findall(r"\w+", "class struct union enum using typedef concept namespace static_assert requires"))
_DROPPED = frozenset(("inline", "extern", GLOBAL, "constexpr", "template", '"C"', "__extension__"))
_KEYWORDS = frozenset(re.findall(r"\w+", "const int float double char short long unsigned signed bool void auto"))


@dataclass
class _Token:
    text: str
    line: int


def find_entries(preprocessed: str, source: Path) -> list[CppEntry]:
    """The entries that a source defines, from its preprocessed text, in the order of the text."""
    finder = _EntryFinder(list(_tokens(preprocessed, str(source))))
    finder.run()
    return finder.entries()


def _tokens(preprocessed: str, source: str) -> Iterator[_Token]:
    """The tokens of the lines that come from the source itself."""
    line, inside = 1, True
    for row in preprocessed.splitlines():
        marker = _MARKER.match(row)
        if marker:
            line, inside = int(marker[1]), marker[2].replace("\\\\", "\\").replace('\\"', '"') == source
            continue
        if inside and not row.startswith("#"):
            yield from (_Token(text, line) for text in _TOKEN.findall(row))
        line += 1


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

    def run(self) -> None:
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
            depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
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
            if not _TYPES & set(_outside_brackets(texts)):
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
        texts = _without_attributes([token.text for token in words])
        has_list = texts[:2] == ["template", "<"]
        is_template = has_list and texts[2:3] != [">"]
        is_instance = texts[:1] == ["template"] and not is_template
        head = texts[_angle_end(texts, 1) :] if has_list else texts
        opened = _parameters_start(head)
        if opened is None or opened == 0:
            return
        closed = _bracket_end(head, opened)
        named, arguments = _name_end(head, opened)
        if named is None or not re.fullmatch(r"[A-Za-z_]\w*", head[named]):
            return
        first = _qualified_start(head, named)
        before = head[:first]
        if first != named and not is_instance:
            return
        if "static" in before or "operator" in before or "?" in self.spaces or "=" in before:
            return
        result = _joined([text for text in before if text not in _DROPPED])
        inside = [token.text for token in self.tokens[slice(*body)]]
        self.found.append(
            _Function(
                head[named], "".join(head[first:named]), arguments, "::".join(space for space in self.spaces if space),
                result or "void", _parameters(head[opened + 1 : closed - 1]), words[0].line,
                GLOBAL in before, is_template, is_instance,
                _has_launch(inside),
                _type_parameters(texts[2 : _angle_end(texts, 1) - 1]) if is_template else (),
            )
        )  # fmt: skip

    def entries(self) -> list[CppEntry]:
        """The functions that launch or are kernels, once each; without any, the templates of kernels."""
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
        for at, text in enumerate(texts):
            if text in names and texts[at + 1 : at + 2] == ["<"]:
                end = _angle_end(texts, at + 1)
                types = [_joined(part) for part in _split(texts[at + 2 : end - 1])]
                if texts[end : end + 1] == ["("] and not variables & set(texts[at + 2 : end]):
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


def _type_parameters(texts: list[str]) -> tuple[str, ...]:
    """The names of the parameters of a template; none if one is no type."""
    parts = [[*part] for part in _split(texts)]
    if any(len(part) < 2 or part[0] not in ("typename", "class") or part[1] == "..." for part in parts):
        return ()
    return tuple(part[1] for part in parts)


def _has_launch(texts: list[str]) -> bool:
    return any(texts[i : i + 3] == ["<"] * 3 for i in range(len(texts) - 2))


def _outside_brackets(texts: list[str]) -> Iterator[str]:
    depth = angles = 0
    for index, text in enumerate(texts):
        depth += (text in ("(", "[")) - (text in (")", "]"))
        angles += (text == "<" and index > 0 and texts[index - 1] == "template") or (text == "<" and angles > 0)
        angles -= text == ">" and angles > 0
        if depth == 0 and angles == 0:
            yield text


def _without_attributes(texts: list[str]) -> list[str]:
    """The tokens without `[[...]]`, `__attribute__((...))`, `alignas(...)`."""
    kept: list[str] = []
    index = 0
    while index < len(texts):
        if texts[index] in ("__attribute__", "alignas", "__declspec") and texts[index + 1 : index + 2] == ["("]:
            index = _bracket_end(texts, index + 1)
        elif texts[index : index + 2] == ["[", "["]:
            index = _bracket_end(texts, index)
        else:
            kept.append(texts[index])
            index += 1
    return kept


def _angle_end(texts: list[str], start: int) -> int:
    """The index after the `>` that closes the `<` at `start`."""
    angles = depth = 0
    for index in range(start, len(texts)):
        depth += (texts[index] in ("(", "[", "{")) - (texts[index] in (")", "]", "}"))
        if depth == 0:
            angles += (texts[index] == "<") - (texts[index] == ">")
            if angles == 0:
                return index + 1
    return len(texts)


def _bracket_end(texts: list[str], start: int) -> int:
    depth = 0
    for index in range(start, len(texts)):
        depth += (texts[index] in ("(", "[", "{")) - (texts[index] in (")", "]", "}"))
        if depth == 0:
            return index + 1
    return len(texts)


def _parameters_start(texts: list[str]) -> int | None:
    """The bracket that opens the parameters: the first one outside template arguments."""
    index = 0
    while index < len(texts):
        if texts[index] == "<" and index and re.fullmatch(r"\w+", texts[index - 1]):
            index = _angle_end(texts, index)
        elif texts[index] == "(":
            if index and texts[index - 1] in ("decltype", "noexcept", "requires"):
                index = _bracket_end(texts, index)
            else:
                return index
        else:
            index += 1
    return None


def _name_end(texts: list[str], opened: int) -> tuple[int | None, str]:
    """The index of the function's name before its parameters, and its template arguments."""
    index = opened - 1
    if texts[index] != ">":
        return index, ""
    angles = depth = 0
    for place in range(index, -1, -1):
        depth += (texts[place] in (")", "]", "}")) - (texts[place] in ("(", "[", "{"))
        angles += ((texts[place] == ">") - (texts[place] == "<")) * (depth == 0)
        if angles == 0:
            return (place - 1, _joined(texts[place:opened])) if place else (None, "")
    return None, ""


def _qualified_start(texts: list[str], named: int) -> int:
    """The index where a name starts with the namespaces before it."""
    while named >= 2 and texts[named - 1] == "::" and re.fullmatch(r"[A-Za-z_]\w*", texts[named - 2]):
        named -= 2
    return named


def _parameters(texts: list[str]) -> tuple[Parameter, ...]:
    found: list[Parameter] = []
    for part in _split(texts):
        if part and part != ["void"]:
            found.append(_parameter(part, len(found)))
    return tuple(found)


def _parameter(texts: list[str], number: int) -> Parameter:
    plain = texts[: texts.index("=")] if "=" in texts else texts
    last = plain[-1]
    named = len(plain) > 1 and re.fullmatch(r"[A-Za-z_]\w*", last) and last not in _KEYWORDS and plain[-2] != "::"
    alone = named and all(text in ("const", "volatile") for text in plain[:-1])
    if named and not alone:
        return Parameter(last, _joined(plain[:-1]))
    return Parameter(f"argument{number}", _joined(plain))


def _split(texts: list[str]) -> Iterator[list[str]]:
    """The parts between commas outside brackets."""
    part: list[str] = []
    depth = 0
    for text in texts:
        depth += (text in ("(", "[", "{", "<")) - (text in (")", "]", "}", ">"))
        if text == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(text)
    yield part


def _joined(texts: Sequence[str]) -> str:
    text = " ".join(texts)
    text = re.sub(r" ?(::|[<>(),&*\[\]]) ?", r"\1", text)
    return re.sub(r"([,])(?=\S)", r"\1 ", re.sub(r"([>*&])(?=\w)", r"\1 ", text)).strip()
