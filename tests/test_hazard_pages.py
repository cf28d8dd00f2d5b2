"""docs/hazards: every page is as the programs make it, every program has its hazard, and its repair has none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ptokit import spec
from tests.hazard_pages import CLAUSES, FOLDER, PROGRAMS, faulty, is_repaired_by_machine, page, pages, printed, repaired

WITHOUT = {"H-33", "H-34", "H-39", "H-41"}
"""Hazards that no program can have."""


def findings(kind: str, text: str) -> list[dict[str, Any]]:
    report = json.loads(printed(kind, text, "--json"))
    (kernel,) = report["kernels"]
    return [finding for target in kernel["targets"].values() for finding in target["findings"]]


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_program_has_the_hazard_and_its_repair_is_clean(kind: str) -> None:
    found = [finding for finding in findings(kind, faulty(kind)) if kind in (finding["kind"], finding["rule"])]
    levels = {finding["level"] for finding in found}
    stated = CLAUSES[kind][-1] if kind in CLAUSES else spec.hazards()[kind].level
    assert levels and levels <= {*stated.replace(",", "").replace(";", "").split()}
    assert all(finding["where"]["file"] == PROGRAMS[kind].name for finding in found)
    left = findings(kind, repaired(kind))
    assert [finding for finding in left if finding["level"] != "note" or finding["kind"] == kind] == []


def test_what_lacks_order_is_repaired_by_the_machine() -> None:
    """Its diff stands on the page, and adds flags and barriers only."""
    kinds = ["H-24", "H-25", "H-26", "H-35", "H-49", "KN-13", "KN-16"]
    assert [kind for kind in PROGRAMS if is_repaired_by_machine(kind)] == kinds
    added = ("pto.set_flag", "pto.wait_flag", "pto.sync_", 'pto.barrier("V")')
    for kind in kinds:
        diff = printed(kind, faulty(kind), "--fix", "--diff")
        changed = [line for line in diff.splitlines()[2:] if line[0] in "+-"]
        assert diff.rstrip() in page(kind) and changed
        assert all(line[1:].strip().startswith(added) for line in changed)


def test_every_hazard_has_a_page_and_every_page_a_hazard() -> None:
    kinds = {*spec.hazards(), *CLAUSES} - WITHOUT
    assert {path.stem for path in FOLDER.glob("*-*.md")} == {*PROGRAMS} == kinds


def test_the_table_of_hazards_links_to_the_pages() -> None:
    table = (FOLDER / "README.md").read_text(encoding="utf-8").replace("](", "](hazards/")
    for kind in [*spec.hazards(), *CLAUSES]:
        assert (f"| [{kind}](hazards/{kind}.md) |" if kind in PROGRAMS else f"| {kind} |") in table, kind


def test_all_pages_are_written() -> None:
    assert {path.name for path in FOLDER.glob("*-*.md")} == {path.name for path in pages()}
