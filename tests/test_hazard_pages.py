"""docs/hazards: every page is as the programs make it, every program has its hazard, and its repair has none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ptokit import spec
from tests.hazard_pages import FOLDER, PROGRAMS, ROOT, faulty, page, pages, printed, repaired

WITHOUT = {"H-33", "H-34", "H-39", "H-41"}
"""Hazards that no program can have."""


def findings(kind: str, text: str) -> list[dict[str, Any]]:
    report = json.loads(printed(kind, text, "--json"))
    (kernel,) = report["kernels"]
    return [finding for target in kernel["targets"].values() for finding in target["findings"]]


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_page_is_as_its_program_makes_it(kind: str) -> None:
    assert (FOLDER / f"{kind}.md").read_text(encoding="utf-8") == page(kind)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_program_has_the_hazard_and_its_repair_is_clean(kind: str) -> None:
    found = [finding for finding in findings(kind, faulty(kind)) if finding["kind"] == kind]
    levels = {finding["level"] for finding in found}
    assert levels and levels <= {*spec.hazards()[kind].level.replace(",", "").replace(";", "").split()}
    assert all(finding["where"]["file"] == PROGRAMS[kind].name for finding in found)
    left = findings(kind, repaired(kind))
    assert [finding for finding in left if finding["level"] != "note" or finding["kind"] == kind] == []


def test_every_hazard_has_a_page_and_every_page_a_hazard() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == {*PROGRAMS} == {*spec.hazards()} - WITHOUT


def test_the_table_of_hazards_links_to_the_pages() -> None:
    table = (ROOT / "docs/machine.md").read_text(encoding="utf-8")
    for kind in spec.hazards():
        assert (f"| [{kind}](hazards/{kind}.md) |" if kind in PROGRAMS else f"| {kind} |") in table, kind


def test_all_pages_are_written() -> None:
    assert {path.name for path in FOLDER.glob("*.md")} == {path.name for path in pages()}
