"""Every test of a command has its own directory, with a module of kernels in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import KERNELS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory of a command, with empty caches."""
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("PTOKIT_TRACEBACK", raising=False)
    yield tmp_path
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]
