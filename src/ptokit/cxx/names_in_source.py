"""The texts of sources that may be shown, and the author's names of operands in them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ptokit.cxx.entries import closing_end
from ptokit.cxx.recording import RecordedFrame
from ptokit.cxx.repository import is_within
from ptokit.cxx.source_text import SourceTokens, tokens_of
from ptokit.lines import keep

LONGEST_CALL = 10_000
"""Characters from the beginning of a line on in which a call is looked for."""
MOST_TOKENS = 1000
"""Of its template arguments."""
LONGEST = 4 << 20
"""Bytes of a file. Longer ones are not read."""
MOST_BYTES = 32 << 20
"""Of all files of a source."""
OF_PYTHON = (".py", ".pyw", ".pyi", ".pyc")
"""Ends of names of files that Python reads itself."""
NAME = re.compile(r"[A-Za-z_]\w*")
FORM = re.compile(r"(?:\d|_\w+)$")
"""What the name of a form has behind that of its instruction: `tmrgsort2`, `tgather_mask`."""
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

    def start(self, file: str, line: int) -> int:
        """The offset of a line in the text of its file."""
        return sum(len(text) + 1 for text in self.lines(file)[: max(0, line - 1)])

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


def argument_names(texts: SourceTexts, frames: Sequence[RecordedFrame], function: str) -> list[str]:
    """The names in the arguments of the innermost call, in order; empty for an argument without one."""
    if not frames or frames[0].column > LONGEST_CALL:
        return []
    text, begin = texts.text(frames[0].file), texts.start(frames[0].file, frames[0].line)
    tokens = tokens_of(text)
    near = range(tokens.from_offset(begin), tokens.from_offset(begin + LONGEST_CALL))
    names = function.lower(), FORM.sub("", function.lower())
    calls = [number for number in near if tokens.texts[number].lower() in names]
    if not calls:
        return []
    at = begin + frames[0].column  # compilers point at the name or behind it
    before = [number for number in calls if tokens.starts[number] < at]
    return [_name(argument) for argument in _arguments(tokens, text, (before or calls)[-1 if before else 0] + 1)]


def _arguments(tokens: SourceTokens, text: str, number: int) -> list[str]:
    """The arguments of a call, from the token behind its name."""
    if tokens.text(number) == "<":
        number += closing_end(tokens.texts[number : number + MOST_TOKENS], 0)
    last = tokens.partners[number] if tokens.text(number) == "(" else -1
    found, begin, at = list[str](), number + 1, number + 1
    while at <= last:
        if tokens.texts[at] == "," or at == last:
            found.append(text[tokens.starts[begin] : tokens.starts[at]])
            begin = at + 1
        at = max(at, tokens.partners[at] if tokens.texts[at] in ("(", "[", "{") else at) + 1
    return found if found != [""] else []


def _name(argument: str) -> str:
    """The name of a variable in an argument: `tiles` of `tiles[i % 2]`, `x` of `this->x`."""
    plain = re.sub(r"\[[^\]]*\]", "", argument)
    names = [name for name in NAME.findall(plain) if name not in KEYWORDS]
    is_plain = re.fullmatch(r"[\s*&(]*(?:this\s*->\s*)?[\w.]+(?:\s*->\s*\w+)*[\s)]*", plain)
    return names[-1] if names and is_plain else ""
