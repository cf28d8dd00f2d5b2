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
        folders = getattr(getattr(module, "__spec__", None), "submodule_search_locations", None) or ()  # without a file
        if any(str(place).startswith(str(tmp_path)) for place in (getattr(module, "__file__", None), *folders)):
            del sys.modules[name]
