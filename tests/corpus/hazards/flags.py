"""Flags that are set again, flags to two pipes, and instructions of the scalar pipe that hand over by themselves."""

from __future__ import annotations

from itertools import product
from typing import Any

import ptokit as pto
from tests.corpus.hazards.case import Case, Hazard, counted, flag, spread, upto, zeros

NPU = ("a2a3", "a5")


# --- One event, set again and again


@pto.kernel(mode="manual")
def copies(x, out, events: pto.const = 1, answer: pto.const = False, count: pto.const = 4, rows: pto.const = 8):
    """Every iteration has a tile of its own, so that only the flag is used again."""
    for i in pto.range(count):
        part = pto.Tile("vec", x.dtype, rows, 16, addr=i * 1024)
        pto.tload(part, x[i * rows : i * rows + rows])
        pto.set_flag("MTE2", "MTE3", i % events)  # the set
        pto.wait_flag("MTE2", "MTE3", i % events)
        pto.tstore(out[i * rows : i * rows + rows], part)
        if answer:
            flag("MTE3", "MTE2")


@pto.kernel(mode="manual")
def sums(x, out, second: pto.const = 0, barrier: pto.const = False):
    """The same event for the loads of two tiles, without a loop."""
    a = pto.Tile("vec", x.dtype, 8, 16, addr=0)
    b = pto.Tile("vec", x.dtype, 8, 16, addr=0x1000)
    pto.tload(a, x[0:8])
    flag("MTE2", "V")
    pto.tadd(a, a, a)
    if barrier:
        pto.barrier("ALL")
    pto.tload(b, x[8:16])
    pto.set_flag("MTE2", "V", second)  # the set
    pto.wait_flag("MTE2", "V", second)
    pto.tadd(b, b, a)
    flag("V", "MTE3")
    pto.tstore(out, b)


@pto.kernel(mode="manual")
def doubled(x, out, fault: pto.const = ""):
    """Two sets before a wait, in different forms."""
    part = pto.Tile("vec", x.dtype, 8, 16, addr=0)
    other = pto.Tile("vec", x.dtype, 8, 16, addr=0x1000)
    pto.tload(part, x)
    if fault == "at once":
        pto.set_flag("MTE2", "MTE3", 0)
    if fault == "two loads":
        pto.set_flag("MTE2", "MTE3", 0)
        pto.tload(other, x)
    pto.set_flag("MTE2", "MTE3", 0)  # the set
    if fault == "primed":
        pto.set_flag("MTE3", "MTE2", 1)
    pto.wait_flag("MTE2", "MTE3", 0)
    pto.tstore(out, part)
    pto.set_flag("MTE3", "MTE2", 1)  # the answer
    pto.wait_flag("MTE3", "MTE2", 1)


def set_again() -> list[Case]:
    """A flag is a bit. Sets that are paired with waits are a note, two sets in a row are an error."""
    found: list[Case] = []
    for target, (dtype, count, rows) in product(NPU, (("float32", 4, 8), ("int32", 2, 16), ("float16", 3, 8))):
        data = {"x": counted(64, 16, dtype=dtype), "out": zeros(64, 16, dtype=dtype), "count": count, "rows": rows}
        loop = Hazard("", "# the set", "flag", copies, data, level="note")
        found += [
            *loop.pair(f"a loop of {dtype}", target, {}, {"answer": True}),
            *loop.pair(f"events in a loop of {dtype}", target, {"events": count - 1}, {"events": count}),
        ]
    for target in NPU:
        data = {"x": counted(16, 16), "out": zeros(8, 16)}
        line = Hazard("", "# the set", "flag", sums, data, level="note")
        twice = Hazard("", "# the set", "flag", doubled, {"x": counted(8, 16), "out": zeros(8, 16)})
        found += [
            *line.pair("no loop", target, {}, {"second": 1}),
            line.twin("a barrier between", target, barrier=True),
            twice.bad("twice at once", target, fault="at once"),
            twice.bad("twice, after two loads", target, fault="two loads"),
            twice.bad("twice, one of them too early", target, fault="primed", line="# the answer"),
            twice.twin("an answer", target),
        ]
    return found


