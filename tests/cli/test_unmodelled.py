"""Kernels with instructions that ptokit does not model: exit status, JSON, pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ptokit as pto
from tests.cli.shell import fine, ptokit_

TILE = "!pto.tile_buf<vec, 8x16xf32>"
TEXT = f"""func.func @k() {{
  %t = pto.alloc_tile : {TILE}
  pto.tpop_from_aic {{split = 0}} -> {TILE}
  pto.tpack ins(%p : {TILE}) outs(%t : {TILE})
  return
}}
""".replace("pto.tpop", "%p = pto.tpop")


@pytest.fixture(autouse=True)
def text(folder: Path) -> None:
    (folder / "k.pto").write_text(TEXT)
    other = "!pto.tile_buf<vec, 8x8xf32>"
    wrong = f"  %b = pto.alloc_tile : {other}\n  pto.tabs ins(%t : {TILE}) outs(%b : {other})\n  return"
    (folder / "wrong.pto").write_text(TEXT.replace("  return", wrong))


def test_a_check_exits_with_3_if_there_is_nothing_worse() -> None:
    result = ptokit_("check", "k.pto", "--target", "a5")
    assert result.exit_code == 3
    assert "unmodelled [opaque] tpack on a5: ptokit does not model this" in result.stdout
    assert "a5: not judged; 2 unmodelled; " in result.stdout


def test_a_hazard_is_worse(folder: Path) -> None:
    (folder / "unwritten.pto").write_text(TEXT.replace("ins(%p", "ins(%t"))
    result = ptokit_("check", "unwritten.pto", "--target", "a5")
    assert result.exit_code == 1 and "a5: not accepted; 1 hazard, 2 unmodelled; " in result.stdout


@pytest.mark.parametrize(("name", "target", "status"), [("k", "a5", 3), ("unwritten", "cpu", 1), ("wrong", "cpu", 1)])
def test_a_diff_has_the_status_of_the_check(name: str, target: str, status: int, folder: Path) -> None:
    (folder / "unwritten.pto").write_text(TEXT.replace("ins(%p", "ins(%t"))
    for more in ((), ("--fix", "--diff"), ("--fix", "--diff", "--json")):
        assert ptokit_("check", f"{name}.pto", "--target", target, *more).exit_code == status, more


def test_an_error_is_worse() -> None:
    result = ptokit_("check", "wrong.pto", "--target", "a5")
    assert result.exit_code == 1


def test_json_says_so() -> None:
    report = json.loads(ptokit_("check", "k.pto", "--target", "a5", "--json").stdout)["targets"]["a5"]
    assert not report["modelled"] and not report["accepted"] and not report["refused"]
    assert "unmodelled" in {finding["level"] for finding in report["findings"]}


@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_a_run_exits_with_3_if_there_is_nothing_worse(engine: str, folder: Path) -> None:
    text = f"func.func @k() {{\n  %p = pto.tpop_from_aic {{split = 0}} -> {TILE}\n  return\n}}\n"
    (folder / "one.pto").write_text(text)
    result = ptokit_("run", "one.pto", "--target", "a5", "--engine", engine, "--json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert (found["ok"], found["modelled"]) == (True, False)


def test_pages() -> None:
    assert "dst written, src read, row number, col number" in fine("explain", "tsubview")
    assert "dst written, acc workspace, ping workspace" in fine("explain", "treduce")
    assert "tsubview" in fine("explain", "opaque")


def test_python_has_no_function_for_it() -> None:
    with pytest.raises(AttributeError, match="ptokit knows tpack by its effects only"):
        pto.tpack  # noqa: B018
