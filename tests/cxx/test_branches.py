"""Flags in branches that a launch did not take."""

from __future__ import annotations

from ptokit.lang.cpp_edits import untaken

TEXT = """\
void k(int n) {
    if (n) {
        set_flag(PIPE_V, PIPE_S, EVENT_ID0);
    }
    wait_flag(PIPE_V, PIPE_S, EVENT_ID0);
}
void other() { wait_flag(PIPE_V, PIPE_S, EVENT_ID0); }
"""
FLAG = "set_flag(PIPE_V, PIPE_S, EVENT_ID0);"


def test_a_branch_that_was_not_taken_is_found() -> None:
    found = untaken(TEXT, FLAG, {5}, TEXT.index("wait_flag"))
    assert found is not None and found.line == 3 and not found.has_else
    assert TEXT[found.start : found.end].startswith("if (n) {") and TEXT[found.end - 1] == "}"


def test_a_branch_that_was_taken_and_other_functions_do_not_count() -> None:
    assert untaken(TEXT, FLAG, {3, 5}, TEXT.index("wait_flag")) is None
    assert untaken(TEXT, FLAG, {7}, TEXT.rindex("wait_flag")) is None
