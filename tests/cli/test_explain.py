"""Output and errors of `explain`, `targets` and `demo`."""

from __future__ import annotations

import re
from itertools import cycle

import pytest
from typer.testing import CliRunner

import ptokit as pto
from ptokit import spec
from ptokit.cli import app
from ptokit.cli.explain import page_of
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.target import PROFILES
from tests.cli.shell import ptokit_
from tests.markdown import markdown

runner = CliRunner()
NAMES = (*spec.clauses(), *spec.gaps(), *spec.hazards())


def output(*words: str) -> str:
    result = runner.invoke(app, words)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_everything_in_the_clause_table_can_be_explained() -> None:
    """One page in sixteen as the command prints it; the others, which it prints alike, as Markdown."""
    for k, name in enumerate(NAMES):
        assert name in (markdown(page_of(name.lower())) if k % 16 else output("explain", name.lower()))


def test_a_clause_is_shown_with_its_rule_and_both_examples() -> None:
    page = output("explain", "MG-OOB-08")
    for part in ("cast to uint32", "cpu", "value", "Meets it", "MGATHER page"):
        assert part in page
    page = output("explain", "MG-MODE-03")
    for part in (
        "Idx.ValidRow == 1",
        "mgather, idx [into UB, row]: error on a2a3",
        "headers of: a2a3",
        "Meets it",
        "Breaks it",
    ):
        assert part in page


@pytest.mark.parametrize(("name", "target"), [*zip(INSTRUCTIONS, cycle(PROFILES))][::8])
def test_contracts_can_be_printed(name: str, target: str) -> None:
    """Of some instructions, on one target each; tests/conformance/test_pages.py reads the pages of all of them, on all
    targets."""
    output("explain", name)
    page = output("explain", name, "--target", target)
    for rule in INSTRUCTIONS[name].rules:
        if rule.level_on(target):
            assert rule.clause(target) in page
    assert f"On {target}" in page


def test_targets_are_compared() -> None:
    table = output("targets")
    for part in (*PROFILES, "192 KB", "256 KB", "216 KB", "512 KB"):
        assert part in table


@pytest.mark.parametrize("words", [["explain", "MG-NOPE-99"], ["explain", "mgather", "--target", "a9"]])
def test_misuse_exits_with_2_and_a_hint(words: list[str]) -> None:
    result = runner.invoke(app, words)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_demo_shows_its_acts() -> None:
    shown = output("demo")
    for part in (
        "wrap │ 3 9 0 5 0 7 3 1",
        "[0.5, 0.0, 1.5, 0.0, 1.0, 0.5]",
        "the rows of the tile begin with [4, 9, 4, 0, 25, 7, 0, 1, 2, 3, 9, 9, 12]",
        "0x0200 GGGGGGGG [0, 8:16]",
        "a2a3: refused",
        "MG-MODE-03",
        "a5: 3 blocks, equal to NumPy: True",
        '+ set_flag("MTE2", "V", 0)',
    ):
        assert part in shown


def test_demo_shows_a_missing_flag_its_repair_and_the_clean_run() -> None:
    _, _, act = output("demo").partition("7. A missing flag")
    parts = (
        "equal to NumPy: True",
        "a5, 1 block: 1 error",
        "H-25",
        "+ pto.set_flag(",
        "+ pto.wait_flag(",
        "With it, 0 results differ",
        "a5, 1 block: clean",
    )
    places = [act.index(part) for part in parts]
    assert places == sorted(places)
    assert re.search(r"20 other schedules that the flags allow, [1-9]\d* results differ", act)


@pytest.mark.parametrize("name", ["set_flag", "wait_flag", "barrier", "sync_set", "sync_wait"])
def test_statements_of_order_have_the_page_of_their_clause(name: str) -> None:
    assert name in pto.__all__
    assert ptokit_("explain", name).stdout == ptokit_("explain", "KN-13").stdout != ""
