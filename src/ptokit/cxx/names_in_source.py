"""The author's names of operands, read from the source text of a call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ptokit.cxx.recording import Frame

MOST_LINES = 40
"""Lines of one call that are read."""
MOST_BYTES = 16 << 20
"""Longer files are not read."""
NAME = re.compile(r"[A-Za-z_]\w*")
OPEN, CLOSE = "([{<", ")]}>"
KEYWORDS = frozenset(("this", "static_cast", "reinterpret_cast", "const_cast", "std", "move", "pto"))


class SourceTexts:
    """The texts of source files, each read once. Texts that are given replace those of files."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._texts: dict[str, str] = dict(given or {})
        self._lines: dict[str, tuple[str, ...]] = {}

    def text(self, file: str) -> str:
        """The text of a file; empty if it cannot be read."""
        if file not in self._texts:
            self._texts[file] = _read(file)
        return self._texts[file]

    def lines(self, file: str) -> tuple[str, ...]:
        """The lines of a file."""
        if file not in self._lines:
            self._lines[file] = tuple(self.text(file).split("\n"))
        return self._lines[file]

    def column(self, file: str, line: int, byte: int) -> int:
        """The column of a byte of a line, both counted from 1: compilers count bytes. Bytes that are no UTF-8 are
        one column each."""
        text = "".join(self.lines(file)[max(0, line - 1) : line])
        if text.isascii() or byte < 1:
            return byte
        return 1 + len(text.replace("\ufffd", "?").encode()[: byte - 1].decode("utf-8", "ignore"))


def _read(file: str) -> str:
    try:
        path = Path(file)
        if path.stat().st_size > MOST_BYTES:
            return ""
        with path.open(encoding="utf-8", errors="replace", newline="") as stream:
            return stream.read()
    except OSError:
        return ""


def argument_names(texts: SourceTexts, frames: Sequence[Frame], function: str) -> list[str]:
    """The names in the arguments of the innermost call, in order; empty for an argument without one."""
    if not frames:
        return []
    frame = frames[0]
    lines = texts.lines(frame.file)[max(0, frame.line - 1) : frame.line - 1 + MOST_LINES]
    text = "\n".join(lines)
    calls = list(re.finditer(rf"\b{re.escape(function)}\b", text, re.IGNORECASE))
    if not calls:
        return []
    before = [match for match in calls if match.start() < frame.column]  # compilers point at the name or behind it
    return [_name(argument) for argument in _arguments(text, (before or calls)[-1 if before else 0].end())]


def _arguments(text: str, start: int) -> list[str]:
    """The arguments of a call whose name ends at an offset."""
    at, depth, begin, found = start, 0, -1, list[str]()
    angles = text[at : at + 1] == "<"
    while at < len(text):
        letter = text[at]
        if begin < 0:
            if letter == "(" and not depth:
                begin, depth = at + 1, 1
            elif angles and letter in "<>":
                depth += 1 if letter == "<" else -1
            elif not depth and not letter.isspace():
                return []
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if not depth:
                found.append(text[begin:at])
                return found if text[begin:at].strip() or found[:-1] else []
        elif letter == "," and depth == 1:
            found.append(text[begin:at])
            begin = at + 1
        at += 1
    return []


def _name(argument: str) -> str:
    """The name of a variable in an argument: `tiles` of `tiles[i % 2]`, `x` of `this->x`."""
    plain = re.sub(r"\[[^\]]*\]", "", argument)
    names = [name for name in NAME.findall(plain) if name not in KEYWORDS]
    is_plain = re.fullmatch(r"[\s*&(]*(?:this\s*->\s*)?[\w.]+(?:\s*->\s*\w+)*[\s)]*", plain)
    return names[-1] if names and is_plain else ""
