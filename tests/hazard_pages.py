"""Writes docs/hazards: a page for every hazard, with a program that has it, its report and its repair.

`make generated` writes the pages from the programs of `tests/corpus/pages`. A line of a program that ends
in `# -` is removed by the repair; one that begins with `# +` is added by it. A program without such lines is repaired
by `ptokit check --fix`.
"""

from __future__ import annotations

import re
import sys
from contextlib import chdir
from difflib import unified_diff
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from typer.testing import CliRunner

from ptokit import spec
from ptokit.cli import app

ROOT = Path(__file__).resolve().parent.parent
CLAUSES = {
    "KN-13": ("Two accesses of one core on different pipes that nothing orders", "race", "error on a2a3 and a5"),
    "KN-16": ("Two accesses on different cores that nothing hands over", "race", "error on a2a3 and a5"),
    "CO-SEM-02": ("Two blocks write one place, or one reads what the other writes", "race", "error on a2a3 and a5"),
}
"""What the machine reports under a clause, without the number of a hazard: the situation, what happens, its level."""


def _kind(stem: str) -> str:
    """The hazard or the clause of a program: `h16`, `kn13`, `co-sem-02`."""
    return re.sub(r"-?(\d+)$", r"-\1", stem).upper()


PROGRAMS = {_kind(path.stem): path for path in sorted((ROOT / "tests/corpus/pages").glob("*.py"))}
FOLDER = ROOT / "docs/hazards"
ADDED, REMOVED = re.compile(r"^(\s*)# \+ ", re.MULTILINE), re.compile(r"^.*  # -\n", re.MULTILINE)


def faulty(kind: str) -> str:
    """The program that has a hazard."""
    lines = PROGRAMS[kind].read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line.replace("  # -\n", "\n") for line in lines if not ADDED.match(line))


def is_repaired_by_machine(kind: str) -> bool:
    """Whether the program does not say how it is repaired."""
    return not re.search(r"# [+-]", PROGRAMS[kind].read_text(encoding="utf-8"))


def repaired(kind: str) -> str:
    """The same program without it."""
    if is_repaired_by_machine(kind):
        return checked(kind, faulty(kind), "--fix")[1]
    return ADDED.sub(r"\1", REMOVED.sub("", PROGRAMS[kind].read_text(encoding="utf-8")))


@cache
def checked(kind: str, text: str, *options: str) -> tuple[str, str]:
    """The output of `ptokit check` for a program, and the program then."""
    with TemporaryDirectory() as folder, chdir(folder):
        name = PROGRAMS[kind].name
        Path(name).write_text(text, encoding="utf-8")
        shown = CliRunner().invoke(app, ["check", name, *options], env={"COLUMNS": "120"}).stdout
        return shown, Path(name).read_text(encoding="utf-8")


def printed(kind: str, text: str, *options: str) -> str:
    """The output of `ptokit check` for a program."""
    return checked(kind, text, *options)[0]


def heading(kind: str) -> str:
    """What is wrong, what happens, and where that is stated."""
    hazard, clauses = spec.hazards().get(kind), (kind,)
    situation, effect, level = CLAUSES.get(kind, ("", "", ""))
    if hazard:
        situation, effect, level, clauses = hazard.situation, hazard.effect, hazard.level, hazard.clauses
    return f"""\
# {kind}: {situation}

What happens: {effect}. Level: {level}. Clauses: {", ".join(f"`{clause}`" for clause in clauses)}
(`ptokit explain {clauses[0]}`).
"""


def repair(kind: str) -> str:
    """How the program is repaired."""
    before, after, name = faulty(kind), repaired(kind), PROGRAMS[kind].name
    if is_repaired_by_machine(kind):
        return (
            f"```console\n$ ptokit check {name} --fix --diff\n{printed(kind, before, '--fix', '--diff').rstrip()}\n```"
        )
    change = "".join(unified_diff(before.splitlines(True), after.splitlines(True), name, name))
    return f"```diff\n{change.rstrip()}\n```"


def page(kind: str) -> str:
    """The page of a hazard."""
    name, before, after = PROGRAMS[kind].name, faulty(kind), repaired(kind)
    return f"""\
<!-- Written by tests/hazard_pages.py. -->
{heading(kind)}
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

{repair(kind)}

```console
$ ptokit check {name}
{printed(kind, after).rstrip()}
```
"""


def pages() -> dict[Path, str]:
    """All pages by their files."""
    return {FOLDER / f"{kind}.md": page(kind) for kind in PROGRAMS}
