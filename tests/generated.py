"""Everything that is generated and tracked, in one place: `make generated` writes it, a test says what is stale.

python tests/generated.py [NAME ...]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

Texts = Iterator[tuple[Path, Callable[[], str]]]
"""Files, each with the function that makes its text."""


def stubs() -> Texts:
    """The functions of instructions, for editors."""
    from tests.lang.stubs import FILE, stub

    yield FILE, stub


def outcomes() -> Texts:
    """What code that breaks a clause leads to."""
    from tests.conformance.outcomes import FILE, written

    yield FILE, written


def lists() -> Texts:
    """The lists of instructions in docs/instructions.md."""
    from tests.isa.test_opaque import PAGE, written

    yield PAGE, lambda: written(PAGE.read_text(encoding="utf-8"))


def hazards() -> Texts:
    """docs/hazards, from programs."""
    from tests.hazard_pages import FOLDER, PROGRAMS, page

    for kind in PROGRAMS:
        yield FOLDER / f"{kind}.md", partial(page, kind)


def revisions() -> Texts:
    """docs/revisions.md, from the rows of the revisions."""
    from tests.revision_page import FILE, page

    yield FILE, page


def pictures() -> Texts:
    """docs/pictures, drawn by ptokit."""
    from tests.pictures import FOLDER, PICTURES

    for name, draw in PICTURES.items():
        yield FOLDER / f"{name}.svg", draw


GENERATORS: dict[str, Callable[[], Texts]] = {
    "stubs": stubs, "outcomes": outcomes, "lists": lists, "hazards": hazards,
    "revisions": revisions, "pictures": pictures,
}  # fmt: skip
"""By name, in the order in which they are written."""
FOLDERS = {"hazards": ("docs/hazards", "*-*.md")}
"""Where a generator has all files of a pattern."""


def is_stale(file: Path, make: Callable[[], str]) -> bool:
    """Whether a file is not what its generator makes."""
    return not file.exists() or file.read_text(encoding="utf-8") != make()


def write(name: str) -> int:
    """Write the files of a generator that are stale, and remove those that it does not make; how many they are."""
    files = dict(GENERATORS[name]())
    folder, pattern = FOLDERS.get(name, ("", ""))
    extra = {*(ROOT / folder).glob(pattern)} - files.keys() if folder else set[Path]()
    for file in extra:
        file.unlink()
    stale = [file for file, make in files.items() if is_stale(file, make)]
    for file in stale:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(files[file](), encoding="utf-8")
    return len(stale) + len(extra)


def main(names: list[str]) -> int:
    """Run these generators, or all."""
    if unknown := [name for name in names if name not in GENERATORS]:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(GENERATORS)}", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    for name in names or GENERATORS:
        print(f"{name}: {write(name)} files written", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
