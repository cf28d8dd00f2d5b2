"""What the documentation shows is true."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import ptokit as pto

ROOT = Path(__file__).resolve().parent.parent


def test_the_package_docstring_runs() -> None:
    assert doctest.testmod(pto).failed == 0


def test_the_first_gather_of_the_readme_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    table, rows = names["table"], names["rows"]
    assert isinstance(table, pto.GlobalTensor)
    assert np.array_equal(rows, table.array[np.minimum(np.arange(16) * 70, 999)])


def test_the_refusal_of_the_readme_is_what_a_user_sees() -> None:
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    table, dst = pto.GlobalTensor(np.zeros((10, 64), "float32")), pto.Tile("vec", "float32", 16, 64)
    idx = pto.Tile("vec", "int32", 16, 1).write(0)
    with pto.target("a2a3"), pytest.raises(pto.VerifyError) as refusal:
        pto.mgather(dst, table, idx)
    assert str(refusal.value).replace(str(refusal.value.findings[0].where), "<stdin>:2") in shown


def test_every_call_of_the_face_stands_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in (
        "mgather",
        "mscatter",
        "tscatter",
        "tload",
        "tstore",
        "tmov",
        "tassign",
        "Tile",
        "GlobalTensor",
        "dyn",
    ):
        assert f"`{name}(" in readme
