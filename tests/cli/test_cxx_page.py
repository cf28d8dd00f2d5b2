"""docs/cxx.md is true: its commands print what it shows, but for columns, which compilers state differently."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tests.cli.test_page import FILES, SESSIONS, session, shell, write_commands

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/cxx.md"
TEXT = PAGE.read_text(encoding="utf-8")
COLUMN = re.compile(r"(?<=\.cpp:)(\d+):\d+|\n +\^(?=\n)")


def test_commands_print_what_the_page_shows(folder: Path) -> None:
    for file in FILES.finditer(TEXT):
        (folder / file["name"]).write_text(file["text"], encoding="utf-8")
    write_commands(folder)
    blocks = [session(block["text"]) for block in SESSIONS.finditer(TEXT)]
    printed = shell([command for commands, _ in blocks for command in commands], folder)
    if os.environ.get("PTOKIT_UPDATE_GOLDEN"):
        return rewrite(iter(printed))
    assert [_plain(text) for text in printed] == [_plain(text) for _, shown in blocks for text in shown]


def _plain(text: str) -> str:
    return COLUMN.sub(lambda match: match[1] or "", text)


def rewrite(printed: Iterator[str]) -> None:
    """Put into the page what its commands print now."""

    def block(found: re.Match[str]) -> str:
        lines = (f"$ {command}\n{next(printed)}" for command in session(found["text"])[0])
        return f"```console\n{''.join(lines)}```"

    PAGE.write_text(SESSIONS.sub(block, TEXT), encoding="utf-8")