@pto.kernel(mode="manual")
def two_destinations(x, out, event: pto.const = 0, first: pto.const = False, stored: pto.const = 0):
    """A load that two pipes wait for."""
    a = pto.Tile("vec", x.dtype, 8, 16, addr=0)
    b = pto.Tile("vec", x.dtype, 8, 16, addr=0x1000)
    pto.tload(a, x)
    pto.set_flag("MTE2", "MTE3", stored)
    if first:
        pto.wait_flag("MTE2", "MTE3", stored)
    pto.set_flag("MTE2", "V", event)  # the second
    pto.wait_flag("MTE2", "V", event)
    pto.tadd(b, a, a)
    if not first:
        pto.wait_flag("MTE2", "MTE3", stored)
    pto.tstore(out, a)


def to_two_pipes() -> list[Case]:
    """One source pipe and event to two pipes at once: a flag belongs to both pipes."""
    found: list[Case] = []
    for target, dtype in product(NPU, ("float32", "int16")):
        data = {"x": counted(8, 16, dtype=dtype), "out": zeros(8, 16, dtype=dtype)}
        both = Hazard("", "# the second", "flag", two_destinations, data, level="note")
        found += [both.twin(f"two pipes, {dtype}", target), both.twin(f"two events, {dtype}", target, event=1)]
        found.append(both.twin(f"one pipe after the other, {dtype}", target, first=True))
    return found


# --- The scalar pipe of A2/A3


@pto.kernel(mode="manual")
def spread_out(
    x, rows, out, fault: pto.const = "", index: pto.const = "row", around: pto.const = False, idx: pto.const = "int32",
):  # fmt: skip
    """`tscatter` with the flags of a vector instruction; on A2/A3 the scalar pipe runs it."""
    i = pto.Tile("vec", idx, 8, 16, addr=0)
    s = pto.Tile("vec", x.dtype, 8, 16, addr=0x1000)
    d = pto.Tile("vec", x.dtype, 8, 16, addr=0x2000)
    pto.tload(i, rows)
    if fault != "before":
        flag("MTE2", "V", 1)
    pto.texpands(d, 0)
    pto.tload(s, x)
    flag("MTE2", "V", 2)
    if around:
        pto.tadd(s, s, s)
    pto.tscatter(d, s, i, index=index)  # scatters
    if around:
        pto.tadd(d, d, d)
    if fault != "after":
        flag("V", "MTE3")
    pto.tstore(out, d)  # stores


@pto.kernel(mode="manual")
def reloaded(x, rows, out, guard: pto.const = True):
    """The index of a scatter is loaded anew after it."""
    i = pto.Tile("vec", "int32", 8, 16, addr=0)
    s = pto.Tile("vec", x.dtype, 8, 16, addr=0x1000)
    d = pto.Tile("vec", x.dtype, 8, 16, addr=0x2000)
    pto.texpands(d, 0)
    for _ in pto.range(2):
        pto.tload(i, rows)
        pto.tload(s, x)
        flag("MTE2", "V")
        pto.tscatter(d, s, i)
        if guard:
            flag("V", "MTE2")
    flag("V", "MTE3")
    pto.tstore(out, d)


@pto.kernel(mode="manual")
def heard(x, rows, out, more, late: pto.const = False, event: pto.const = True):
    """An instruction of the scalar pipe waits for loads, and a store follows that needs one of them."""
    i = pto.Tile("vec", "int32", 8, 16, addr=0)
    s = pto.Tile("vec", x.dtype, 8, 16, addr=0x1000)
    d = pto.Tile("vec", x.dtype, 8, 16, addr=0x2000)
    last = pto.Tile("vec", x.dtype, 8, 16, addr=0x3000)
    loads: list[Any] = [pto.tload(i, rows), pto.tload(s, x), pto.tload(d, out)]
    if not late:
        loads.append(pto.tload(last, x))
    done = pto.tscatter(d, s, i, wait=loads if event else loads[:-1])
    if late:
        pto.tload(last, x)
    pto.tstore(more, last)  # the load before
    pto.tstore(out, d, wait=done)


