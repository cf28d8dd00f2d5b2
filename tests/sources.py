"""The package's own files as syntax trees, for tests that look at all of them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import ptokit

SOURCE = Path(ptokit.__file__).parent


@cache
def parsed(path: Path) -> ast.Module:
    """A file, parsed once in a process."""
    return ast.parse(path.read_text(encoding="utf-8"))
