"""Writes docs/hazards: a page for every hazard, with a program that has it, its report and its repair.

`python tests/hazard_pages.py` writes the pages from the programs of `tests/corpus/pages`. A line of a program that ends
in `# -` is removed by the repair; one that begins with `# +` is added by it.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import chdir
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from typer.testing import CliRunner

from ptokit import spec
from ptokit.cli import app

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = {f"H-{path.stem[1:]}": path for path in sorted((ROOT / "tests/corpus/pages").glob("h*.py"))}
FOLDER = ROOT / "docs/hazards"
ADDED, REMOVED = re.compile(r"^(\s*)# \+ ", re.MULTILINE), re.compile(r"^.*  # -\n", re.MULTILINE)


def faulty(kind: str) -> str:
    """The program that has a hazard."""
    lines = PROGRAMS[kind].read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line.replace("  # -\n", "\n") for line in lines if not ADDED.match(line))


def repaired(kind: str) -> str:
    """The same program without it."""
    return ADDED.sub(r"\1", REMOVED.sub("", PROGRAMS[kind].read_text(encoding="utf-8")))


def printed(kind: str, text: str, *options: str) -> str:
    """The output of `ptokit check` for a program."""
    with TemporaryDirectory() as folder, chdir(folder):
        name = PROGRAMS[kind].name
        Path(name).write_text(text, encoding="utf-8")
        return CliRunner().invoke(app, ["check", name, *options], env={"COLUMNS": "120"}).stdout


def page(kind: str) -> str:
    """The page of a hazard."""
    hazard, name = spec.hazards()[kind], PROGRAMS[kind].name
    before, after = faulty(kind), repaired(kind)
    change = "".join(unified_diff(before.splitlines(True), after.splitlines(True), name, name))
    return f"""\
<!-- Written by tests/hazard_pages.py. -->
# {kind}: {hazard.situation}

What happens: {hazard.effect}. Level: {hazard.level}. Clauses: {", ".join(f"`{clause}`" for clause in hazard.clauses)}
(`ptokit explain {hazard.clauses[0]}`).

## A program that has it

```python
{before.rstrip()}
```

## Its report

```console
$ ptokit check {name}
{printed(kind, before).rstrip()}
```

## Its repair

```diff
{change.rstrip()}
```

```console
$ ptokit check {name}
{printed(kind, after).rstrip()}
```
"""


def pages() -> dict[Path, str]:
    """All pages by their files."""
    return {FOLDER / f"{kind}.md": page(kind) for kind in PROGRAMS}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("H-*.md"):
        os.unlink(old)
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
    print(f"wrote {len(PROGRAMS)} pages")