@pto.kernel(mode="manual")
def gathered(table, tokens, x, out, more, wait: pto.const = True, coalesce: pto.const = "elem"):
    """An element gather of A2/A3 waits for a load that a vector instruction needs after it."""
    ids = pto.Tile("vec", "int32", 8, 16, addr=0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=0x1000)
    s = pto.Tile("vec", x.dtype, 8, 16, addr=0x2000)
    first = pto.tload(ids, tokens)
    done = pto.mgather(got, table, ids, coalesce=coalesce, wait=first)
    second = pto.tload(s, x)
    again = pto.mgather(got, table, ids, coalesce=coalesce, wait=[second, done] if wait else done)
    pto.tadd(s, s, s)  # adds
    flag("V", "MTE3", 2)
    pto.tstore(more, s)
    pto.tstore(out, got, wait=again)


def scatters() -> list[Case]:
    """tscatter: the flags are those of a vector instruction on both targets."""
    found: list[Case] = []
    kinds = (("float32", "int32"), ("int32", "int32"), ("float16", "int16"))
    for target, (dtype, idx) in product(NPU, kinds):
        data = {"x": counted(8, 16, dtype=dtype), "rows": lambda idx=idx: (upto(8, 16)() // 16).astype(idx),
                "out": zeros(8, 16, dtype=dtype), "idx": idx}  # fmt: skip
        flat = {**data, "rows": upto(8, 16, dtype=idx), "index": "flat"}
        scatter = Hazard("", "# stores", "src", spread_out, data)
        found += [
            *scatter.pair(f"scattered {dtype}", target, {"fault": "after"}, {}),
            *scatter.pair(f"scattered {dtype}, flat", target, {"fault": "after"}, {}, **flat),
            scatter.twin(f"between vector instructions, {dtype}", target, around=True),
        ]
    for target in NPU:
        data = {"x": counted(8, 16), "rows": lambda: upto(8, 16)() // 16, "out": zeros(8, 16)}
        again = Hazard("", "pto.tload(i, rows)", "dst", reloaded, data, also=("",), level="error")
        found += again.pair("indices loaded anew", target, {"guard": False}, {"guard": True})
    return found


def events() -> list[Case]:
    """On A2/A3 an event that the scalar pipe hears comes before all that is issued later; on A5 it is heard by V."""
    found: list[Case] = []
    for dtype in ("float32", "int32", "uint32"):
        data = {"x": counted(8, 16, dtype=dtype), "rows": lambda: upto(8, 16)() // 16,
                "out": zeros(8, 16, dtype=dtype), "more": zeros(8, 16, dtype=dtype)}  # fmt: skip
        event = Hazard("", "# the load before", "src", heard, data)
        found += [
            *event.pair(f"heard, {dtype}", "a2a3", {"event": False}, {}),
            event.bad(f"loaded later, {dtype}", "a2a3", late=True),
            event.bad(f"heard by the vector pipe, {dtype}", "a5"),
            event.bad(f"not heard, {dtype}", "a5", event=False),
        ]
    for dtype in ("float32", "int32", "float16", "int16"):
        data = {"table": counted(64, 16, dtype=dtype), "tokens": spread(8, 16, below=1024),
                "x": counted(8, 16, dtype=dtype), "out": zeros(8, 16, dtype=dtype),
                "more": zeros(8, 16, dtype=dtype)}  # fmt: skip
        gather = Hazard("", "# adds", "src0", gathered, data)
        found += [
            gather.twin(f"a gather of {dtype}", "a2a3"),
            gather.twin(f"a gather of {dtype} that waits by itself", "a2a3", wait=False),
        ]
    return found


CASES = [*set_again(), *to_two_pipes(), *scatters(), *events()]
