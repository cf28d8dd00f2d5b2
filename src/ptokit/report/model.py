"""A report as plain data, which the page embeds: one entry for each target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptokit.finding import Finding, by_level, is_modelled
from ptokit.machine.report import MachineReport
from ptokit.program.ir import Program
from ptokit.report.access import access_maps
from ptokit.report.compare import RefusedTarget, Result, comparison
from ptokit.report.sources import place, shown_diff, sources, terms
from ptokit.report.spans import line_costs, memory_data, places, timeline_data
from ptokit.target import profile

MOST_TILES = 64
"""Tiles whose layouts are shown."""
MOST_FINDINGS = 500


def report_data(reports: Sequence[Result], *, title: str = "") -> dict[str, Any]:
    """Reports of one launch on one or more targets; the page shows the first one first."""
    ran = [each for each in reports if isinstance(each, MachineReport)]
    named = [where for each in ran for where in places(each)]
    named += [finding.where for each in reports for finding in each.findings]
    first = ran[0] if ran else None
    if len({each.target for each in reports}) < max(1, len(reports)):
        raise ValueError("a page shows one report of each target, and at least one")
    return {
        "title": title or (first.kernel if first else "program"),
        "grid": first.grid if first else None,
        "sources": sources(named),
        "targets": {each.target: _target(each) for each in reports},
        "shown": first.target if first else reports[0].target,
        "comparison": comparison(reports),
    }


def _target(report: Result) -> dict[str, Any]:
    findings = {
        "findings": [_finding(k, finding) for k, finding in enumerate(report.findings[:MOST_FINDINGS])],
        "levels": list(by_level(report.findings)),
        "modelled": is_modelled(report.findings),
    }
    if isinstance(report, RefusedTarget):
        return {**findings, "accepted": False, "refused": True, "ok": False}
    return {
        **findings,
        "accepted": report.ok and report.modelled,
        "refused": False,
        "ok": report.ok,
        "ran": report.ran,
        "written": report.written,
        "extent": report.extent,
        "repairs": _repairs(report),
        "lines": line_costs(report),
        "memory": memory_data(report),
        "timeline": timeline_data(report),
        "traffic": [{**each.as_dict(), "where": place(each.where)} for each in report.traffic],
        "access": access_maps(report),
        "tiles": _tiles(report.program, report.target) if report.program else [],
    }


def _finding(number: int, finding: Finding) -> dict[str, Any]:
    return {
        "id": f"f{number}",
        **{name: getattr(finding, name) for name in ("level", "rule", "kind", "message", "fix", "operand")},
        "where": place(finding.where),
        "calls": [place(call) for call in finding.path[1:]],
        "seen": finding.seen.as_dict() if finding.seen else None,
        "text": str(finding),
    }


def _repairs(report: MachineReport) -> list[dict[str, Any]]:
    return [
        {"kind": each.kind, "text": str(each), "diff": shown_diff(each.diff), "cycles": each.cycles}
        for each in report.repairs
    ]


def _tiles(program: Program, target: str) -> list[dict[str, Any]]:
    """The tiles with their layouts: an offset is the sum of `coordinate // div % mod * stride` over the terms."""
    memories = profile(target).memories
    return [
        {
            "name": name,
            "memory": memories[tile.spec.loc].name if tile.spec.loc in memories else tile.spec.loc.name,
            "dtype": str(tile.spec.dtype),
            "bytes": tile.spec.dtype.size,
            "rows": tile.spec.rows,
            "cols": tile.spec.cols,
            "text": str(tile.spec),
            "addresses": [address for address in tile.addresses if isinstance(address, int)],
            "valid": [value if isinstance(value, int) else None for value in tile.spec.valid],
            "form": tile.spec.form.upper(),
            "box": list(tile.spec.box) if tile.spec.box != (1, 1) else None,
            "layout": {**terms(tile.spec.layout), "start": tile.spec.layout.start},
        }
        for name, tile in list(program.tiles.items())[:MOST_TILES]
    ]
