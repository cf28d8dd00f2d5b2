"""Traces for Perfetto: what its own processor makes of them, and the rules of its JSON importer."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import ptokit as pto
from ptokit.machine.report import MachineReport
from tests.report.launches import TABLE, clean, faulty, rows
from tests.tracing.processing import asked, need_processor


@cache
def waves() -> MachineReport:
    """Twelve blocks on two cores: most start when others end."""
    options = pto.MachineOptions(cores=2)
    tokens, out = np.arange(64, dtype="int32"), np.zeros((64, 32), "float32")
    return rows[12](TABLE, tokens, out, target="a2a3", engine="machine", options=options)


REPORTS = {"one block": clean, "a race": faulty, "waves": waves}


def events(report: MachineReport, *phases: str) -> list[dict]:
    found = json.loads(json.dumps(report.timeline.to_perfetto()))["traceEvents"]
    return [event for event in found if event["ph"] in phases or not phases]


def nanoseconds(microseconds: float) -> int:
    whole = round(microseconds * 1000)
    assert microseconds * 1000 == pytest.approx(whole, abs=1e-6)
    return whole


# --- the trace processor itself


SLICES = """
select slice.name as name, ts, dur, depth, extract_arg(arg_set_id, 'args.cycles') as cycles,
  extract_arg(arg_set_id, 'args.start') as start, extract_arg(arg_set_id, 'args.clauses') as clauses
from slice order by slice.id
"""
TRACKS = """
select distinct process.name as block, thread.name as pipe
from slice join thread_track on track_id = thread_track.id join thread using (utid) join process using (upid)
"""
FLOWS = """
select a.name as src, b.name as dst, a.ts as sent, b.ts as received
from flow join slice a on a.id = slice_out join slice b on b.id = slice_in
"""
COUNTERS = "select value from counter"
LAUNCH = "select extract_arg(arg_set_id, 'args.cycles') as cycles, dur from slice where name = 'launch'"
PROBLEMS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
QUERIES = (SLICES, TRACKS, FLOWS, COUNTERS, LAUNCH, PROBLEMS)


def written(report: MachineReport) -> bytes:
    return json.dumps(report.timeline.to_perfetto()).encode("utf-8")


def test_perfetto_reads_all_of_a_trace():
    need_processor()
    launches = [make() for make in REPORTS.values()]
    answers = asked([(written(each), QUERIES) for each in launches])
    for report, (slices, tracks, flows, counters, launch, problems) in zip(launches, answers, strict=True):
        line = report.timeline
        assert problems == []
        assert [(each["cycles"], each["dur"]) for each in launch] == [
            (line.cycles, pytest.approx(line.microseconds * 1000, abs=1))
        ]
        found = Counter((each["name"], each["cycles"], each["start"]) for each in slices if each["name"] != "launch")
        assert found == Counter(
            (work.what, work.end - work.start, line.starts.get(work.block, 0.0) + work.start) for work in line.works
        )
        assert {each["depth"] for each in slices} == {0}
        assert all(each["clauses"] for each in slices if each["name"] != "launch")
        pipes = {(f"block {work.block}", work.pipe) for work in line.works}
        assert {(each["block"], each["pipe"]) for each in tracks} == {("launch", "launch"), *pipes}
        assert len(flows) == len(events(report, "s")) > 0
        assert all(each["sent"] < each["received"] for each in flows)
        assert sum(each["value"] for each in counters) == sum(e["args"]["bytes"] for e in events(report, "C"))


# --- the rules of the JSON importer


@pytest.mark.parametrize("name", REPORTS)
def test_every_event_is_on_a_named_track(name):
    found = events(REPORTS[name]())
    processes = [event["pid"] for event in found if event["name"] == "process_name"]
    threads = [(event["pid"], event["tid"]) for event in found if event["name"] == "thread_name"]
    assert len(processes) == len({*processes}) and len(threads) == len({tid for _, tid in threads})
    assert {tid for pid, tid in threads if tid != pid}.isdisjoint(processes)
    for event in found:
        assert event["pid"] in processes
        if event["ph"] in "Xsf":
            assert (event["pid"], event["tid"]) in threads


@pytest.mark.parametrize("name", REPORTS)
def test_slices_of_a_track_do_not_overlap_in_whole_nanoseconds(name):
    report = REPORTS[name]()
    tracks = defaultdict(list)
    for event in events(report, "X"):
        start = nanoseconds(event["ts"])
        tracks[event["tid"]].append((start, start + nanoseconds(event["dur"])))
    assert sum(map(len, tracks.values())) == len(report.timeline.works) + 1
    for spans in tracks.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(spans)))


@pytest.mark.parametrize("name", REPORTS)
def test_flows_lead_from_inside_a_slice_to_the_start_of_a_later_one(name):
    found = events(REPORTS[name](), "X", "s", "f")
    slices = defaultdict(list)
    for event in found:
        if event["ph"] == "X":
            start = nanoseconds(event["ts"])
            slices[event["tid"]].append((start, start + nanoseconds(event["dur"])))
    flows = defaultdict(dict)
    for event in found:
        if event["ph"] in "sf":
            flows[event["id"]][event["ph"]] = event
    assert flows
    for both in flows.values():
        sent, received = (nanoseconds(both[phase]["ts"]) for phase in "sf")
        assert any(start <= sent < end for start, end in slices[both["s"]["tid"]])
        assert any(start == received for start, _ in slices[both["f"]["tid"]])
        assert sent < received and both["f"]["bp"] == "e"


def test_counters_are_numbers_that_end_at_zero():
    last = {}
    for event in events(waves(), "C"):
        (value,) = event["args"].values()
        assert isinstance(value, int) and value >= 0
        last[event["pid"]] = value
    assert len(last) == 12 and {*last.values()} == {0}


def test_numbers_are_those_of_the_report():
    line = waves().timeline
    (launch,) = [event for event in events(waves(), "X") if event["name"] == "launch"]
    assert launch["args"] == {"cycles": line.cycles, "blocks": 12, "cores": 2, "waves": 6}
    works = [event["args"] for event in events(waves(), "X") if event["name"] != "launch"]
    assert max(each["start"] + each["cycles"] for each in works) == pytest.approx(line.cycles)
    busy = defaultdict(float)
    for event in events(waves(), "X")[1:]:
        busy[event["cat"]] += event["args"]["cycles"]
    for pipe in ("MTE2", "MTE3"):  # the scalar pipe is busy with issuing, too
        assert busy[pipe] / line.total == pytest.approx(line.busy[f"AIV.{pipe}"])
    assert sum(each["critical"] for each in works) == len(line.critical)


def test_a_clock_that_is_not_known_gives_cycles():
    from dataclasses import replace

    line = replace(clean().timeline, clock=0.0)
    (launch,) = [event for event in line.to_perfetto()["traceEvents"] if event["name"] == "launch" and "dur" in event]
    assert launch["dur"] == pytest.approx(line.cycles, abs=1e-3)


# --- the binary form, read by the package's own classes
