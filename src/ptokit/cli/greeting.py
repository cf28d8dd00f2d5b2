"""What `ptokit` prints without a command, and the facts at the end of its help."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator

import ptokit

INDENT = "      "
NARROW = 76
"""Characters below which a command and what it does stand on two lines."""
ABOUT = "Check, run, convert and explain PTO tile programs."
NEXT = {
    "ptokit demo": "a short tour",
    "ptokit check FILE": "what targets refuse, and why",
    "ptokit run FILE --arg x=x.npy": "run it on NumPy files",
    "ptokit report FILE": "findings, timeline and memory as a page",
    "ptokit view layout nz 16x32": "draw a layout",
    "ptokit explain": "instructions, clauses and hazards",
    "ptokit targets": "compare the targets",
}
"""What can be done next."""


def greeting() -> str:
    """A few commands to begin with."""
    width = shutil.get_terminal_size().columns
    lines = [*textwrap.wrap(f"ptokit {ptokit.__version__}. {ABOUT}", width), "", *_commands(width), ""]
    files = "FILE is PTO text (.pto), C++ (.cpp), or a kernel of a Python file (file.py:kernel)."
    more = "ptokit --help lists all commands, targets and engines."
    return "\n".join([*lines, *textwrap.wrap(files, width), *textwrap.wrap(more, width)]) + "\n"


def _commands(width: int) -> Iterator[str]:
    wide = max(map(len, NEXT))
    for command, about in NEXT.items():
        if width < NARROW:
            yield from (f"  {command}", *textwrap.wrap(about, width, initial_indent=INDENT, subsequent_indent=INDENT))
        else:
            yield f"  {command:<{wide}}  {about}"


def help_sections() -> dict[str, list[tuple[str, str]]]:
    """Targets, engines and defaults, for the end of the help."""
    from ptokit.engines import AUTO, ENGINES, PREFERRED
    from ptokit.lang.context import current
    from ptokit.target import PROFILES, families

    engines = [(name, engine.about) for name, engine in ENGINES.items()]
    return {
        "Targets": [(name, profile.title) for name, profile in PROFILES.items()],
        "Engines": [(AUTO, f"{' or '.join(PREFERRED)}, what is installed; cuda for arrays on a GPU"), *engines],
        "Defaults": [
            (
                "--target",
                f"{', '.join(families())} for check and report; those with pipes for trace and sweep; a5 for "
                f"view gather; else {current().name}",
            ),
            ("--engine", AUTO),
            ("--grid", "1 block"),
        ],
    }
