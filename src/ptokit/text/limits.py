"""Checks of every text before it is read: its encoding, length and depth; and how large a text may become.

A text of n bytes stands for at most `EXPANSION` * n + `ROOM` characters: its types and attributes, with aliases written
out, and also the bodies of functions, each time that they are called. A text beyond that is refused at the line. So to
read, format or convert a text takes at most `BYTES` * n + `MOST_BYTES` bytes of memory, and at most `CALLS` * n +
`MOST_CALLS` calls of functions. A test measures both.
"""

from __future__ import annotations

import re

from ptokit.finding import Where
from ptokit.text.brackets import CLOSING, MARKS, PAIRS
from ptokit.text.errors import TextError, error_at

MAX_BYTES = 64 << 20
EXPANSION, ROOM = 32, 2 << 20
"""Characters that a text stands for: for each of its bytes, and besides."""
BYTES, MOST_BYTES = 1_000, 192 << 20
"""Memory that reading, formatting or converting takes at most: for each byte of the text, and besides. Ordinary texts
take 20 to 30 bytes for each, the worst ones that are known 500."""
CALLS, MOST_CALLS = 2_000, 8_000_000
"""Calls of functions that these take at most."""
MAX_DEPTH = 200
"""Brackets, or loops and branches, inside one another."""


def most_characters(text: str) -> int:
    """How many characters a text may stand for."""
    return EXPANSION * len(text) + ROOM


_SURROGATE = re.compile("[\ud800-\udfff]")


def plain_text(text: str | bytes, file: str) -> str:
    """The text, if it is UTF-8 and not too long; without a byte order mark."""
    if len(text) > MAX_BYTES:
        raise TextError(f"the text is longer than {MAX_BYTES >> 20} MB", Where(file, 1, 1))
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            read = text[: error.start].decode("utf-8")
            message = f"byte {error.start} (0x{text[error.start]:02x}) is not UTF-8"
            raise error_at(message, read, len(read), file) from None
    elif (match := _SURROGATE.search(text)) is not None:
        raise error_at(f"{match[0]!a} is not a character of a text", text, match.start(), file)
    return text.removeprefix("\ufeff")


def shallow(text: str, file: str) -> str:
    """The text, if its brackets do not nest too deep."""
    depth = 0
    for match in MARKS.finditer(text):
        if (mark := match[0]) in PAIRS:
            depth += 1
            if depth > MAX_DEPTH:
                raise error_at(f"nested more than {MAX_DEPTH} deep", text, match.start(), file)
        elif mark in CLOSING:
            depth = max(0, depth - 1)
    return text
