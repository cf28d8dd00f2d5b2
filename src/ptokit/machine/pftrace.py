"""A trace in Perfetto's binary form, made from the events of the JSON form. Needs the package `perfetto`."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

GRAIN = 1000
"""Parts of a unit of time that a trace can tell apart: nanoseconds of a microsecond."""
BUILDER = "perfetto.trace_builder.proto_builder"
MISSING = "a .pftrace file needs the package perfetto: pip install 'ptokit[trace]'; a .json file opens as well"
SEQUENCE = 1
Event = Mapping[str, Any]


def grains(time: float) -> int:
    """A time of an event in the smallest parts."""
    return round(time * GRAIN)


def missing() -> str:
    """What a binary trace lacks here; empty if nothing."""
    return "" if find_spec("perfetto") and find_spec(BUILDER) else MISSING


def packed(events: Sequence[Event]) -> bytes:
    """The trace of some events."""
    if problem := missing():
        raise ImportError(problem, name="perfetto")
    writer = PacketWriter()
    for event in events:
        if event["ph"] == "M":
            writer.name_track(event)
    flows = _flows_of_slices(events)
    for number, event in sorted(enumerate(events), key=lambda each: each[1].get("ts", 0.0)):
        if event["ph"] == "X":
            writer.add_slice(event, flows[number])
        elif event["ph"] == "C":
            writer.add_counter(event)
    return writer.builder.serialize()


def _flows_of_slices(events: Sequence[Event]) -> Mapping[int, list[tuple[str, int]]]:
    """The flows that start (`s`) and end (`f`) in each slice, by the slice's number: a flow belongs to the last slice
    of its thread that has started."""
    slices: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for number, event in enumerate(events):
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((grains(event["ts"]), number))
    for each in slices.values():
        each.sort()
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for event in events:
        if event["ph"] in ("s", "f"):
            own = slices[event["pid"], event["tid"]]
            at = bisect_right(own, (grains(event["ts"]), len(events))) - 1
            found[own[at][1]].append((event["ph"], event["id"]))
    return found


class PacketWriter:
    """Adds packets to a trace. Processes, threads and the counters of processes are tracks."""

    def __init__(self) -> None:
        self.builder: Any = import_module(BUILDER).TraceProtoBuilder()
        self.tracks: dict[tuple[object, ...], int] = {}

    def _packet(self) -> Any:
        packet = self.builder.add_packet()
        packet.trusted_packet_sequence_id = SEQUENCE
        return packet

    def _track(self, *key: object) -> Any:
        """The description of a new track."""
        self.tracks[key] = len(self.tracks) + 1
        described = self._packet().track_descriptor
        described.uuid = self.tracks[key]
        return described

    def name_track(self, event: Event) -> None:
        """A process, or one of its threads."""
        pid, tid, args = event["pid"], event["tid"], event["args"]
        if event["name"] == "process_name":
            described = self._track(pid)
            described.process.pid, described.process.process_name = pid, args["name"]
        else:
            described = self._track(pid, tid)
            described.thread.pid, described.thread.tid, described.thread.thread_name = pid, tid, args["name"]

    def add_slice(self, event: Event, flows: Sequence[tuple[str, int]]) -> None:
        """The start of a slice with its arguments and flows, and its end."""
        start = grains(event["ts"])
        began = self._at(start, "TYPE_SLICE_BEGIN", (event["pid"], event["tid"]))
        began.name = event["name"]
        began.categories.append(event["cat"])
        for name, value in event["args"].items():
            _annotate(began, name, value)
        for kind, flow in flows:
            (began.flow_ids if kind == "s" else began.terminating_flow_ids).append(flow + 1)
        self._at(start + grains(event["dur"]), "TYPE_SLICE_END", (event["pid"], event["tid"]))

    def add_counter(self, event: Event) -> None:
        """A value of a counter."""
        key = (event["pid"], "counter", event["name"])
        if key not in self.tracks:
            described = self._track(*key)
            described.name, described.parent_uuid = event["name"], self.tracks[event["pid"],]
            described.counter.unit_name = "bytes"
        (value,) = event["args"].values()
        self._at(grains(event["ts"]), "TYPE_COUNTER", key).double_counter_value = value

    def _at(self, time: int, kind: str, track: tuple[object, ...]) -> Any:
        packet = self._packet()
        packet.timestamp = time
        packet.track_event.type = packet.track_event.DESCRIPTOR.enum_types_by_name["Type"].values_by_name[kind].number
        packet.track_event.track_uuid = self.tracks[track]
        return packet.track_event


def _annotate(event: Any, name: str, value: object) -> None:
    """Add an argument to an event."""
    if value is None:
        return
    note = event.debug_annotations.add()
    note.name = name
    if isinstance(value, bool):
        note.bool_value = value
    elif isinstance(value, int):
        note.int_value = value
    elif isinstance(value, float):
        note.double_value = value
    else:
        note.string_value = str(value)
