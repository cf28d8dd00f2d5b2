"""What needs Ray besides tables: the page of the documentation, sweeps, and slices of fuzz tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import KERNELS, fine
from tests.fuzz_ray import Slice, slices_of
from tests.test_docs import BLOCK, outcome, text_of


def test_the_code_of_the_page_does_what_is_shown(ray: Any) -> None:
    names: dict[str, object] = {}
    for block in BLOCK.finditer(text_of("docs/sharded.md")):
        assert outcome(block["code"], names) == (block["shown"] or "").rstrip()


def test_a_sweep_on_ray_is_the_sweep(ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doubled.py").write_text(KERNELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    arrays = ("--arg", "x=f32[64,16]", "--arg", "out=f32[64,16]")
    words = ("sweep", "doubled:double", *arrays, "--param", "rows=4,16", "--grid", "{64/rows}")
    assert fine(*words, "--ray") == fine(*words)


def test_slices_are_the_files_of_the_commands() -> None:
    lines = [
        "PYTHONPATH=. PTOKIT_FUZZ=20 .venv/bin/pytest -n auto -p tests.bar tests/text/test_fuzz.py tests/compute",
        "PYTHONPATH=. .venv/bin/pytest -n auto -p tests.bar -p tests.machine.both tests/lang/test_tile.py",
        "PYTHONPATH=. PTOKIT_FUZZ=20 .venv/bin/pytest -p tests.bar tests/sharded",
        "echo done",
    ]
    found = slices_of(lines)
    assert found[0] == Slice("tests/text/test_fuzz.py", (), ("PYTHONPATH=.", "PTOKIT_FUZZ=20"))
    assert found[-1] == Slice("tests/lang/test_tile.py", ("-p", "tests.machine.both"), ("PYTHONPATH=.",))
    assert "tests/compute/test_parts.py" in [each.file for each in found]
    assert not any(each.file.startswith("tests/sharded") for each in found)
