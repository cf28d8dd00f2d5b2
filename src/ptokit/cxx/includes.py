"""A source with the user's files that it includes, and copies of those that are rewritten for a host compiler."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptokit.cxx.repository import is_within
from ptokit.cxx.source_text import SourceTokens, masked, tokens_of

_NEWLINE = re.compile(r"\\?\r?\n")
_NAME = re.compile(r"\w+|::|##")
"""A token of a launched name."""


def rewrite(text: str) -> str:
    """The text as a host compiler takes it: launches are calls, code of the device's registers is gone, addresses of
    on-chip memories become pointers; lines stay."""
    if "<<<" in text:
        text = rewrite_launches(text)
    text = _PLAIN_CAST.sub(_plain_cast, _ON_CHIP.sub(_on_chip, text)) if "buf__" in text else text
    text = _LEFT_OUT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    text = _replaced(text, ("asm", "__asm__"), "(", "(void)0") if "asm" in text else text
    return _replaced(text, (SCOPE,), "{", '::ptokit::record("vec_scope");') if SCOPE in text else text


_LEFT_OUT = re.compile(r"\[\s*aicore\s*\]|\btypedef\s+struct\s*\{[^{}]*\}\s*(?:hifloat8|float[48]_e\w+)_t\s*;")
"""An attribute, and types in the place of those that a device compiler lacks, and ptokit has."""
SCOPE = "__VEC_SCOPE__"
_POINTED = (
    r"\s*(?P<const>(?:\b(?:const|volatile)\s+)*)__(?P<memory>ubuf|cbuf)__\s+"
    r"(?P<type>[\w:]+(?:\s+[\w:]+)*\s*\*)\s*"
)
_ON_CHIP = re.compile(rf"\breinterpret_cast\s*<{_POINTED}>")
_PLAIN_CAST = re.compile(rf"(?:(?<![\w>\])!~\s])|(?<=\breturn))(?P<space>\s*)\({_POINTED}\)(?=\s*[\w(&*])")
"""Casts to a pointer into an on-chip memory."""
_MEMORIES = {"ubuf": "vec", "cbuf": "mat"}


def _on_chip(match: re.Match[str], name: str = "on_chip") -> str:
    lines = "".join(_NEWLINE.findall(match[0]))
    return f"::ptokit::{name}<::ptokit::Memory::{_MEMORIES[match['memory']]}, {match['const']}{match['type']}>{lines}"


def _plain_cast(match: re.Match[str]) -> str:
    """Such a cast as an operator, which takes what the cast takes."""
    return f"{match['space']}{_on_chip(match, 'OnChip')}{{}} ->* "


def _replaced(text: str, words: tuple[str, ...], bracket: str, by: str) -> str:
    """The text with each part from a word up to the end of the bracket behind it replaced."""
    tokens = tokens_of(text)
    pieces: list[str] = []
    done = 0
    for number, word in enumerate(tokens.texts):
        start = tokens.starts[number]
        if word not in words or start < done:
            continue
        opened = number + 1 + (tokens.text(number + 1) in ("volatile", "__volatile__"))
        if tokens.text(opened) == bracket and (closed := tokens.partners[opened]) >= 0:
            pieces += [text[done:start], by, *_NEWLINE.findall(text[start : tokens.starts[closed]])]
            done = tokens.end(closed)
    return "".join([*pieces, text[done:]])


def rewrite_launches(text: str) -> str:
    """The text with `kernel<<<blocks, ...>>>(arguments)` as calls of `ptokit::chevron`; lines keep their numbers."""
    tokens, plain = tokens_of(text), masked(text)
    pieces: list[str] = []
    done = 0
    for places in _launches(tokens):
        start, opened, closed, last = (tokens.starts[number] for number in places)
        name, config = (_one_line(plain[begin:end]) for begin, end in ((start, opened), (opened + 3, closed)))
        kept = "".join(_NEWLINE.findall(text[opened:closed]))
        pieces += [text[done:start], f"::ptokit::chevron(PTOKIT_TEXT({name}), [&] {{ ", text[start:opened], kept]
        done = last + 1
        pieces.append(f"{text[closed + 3 : done]}; }}, {config})")
    return "".join([*pieces, text[done:]])


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", _NEWLINE.sub(" ", text)).strip()


def _launches(tokens: SourceTokens) -> Iterator[tuple[int, int, int, int]]:
    """The tokens where each launched name, its `<<<` and its `>>>` begin, and its arguments end. None of them is beyond
    another `<<<`."""
    places = [number for number, text in enumerate(tokens.texts) if text == "<<<"]
    after = 0
    for before, opened, later in zip((-1, *places), places, (*places[1:], len(tokens.texts)), strict=False):
        if opened < after:
            continue
        start, closed = _name_start(tokens, opened - 1, before + 1), _chevron_end(tokens, opened + 1, later)
        if start is not None and closed is not None and tokens.text(closed + 3) == "(":
            last = tokens.partners[closed + 3]
            if last >= 0:
                after = last
                yield start, opened, closed, last


def _chevron_end(tokens: SourceTokens, number: int, end: int) -> int | None:
    """Where `>>>` first is outside brackets."""
    while number < end:
        if tokens.texts[number : number + 3] == [">"] * 3 and tokens.starts[number + 2] == tokens.end(number + 1):
            return number if tokens.starts[number + 1] == tokens.end(number) else None
        if tokens.texts[number] in ("(", "[", "{", ")", "]", "}"):
            if tokens.partners[number] < number:  # one that closes, or that is not closed
                return None
            number = tokens.partners[number]
        number += 1
    return None


def _name_start(tokens: SourceTokens, last: int, first: int) -> int | None:
    """Where a name with its template arguments starts, from its last token; not before another one."""
    if tokens.text(last) == ">":
        last = _angle_start(tokens, last, first) - 1
    if last >= first and tokens.texts[last] == ")":  # a macro that makes the name
        last = tokens.partners[last] - 1
    start = last + 1
    while start > first and _NAME.fullmatch(tokens.texts[start - 1]):
        is_joined = start > last or "##" in tokens.texts[start - 1 : start + 1]
        if not is_joined and tokens.end(start - 1) != tokens.starts[start]:
            break
        start -= 1
    return start if first <= start <= last else None


def _angle_start(tokens: SourceTokens, number: int, first: int) -> int:
    """The `<` that belongs to a `>`; -1 if there is none."""
    angles = 0
    while number >= first:
        text = tokens.texts[number]
        angles += (text == ">") - (text == "<")
        if angles == 0:
            return number
        if text in ("(", "[", "{", ";"):
            return -1
        number = tokens.partners[number] - 1 if text in (")", "]", "}") else number - 1
    return -1


MOST_FILES = 500
"""Included files that are looked at."""
LONGEST = 4 * 1024 * 1024
"""Bytes of a source that is read."""


MOST_LOOKUPS = 100_000
"""Names in folders that are looked for. What is not found by then is the compiler's own business."""
_INCLUDE = re.compile(r"^([ \t]*#[ \t]*include[ \t]*)[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
_CORES = re.compile(r"\b__DAV_\w*(?:VEC|CUBE)\w*|\bTM?Pipe\b|\bASCEND_IS_AI[CV]\b")


@dataclass(frozen=True)
class SourceFiles:
    """A source and the user's files that it includes."""

    texts: dict[Path, str]
    """By absolute path; the source is the first one."""
    edges: dict[Path, dict[str, Path]] = field(repr=False)
    """What each file includes: the name it writes, and the file."""
    changed: frozenset[Path] = frozenset()
    """Files whose text is not that on disk."""
    linked: frozenset[Path] = frozenset()
    """Files that are included by a name that is a link, or in a folder that is one."""

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


class SpecialFileError(ValueError):
    """A file that is no regular one: reading it could wait for ever."""


def read_files(
    source: Path, folders: Sequence[Path], changed: Mapping[Path, str] | None = None, within: Sequence[str] = ()
) -> SourceFiles:
    """The source and the files that it includes from its own folder and from the user's folders. `changed` has texts
    that replace those of files. Files that are not `within` some folders are left out, if there are any."""
    texts: dict[Path, str] = {}
    edges: dict[Path, dict[str, Path]] = {}
    linked = set[Path]()
    left = MOST_LOOKUPS
    waiting = [source.resolve()]
    while waiting and len(texts) < MOST_FILES:
        path = waiting.pop()
        if path in texts:
            continue
        texts[path] = changed[path] if changed and path in changed else _read(path)
        edges[path] = {}
        for name in dict.fromkeys(match[2] for match in _INCLUDE.finditer(texts[path])):
            left -= 1 + len(folders)
            if left < 0:
                break
            found = _found(name, (path.parent, *folders))
            if found is not None and (not within or is_within(found, within)):
                edges[path][name] = found.resolve()
                waiting.append(edges[path][name])
                if os.path.islink(found) or os.path.islink(found.parent):
                    linked.add(edges[path][name])
    return SourceFiles(texts, edges, frozenset(changed or ()), frozenset(linked))


def _found(name: str, folders: Iterable[Path]) -> Path | None:
    """The file that a name means."""
    for folder in folders:
        file = folder / name
        if os.path.isfile(file):
            return file
        if os.path.exists(file) and not os.path.isdir(file):
            raise SpecialFileError(f"{file} is included, and is no regular file")
    return None


def _read(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise SpecialFileError(f"{path} is no regular file")
    with path.open("rb") as file:
        return file.read(LONGEST).decode("utf-8", "replace")


def write_rewritten(files: SourceFiles, folder: Path) -> dict[Path, Path]:
    """Write copies of the files that must be rewritten; the copy of each. They name their originals to the compiler."""
    copies = {path: folder / f"{index}_{path.name}" for index, path in enumerate(files.rewritten())}
    for path, copy in copies.items():
        named = {name: copies[file] for name, file in files.edges[path].items() if file in copies}

        def included(match: re.Match[str], named: dict[str, Path] = named) -> str:
            return f'{match[1]}"{named[match[2]]}"' if match[2] in named else match[0]

        text = _INCLUDE.sub(included, rewrite(files.texts[path]))
        copy.write_text(f"#line 1 {_quoted(path)}\n{text}\n")
    return copies


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
