"""Commands in this process and in separate processes, and kernels for them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner, Result

import ptokit
from ptokit.cli import app
from tests import forked

KERNELS = '''\
import numpy as np
import ptokit as pto


@pto.kernel
def double(x, out, rows: pto.const = 4, oob: pto.const = "clamp"):
    """out = 2 x, and some blocks more than there are rows do nothing."""
    first = pto.block_idx() * rows
    n = pto.min(rows, x.shape[0] - first)
    t = pto.Tile("vec", x.dtype, rows, 16, valid=(n, 16))
    pto.tload(t, x[first : first + n])
    pto.tmuls(t, t, 2)
    pto.tstore(out[first : first + n], t)


@pto.kernel
def pick(table, ids, out):
    """out[i] = table[ids[i]], wherever that is."""
    index = pto.Tile("vec", ids.dtype, 1, 8)
    t = pto.Tile("vec", table.dtype, 8, 16)
    pto.tload(index, ids)
    pto.mgather(t, table, index)
    pto.tstore(out, t)


@pto.kernel
def column(table, ids, out):
    """A2/A3 refuses a column of row numbers."""
    index = pto.Tile("vec", ids.dtype, 8, 8, valid=(8, 1))
    t = pto.Tile("vec", table.dtype, 8, 16)
    pto.tload(index, ids)
    pto.mgather(t, table, index, oob="clamp")
    pto.tstore(out, t)


@pto.kernel
def shift(x, n, out):
    """out = x from row n on."""
    t = pto.Tile("vec", x.dtype, 8, 16, valid=(8 - n, 16))
    pto.tload(t, x[n:8])
    pto.tstore(out[0 : 8 - n], t)


@pto.kernel
def careless(x):
    """Its own Python goes wrong."""
    print("on my way")
    [][1]


def plain(x):
    """Not a kernel."""


NUMBER = 5
'''

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR", "COLUMNS")},
    "PYTHONPATH": str(Path(ptokit.__file__).parent.parent),
}


def ptokit_(*words: object, given: str | bytes | None = None) -> Result:
    """A command in this process. No traceback is ever printed."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def fine(*words: object, given: str | bytes | None = None) -> str:
    """The output of a command with status 0."""
    result = ptokit_(*words, given=given)
    assert result.exit_code == 0, result.output
    return result.stdout


def misuse(*words: object, given: str | bytes | None = None) -> str:
    """The message of a command with status 2; it prints no results."""
    result = ptokit_(*words, given=given)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return " ".join(result.stderr.split())


def process(*words: str, starting: bool = False, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command in a separate process; `starting`: one that Python starts and ends, where that matters."""
    command = [sys.executable if starting else forked.python(), "-m", "ptokit", *words]
    settings = {"env": ENVIRONMENT, "capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run(command, check=False, **settings)


def saved(path: Path, array: Any) -> Path:
    """An array in a file."""
    np.save(path, array, allow_pickle=False)
    return path


def reports_in(page: Path) -> list[dict[str, Any]]:
    """The data of the launches that a page shows."""
    embedded = re.findall(r'type="application/json">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    return json.loads(embedded[0])["reports"]
