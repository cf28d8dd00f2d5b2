"""Flags of C++ kernels on pipes that their core does not have are findings, on every engine."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from ptokit.cxx.operands import Unexpressible
from ptokit.cxx.recording import RecordedCall, RecordedScalar, RecordedText
from ptokit.cxx.statements import sync_shape
from ptokit.finding import Finding, VerifyError
from ptokit.lang.recorded import CppKernel, load_entries
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCE = Path(__file__).with_name("sources") / "pipes_of_cores.cpp"
ENGINES = ("machine", "reference")


@lru_cache
def kernels() -> dict[str, CppKernel]:
    return {kernel.name: kernel for kernel in load_entries(str(SOURCE), target="a5")}


def found_in(entry: str, engine: str) -> list[tuple[Finding, str]]:
    """The findings that refuse a launch, each with the comment of its line."""
    lines = SOURCE.read_text().splitlines()
    given = {"out": np.zeros((16, 16), "float32"), "a": np.ones((16, 16), "float16")}
    try:
        kernels()[entry][1](**given, target="a5", engine=engine)
    except VerifyError as error:
        return [(each, lines[each.where.line - 1].partition("// ")[2]) for each in error.findings if each.where]
    np.testing.assert_array_equal(given["out"], np.ones((16, 16)))
    return []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("own_pipes", []),
        ("cube_sets_v", [("AIC has no pipe V", "cube core")]),
        ("vector_waits_fix", [("AIV has no pipe FIX", "vector core")]),
        ("vector_flags_m", [("AIV has no pipe M", "flag"), ("AIV has no pipe FIX", "flag")] + 2 * [("", "")]),
    ],
)
def test_a_pipe_of_the_other_core_is_refused_at_its_line(
    entry: str, expected: list[tuple[str, str]], engine: str
) -> None:
    found = found_in(entry, engine)
    assert {each.rule for each, _ in found} <= {"KN-13"}
    assert len(found) == len(expected)
    for message, place in expected:
        assert any(message in each.message and place in at for each, at in found)


def test_a_flag_of_no_single_pipe_is_not_modelled() -> None:
    call = RecordedCall("set_flag", (*map(RecordedText, ("PIPE_ALL", "PIPE_V")), RecordedScalar("int64", 0)), (), 0)
    with pytest.raises(Unexpressible, match="PIPE_ALL is not modelled"):
        sync_shape(call, "vector")
    assert [each.level for each, at in found_in("no_single_pipe", "reference") if at == "flag"] == ["unmodelled"]
