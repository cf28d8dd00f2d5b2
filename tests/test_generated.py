"""What is generated is as its generator makes it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import ptokit as pto
from tests.generated import FOLDERS, GENERATORS, ROOT, is_stale, main, write

BY_EXAMPLE = "outcomes"
"""Compared example by example in `tests/conformance/test_outcomes.py`."""
FILES = {
    f"{name}: {file.relative_to(ROOT).as_posix()}": (file, make)
    for name in GENERATORS
    if name != BY_EXAMPLE
    for file, make in GENERATORS[name]()
}


@pytest.mark.parametrize("name", FILES)
def test_a_generated_file_is_current(name: str) -> None:
    warnings.simplefilter("ignore", pto.HazardWarning)
    assert not is_stale(*FILES[name]), f"{name} is stale; `make generated` writes it"


@pytest.mark.parametrize("name", FOLDERS)
def test_nothing_else_is_in_its_folder(name: str) -> None:
    folder, pattern = FOLDERS[name]
    assert {*(ROOT / folder).glob(pattern)} == dict(GENERATORS[name]()).keys(), "`make generated` removes the rest"


def test_stale_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current, stale, missing = (tmp_path / name for name in ("current", "stale", "missing"))
    current.write_text("text")
    stale.write_text("before")
    made: list[tuple[Path, Callable[[], str]]] = [(file, lambda: "text") for file in (current, stale, missing)]
    monkeypatch.setitem(GENERATORS, "some", lambda: iter(made))
    assert [is_stale(*each) for each in made] == [False, True, True]
    assert write("some") == 2 and write("some") == 0
    assert {file.read_text() for file in tmp_path.iterdir()} == {"text"}


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stub"]) == 2 and "known: stubs, outcomes" in capsys.readouterr().err
