"""A report of the machine: when it is ok, and its form as text, on a terminal and as JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ptokit.finding import Finding, Level, Where
from ptokit.machine.outcomes import Fate, LaneOutcomes, Outcome
from ptokit.machine.report import MOST_LANES, MOST_TILES, MachineReport, MemoryUse, aligned, report_text, traffic_table
from ptokit.machine.timeline import BusySpan, Timeline
from ptokit.machine.ways import Traffic
from ptokit.render.findings import report_lines
from ptokit.spec import hazards

HERE = Where("kernels.py", 12)


def finding(level: Level, message: str, kind: str | None = None) -> Finding:
    return Finding(level, "MG-SYNC-01", message, kind, "idx", fix="wait for it", where=HERE, target="a5")


ERROR, HAZARD, NOTE = finding("error", "wrong", "H-24"), finding("hazard", "odd", "H-48"), finding("note", "dear")
WORKS = (BusySpan("AIV.MTE2", 0.0, 30.0, 0, "tload", HERE, 0), BusySpan("AIV.V", 30.0, 40.0, 1, "mgather", HERE, 0))
TIMELINE = Timeline(
    cycles=40.0, total=70.0, blocks=2, longest=0, busy={"AIV.MTE2": 0.75, "AIV.V": 0.25}, works=WORKS, dropped=0,
    critical=(), waits=(), limits=("load the next indices earlier",), clock=1.85,
)  # fmt: skip
TRAFFIC = (
    Traffic("tload", HERE, None, 4, 2, 0, 128, 100),
    Traffic("mgather", HERE, None, 3000, 0, 0, 384_000, 12_000),
)


def lanes(block: int) -> LaneOutcomes:
    code = np.array([Outcome.IN_BOUNDS, Outcome.CLAMPED], np.uint8)
    fate = np.array([Fate.NONE, Fate.NONE], np.uint8)
    return LaneOutcomes(1, block, "mgather", HERE, code, fate, np.array([3, 12]), np.array([3, 9]), np.array([-1, -1]))


def report(*findings: Finding, **parts: object) -> MachineReport:
    return MachineReport(findings, "machine", 0.25, "a5", 2, **parts)  # type: ignore[arg-type]


WHOLE = report(
    NOTE, HAZARD, ERROR,
    memory={
        "UB": MemoryUse("UB", 131_072, 2_112, (("ids", 0, 64), ("vectors", 64, 2_112))),
        "L1": MemoryUse("L1", None, 10),
    },
    timeline=TIMELINE, traffic=TRAFFIC, lanes=(lanes(0), lanes(1)),
)  # fmt: skip


def on_terminal(result: MachineReport, *, notes: bool = False, width: int = 60, colours: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, soft_wrap=True, highlight=False, force_terminal=colours)
    for line in report_lines(result, notes=notes):
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("findings", "ok", "said"),
    [
        ((), True, "clean"),
        ((NOTE, NOTE), True, "clean, 2 notes"),
        ((HAZARD,), False, "1 hazard"),
        ((NOTE, ERROR, HAZARD, ERROR), False, "2 errors, 1 hazard, 1 note"),
    ],
)
def test_only_errors_and_hazards_are_wrong(findings: Iterable[Finding], ok: bool, said: str) -> None:
    result = report(*findings)
    assert result.ok == ok == (not result.hazards)
    assert report_text(result).splitlines()[0] == f"a5, 2 blocks: {said}"


def test_str_is_the_plain_text() -> None:
    assert str(WHOLE) == report_text(WHOLE)


def test_findings_come_first_the_gravest_first_and_notes_on_request() -> None:
    shown = report_text(WHOLE).splitlines()
    assert shown[1:5] == [*str(ERROR).splitlines(), *str(HAZARD).splitlines()]
    assert shown[5] == "memory" and "dear" not in "\n".join(shown)
    assert report_text(WHOLE, notes=True).splitlines()[5:7] == str(NOTE).splitlines()


def test_every_part_has_its_section() -> None:
    text = report_text(WHOLE)
    titles = [line for line in text.splitlines()[5:] if not line.startswith(" ")]
    assert titles == ["memory", "time", "traffic", "lanes"]
    assert "  UB: 2,112 of 131,072 bytes (2%); ids 0x0..0x40, vectors 0x40..0x840\n" in text
    assert "  L1: 10 bytes\n" in text
    for line in (*str(TIMELINE).splitlines(), *str(lanes(0)).splitlines()):
        assert f"  {line}".rstrip() in text.splitlines()
    assert "40 cycles" in text and "load the next indices earlier" in text and "12     clamped" in text
    assert [
        line.split() for line in text.splitlines() if "kernels.py" not in line and line.startswith("  mgather")
    ] == [["mgather", ":12", "3,000", "0", "384,000", "12,000", "3%"]]


def test_a_report_of_little_says_little() -> None:
    assert report_text(report()) == "a5, 2 blocks: clean"


def test_long_lists_are_cut_and_say_so() -> None:
    tiles = tuple((f"t{k}", 32 * k, 32 * k + 32) for k in range(MOST_TILES + 5))
    many = report(memory={"UB": MemoryUse("UB", 4096, 672, tiles)}, lanes=tuple(map(lanes, range(MOST_LANES + 3))))
    text = report_text(many)
    assert f"t{MOST_TILES - 1} " in text and f"t{MOST_TILES} " not in text and text.count(", 5 more") == 1
    assert text.count("mgather (kernels.py:12)") == MOST_LANES and text.endswith("\n  and 3 more")


def test_columns_that_say_nothing_are_left_out() -> None:
    heads, *rows = traffic_table(TRAFFIC)
    assert heads == ("instruction", "line", "transactions", "bursts", "moved", "used", "efficiency")
    assert rows[0] == ("tload", ":12", "4", "2", "128", "100", "78%")
    assert len({*map(len, aligned((heads, *rows)))}) == 1


def test_a_terminal_shows_the_same_words_whatever_its_width() -> None:
    for notes in (False, True):
        shown = " ".join(on_terminal(WHOLE, notes=notes).split())
        for word in report_text(WHOLE, notes=notes).replace("kernels.py:12: ", "").split():
            assert word.strip("[]:,") in shown
    assert "\x1b[" not in on_terminal(WHOLE)
    assert "\x1b[1;31m" in on_terminal(WHOLE, colours=True) and "\x1b[1;32m" in on_terminal(report(), colours=True)


def test_every_hazard_stands_on_the_page() -> None:
    page = Path(__file__).resolve().parent.parent.parent / "docs/hazards/README.md"
    text = re.sub(r"\[(H-\d+)\]\(\1\.md\)", r"\1", page.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.startswith("| H-")]
    rows = [[cell.strip() for cell in re.split(r" \| ", line.strip("| "))] for line in lines]
    assert [row[:3] for row in rows] == [[each.id, each.level, each.situation] for each in hazards().values()]
    assert all(row[3] for row in rows)


def test_json_says_all_of_it() -> None:
    data = json.loads(WHOLE.to_json())
    assert (data["engine"], data["target"], data["grid"], data["seconds"], data["ok"]) == (
        "machine",
        "a5",
        2,
        0.25,
        False,
    )
    assert [(each["level"], each["kind"], each["where"]) for each in data["findings"]] == [
        ("note", None, "kernels.py:12"), ("hazard", "H-48", "kernels.py:12"), ("error", "H-24", "kernels.py:12"),
    ]  # fmt: skip
    assert data["memory"]["UB"] == {
        "name": "UB", "size": 131_072, "used": 2_112, "tiles": [["ids", 0, 64], ["vectors", 64, 2_112]],
    }  # fmt: skip
    assert data["timeline"]["cycles"] == 40 and [each["pipe"] for each in data["timeline"]["works"]] == [
        "AIV.MTE2",
        "AIV.V",
    ]
    assert [(each["instruction"], each["bytes_used"]) for each in data["traffic"]] == [
        ("tload", 100),
        ("mgather", 12_000),
    ]
    assert [each["cell"] for each in data["lanes"]] == [[3, 9], [3, 9]]
    assert json.loads(report().to_json())["timeline"] is None
