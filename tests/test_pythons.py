"""`make test-pythons` and environments of other versions: the right interpreters, and none skipped silently."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import pythons

ROOT = Path(__file__).resolve().parent.parent


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a Python: a path in `bin`, and a pyenv in `pyenv`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tmp_path


def test_the_path_comes_before_pyenv(machine: Path) -> None:
    program(machine / "pyenv/versions/3.12.1/bin/python3.12", "echo 3.12")
    found = program(machine / "bin/python3.12", "echo 3.12")
    assert pythons.interpreter("3.12") == str(found)


def test_python3_of_the_path_is_found_by_its_version(machine: Path) -> None:
    found = program(machine / "bin/python3", "echo 3.13")
    assert pythons.interpreter("3.13") == str(found)
    assert pythons.interpreter("3.12") is None


def test_a_version_of_pyenv_that_is_not_activated_is_found(machine: Path) -> None:
    program(machine / "bin/python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    for version in ("3.12.2", "3.12.10", "3.12.11t", "3.1.20"):
        program(machine / f"pyenv/versions/{version}/bin/python3.12", "echo 3.12")
    assert pythons.interpreter("3.12") == str(machine / "pyenv/versions/3.12.10/bin/python3.12")


def test_a_python_that_does_not_start_is_missing(machine: Path) -> None:
    program(machine / "bin/python3.12", "exit 1")
    (machine / "bin/python3").write_text("no program")
    assert pythons.interpreter("3.12") is None


def test_every_version_that_the_package_names_is_tested() -> None:
    assert pythons.supported() == ["3.11", "3.12", "3.13", "3.14"]
    for test in pythons.TESTS:
        assert (ROOT / test).exists(), test


@pytest.mark.parametrize(
    ("found", "passing", "status"),
    [
        ("3.11 3.12 3.13 3.14", "3.11 3.12 3.13 3.14", 0),
        ("3.11 3.13", "3.11 3.13", 0),
        ("3.11 3.13", "3.11", 1),
        ("3.11 3.13", "3.13", 1),
        ("", "", 1),
    ],
)
def test_what_is_missing_is_named_and_what_fails_counts(
    found: str, passing: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pythons, "interpreter", lambda version: f"/python{version}" if version in found else None)
    monkeypatch.setattr(pythons, "is_passed", lambda version, python: version in passing and version in python)
    assert pythons.main() == status
    printed = capsys.readouterr().out
    for version in pythons.supported():
        outcome = "passed" if version in passing else "FAILED" if version in found else "MISSING, not tested"
        assert f"\nPython {version}: {outcome}" in printed


def commands(*arguments: str) -> str:
    """What `make` would do."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "-n", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_an_environment_of_another_version_is_made_anew(tmp_path: Path) -> None:
    python, venv = program(tmp_path / "python3.14", "echo 3.14"), tmp_path / "venv"
    ready = [f"{venv}/.ready", f"PYTHON={python}", f"VENV={venv}"]
    program(venv / "bin/python", "echo 3.14")
    (venv / ".ready").touch()
    assert "-m venv" not in commands(*ready)
    program(venv / "bin/python", "echo 3.11")
    assert f"{python} -m venv --clear {venv}\n" in commands(*ready)


def test_another_python_has_another_environment(tmp_path: Path) -> None:
    python = program(tmp_path / "python3.99", "echo 3.99")
    assert f"{python} -m venv --clear .venv-3.99\n" in commands("test", f"PYTHON={python}")
    assert "does not start" in commands("test", f"PYTHON={program(tmp_path / 'broken', 'exit 1')}")
