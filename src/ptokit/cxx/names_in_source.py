"""The texts of sources that may be shown, and the author's names of operands in them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ptokit.cxx.recording import Frame
from ptokit.cxx.repository import is_within
from ptokit.lines import keep

MOST_LINES = 40
"""Lines of one call that are read."""
LONGEST_CALL = 10_000
"""Characters of these lines."""
LONGEST = 4 << 20
"""Bytes of a file. Longer ones are not read."""
MOST_BYTES = 32 << 20
"""Of all files of a source."""
OF_PYTHON = (".py", ".pyw", ".pyi", ".pyc")
"""Ends of names of files that Python reads itself."""
NAME = re.compile(r"[A-Za-z_]\w*")
OPEN, CLOSE = "([{<", ")]}>"
KEYWORDS = frozenset(("this", "static_cast", "reinterpret_cast", "const_cast", "std", "move", "pto"))


class SourceTexts:
    """The texts of source files in some folders, each read once. A source may name any file as its own, by `#line`: no
    other one is read. Texts that are given replace those of files."""

    def __init__(self, folders: Iterable[str | Path] = (), given: Mapping[str, str] | None = None) -> None:
        self.here = os.getcwd()
        """Where relative paths of the compiler's start."""
        self._folders = [os.path.realpath(folder) for folder in folders]
        self._texts: dict[str, str] = dict(given or {})
        self._lines: dict[str, tuple[str, ...]] = {}
        self._names: dict[str, str] = {}
        self._left = MOST_BYTES

    def text(self, file: str) -> str:
        """The text of a file; empty if it may not or cannot be read."""
        if file not in self._texts:
            self._texts[file] = self._read(file).decode("utf-8", "replace")
        return self._texts[file]

    def name(self, file: str) -> str:
        """What a place in a file has as its file: one without a text is put in brackets, and nothing will read it."""
        if file not in self._names:
            is_shown = not file.endswith(OF_PYTHON) and self.text(file) != ""
            if is_shown:
                keep(file, [line.rstrip("\r") + "\n" for line in self.lines(file)])
            self._names[file] = file if is_shown else f"<{os.path.abspath(file)}>"
        return self._names[file]

    def lines(self, file: str) -> tuple[str, ...]:
        """The lines of a file."""
        if file not in self._lines:
            self._lines[file] = tuple(self.text(file).split("\n"))
        return self._lines[file]

    def column(self, file: str, line: int, byte: int) -> int:
        """The column of a byte of a line, both counted from 1: compilers count bytes. Bytes that are no UTF-8 are
        one column each."""
        text = "".join(self.lines(file)[max(0, line - 1) : line])
        if text.isascii() or byte < 1 or len(text) > LONGEST_CALL:
            return byte
        return 1 + len(text.replace("\ufffd", "?").encode()[: byte - 1].decode("utf-8", "ignore"))

    def _read(self, file: str) -> bytes:
        """The bytes of a regular file in the folders. Other ones are not opened: some would wait for ever."""
        try:
            real = os.path.realpath(file)
            state = os.stat(real)
            if not stat.S_ISREG(state.st_mode) or not is_within(Path(real), self._folders):
                return b""
            with open(real, "rb") as stream:
                data = stream.read(min(self._left, LONGEST) + 1)
        except (OSError, ValueError):
            return b""
        if len(data) > min(self._left, LONGEST):
            return b""
        self._left -= len(data)
        return data


def argument_names(texts: SourceTexts, frames: Sequence[Frame], function: str) -> list[str]:
    """The names in the arguments of the innermost call, in order; empty for an argument without one."""
    if not frames or frames[0].column > LONGEST_CALL:
        return []
    frame = frames[0]
    lines = texts.lines(frame.file)[max(0, frame.line - 1) : frame.line - 1 + MOST_LINES]
    text = "\n".join(line[:LONGEST_CALL] for line in lines)[:LONGEST_CALL]
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
