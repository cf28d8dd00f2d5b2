"""Two cores: data that nothing hands over (KN-16), flags between the cores (KN-13), and two scalar caches (H-47)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ptokit as pto
from tests.corpus.hazards.case import Case, Hazard, counted, flag, numbers, upto, zeros

NZ = {"blayout": "col_major", "slayout": "row_major"}
NPU = ("a2a3", "a5")
IDS = (0, 1, 3, 5, 10)
"""Of flags between the cores."""
"""Of data that nothing hands over."""
HALF, WHOLE = counted(16, 16, dtype="float16"), zeros(16, 16)
SPACE = zeros(16, 16, dtype="float16")


def sync(src: str, dst: str, event: Any = 0) -> None:
    """A pipe of one core waits for a pipe of the other."""
    pto.sync_set(src, event)
    pto.sync_wait(dst, event)


class Cube:
    """Tiles of the cube core, and a product of two matrices."""

    def __init__(self) -> None:
        self.one = pto.Tile("mat", "float16", 16, 16, addr=0, **NZ)
        self.other = pto.Tile("mat", "float16", 16, 16, addr=0x1000, **NZ)
        self.left = pto.Tile("left", "float16", 16, 16, addr=0)
        self.right = pto.Tile("right", "float16", 16, 16, addr=0)
        self.product = pto.Tile("acc", "float32", 16, 16, addr=0)

    def multiply(self) -> None:
        """The product of what was loaded; FIX may read it afterwards."""
        flag("MTE2", "MTE1")
        pto.tmov(self.left, self.one)
        pto.tmov(self.right, self.other)
        flag("MTE1", "M")
        pto.tmatmul(self.product, self.left, self.right)
        flag("M", "FIX")


# --- Data that nothing hands over ----------------------------------------------------------------------------


@pto.kernel(mode="manual")
def to_cube(x, work, w, out, way: pto.const = "sync", event: pto.const = 0):
    """The vector core stores, the cube core loads it."""
    a = pto.Tile("vec", "float16", 16, 16, addr=0)
    cube = Cube()
    pto.tload(a, x)
    flag("MTE2", "V")
    pto.tadds(a, a, 1.0)
    flag("V", "MTE3")
    if way == "too early":
        pto.sync_set("MTE3", event)
    pto.tstore(work, a)
    if way == "sync":
        sync("MTE3", "AIC.MTE2", event)
    elif way == "by way of S":
        flag("MTE3", "S")
        sync("AIV.S", "AIC.S", event)
    elif way == "by way of V":
        flag("MTE3", "V")
        sync("V", "AIC.MTE2", event)
    elif way == "barrier and sync":
        pto.barrier("ALL")
        sync("V", "AIC.S", event)
    elif way == "flag of the vector core":
        flag("MTE3", "MTE2", 1)
    elif way == "flag and sync of another pipe":
        flag("MTE3", "MTE2", 1)
        sync("V", "AIC.MTE2", event)
    elif way == "barrier":
        pto.barrier("ALL")
    elif way == "the other way":
        sync("FIX", "MTE3", event)
    elif way == "too early":
        pto.sync_wait("AIC.MTE2", event)
    elif way == "too late":
        pto.sync_set("MTE3", event)
    pto.tload(cube.one, work)
    if way == "too late":
        pto.sync_wait("AIC.MTE2", event)
    pto.tload(cube.other, w)
    cube.multiply()
    pto.tstore(out, cube.product)


TO_CUBE = Hazard(
    "", "pto.tload(cube.one, work)", "src", to_cube,
    {"x": HALF, "work": SPACE, "w": HALF, "out": WHOLE},
)  # fmt: skip
FAULTS = ("none", "flag of the vector core", "barrier", "the other way", "too early", "too late")


@pto.kernel(mode="manual")
def to_vector(x, w, work, out, way: pto.const = "sync", event: pto.const = 0):
    """The cube core stores its product, the vector core loads it."""
    cube = Cube()
    a = pto.Tile("vec", "float32", 16, 16, addr=0)
    pto.tload(cube.one, x)
    pto.tload(cube.other, w)
    cube.multiply()
    pto.tstore(work, cube.product)
    if way == "sync":
        sync("FIX", "AIV.MTE2", event)
    elif way == "by way of S":
        flag("FIX", "S")
        sync("AIC.S", "AIV.S", event)
    elif way == "FIX to V":
        flag("FIX", "V", 2)
        flag("V", "MTE2", 2)
    elif way == "barrier":
        pto.barrier("ALL")
    elif way == "flag of the cube core":
        flag("FIX", "MTE2", 2)
    elif way == "the wrong pipe":
        sync("MTE1", "AIV.MTE2", event)
    pto.tload(a, work)
    flag("MTE2", "V")
    pto.tadds(a, a, 1.0)
    flag("V", "MTE3")
    pto.tstore(out, a)


TO_VECTOR = Hazard("", "pto.tload(a, work)", "src", to_vector, {"x": HALF, "w": HALF, "work": WHOLE, "out": WHOLE})


@pto.kernel(mode="manual")
def into_ub(x, w, out, way: pto.const = "sync", event: pto.const = 0, first: pto.const = "cube"):
    """A5: the product goes to UB, where the vector core uses it."""
    cube = Cube()
    a = pto.Tile("vec", "float32", 16, 16, addr=0x2000)

    def vector() -> None:
        if way in ("sync", "no set"):
            pto.sync_wait("V", event)
        elif way == "FIX to V":
            pto.wait_flag("FIX", "V", event)
        pto.tadds(a, a, 1.0)
        flag("V", "MTE3", 3)
        pto.tstore(out, a)

    if first == "vector":
        vector()
    pto.tload(cube.one, x)
    pto.tload(cube.other, w)
    cube.multiply()
    pto.tmov(a, cube.product)
    if way == "sync":
        pto.sync_set("FIX", event)
    elif way == "FIX to V":
        pto.set_flag("FIX", "V", event)
    elif way == "barrier":
        pto.barrier("ALL")
    elif way == "flag of the vector core":
        flag("MTE2", "V", 4)
    if first == "cube":
        vector()


INTO_UB = Hazard("", "pto.tadds(a, a, 1.0)", "src", into_ub, {"x": HALF, "w": HALF, "out": WHOLE})


# --- A ring of buffers ---------------------------------------------------------------------------------------


@pto.kernel(mode="manual")
def ring(
    x, w, out, trips: pto.const = 4, slots: pto.const = 2, prime: pto.const = 2, free: pto.const = "sync",
    ready: pto.const = 1, drain: pto.const = 2,
):  # fmt: skip
    """A5: in each iteration the cube core fills a buffer, and the vector core empties it."""
    cube = Cube()
    for _ in range(prime):
        pto.sync_set("MTE3", 1)
    for i in pto.range(trips):
        a = pto.Tile("vec", "float32", 16, 16, addr=(i % slots) * 0x1000)
        pto.tload(cube.one, x[i * 16 : i * 16 + 16])
        pto.tload(cube.other, w)
        cube.multiply()
        if free == "sync":
            pto.sync_wait("FIX", 1)
        pto.tmov(a, cube.product)
        for _ in range(ready):
            pto.sync_set("FIX", 0)
        pto.barrier("ALL")
        pto.sync_wait("V", 0)
        pto.tadds(a, a, 1.0)
        flag("V", "MTE3")
        pto.tstore(out[i * 16 : i * 16 + 16], a)
        if free == "sync":
            pto.sync_set("MTE3", 1)
    for _ in range(drain):
        pto.sync_wait("FIX", 1)


def rounds(trips: int) -> dict[str, Any]:
    """The arrays of so many iterations."""
    return {"x": counted(16 * trips, 16, dtype="float16"), "out": zeros(16 * trips, 16), "trips": trips}


RING = Hazard("", "pto.tmov(a, cube.product)", "dst", ring, {**rounds(4), "w": HALF})


@pto.kernel(mode="manual")
def apart(x, out, trips: pto.const = 20, back: pto.const = 0, event: pto.const = 0):
    """The vector core sets a flag in each iteration, and the cube core waits for it; it answers each `back` of them."""
    a = pto.Tile("vec", "float16", 16, 16, addr=0)
    b = pto.Tile("mat", "float16", 16, 16, addr=0, **NZ)
    pto.tload(a, x)
    flag("MTE2", "MTE3")
    for i in pto.range(trips):
        pto.tstore(out[i * 16 : i * 16 + 16], a)
        pto.sync_set("MTE3", event)
        pto.sync_wait("AIC.MTE2", event)
        pto.tload(b, out[i * 16 : i * 16 + 16])
        if back:
            with pto.when(i % back == back - 1):
                sync("AIC.MTE2", "MTE3", event)


def stores(trips: int) -> dict[str, Any]:
    """The arrays of so many iterations."""
    return {"x": HALF, "out": zeros(16 * trips, 16, dtype="float16"), "trips": trips}


AHEAD = Hazard("", 'pto.sync_set("MTE3", event)', "flag", apart, stores(20), "hazard")


# --- Wrong flags ---------------------------------------------------------------------------------------------


@pto.kernel(mode="manual")
def both_ways(x, y, work, back, out, order: pto.const = "right", event: pto.const = 0):
    """Each core stores, and loads what the other one has stored. Right: each sets before it waits."""
    a = pto.Tile("vec", "float16", 16, 16, addr=0)
    cube = Cube()
    v = pto.Tile("vec", "float32", 16, 16, addr=0x2000)
    pto.tload(a, x)
    flag("MTE2", "MTE3")
    if order == "circular":
        pto.sync_wait("AIV.MTE2", event)
        flag("MTE2", "MTE3", 1)
    pto.tstore(work, a)
    pto.sync_set("MTE3", event)
    if order == "circular":
        pto.sync_wait("AIC.MTE2", event)
    pto.tload(cube.other, y)
    if order == "right":
        pto.sync_wait("AIC.MTE2", event)
    pto.tload(cube.one, work)
    cube.multiply()
    pto.tstore(back, cube.product)
    pto.sync_set("FIX", event)
    if order == "right":
        pto.sync_wait("AIV.MTE2", event)
    pto.tload(v, back)
    flag("MTE2", "MTE3", 2)
    pto.tstore(out, v)


CIRCULAR = Hazard(
    "", 'pto.sync_wait("AIV.MTE2", event)', "flag", both_ways,
    {"x": HALF, "y": HALF, "work": SPACE, "back": WHOLE, "out": WHOLE},
)  # fmt: skip


@pto.kernel(mode="manual")
def flags(x, work, out, act: pto.const = "right", event: pto.const = 0):
    """The vector core stores, the cube core loads it, with one thing wrong about the flags."""
    a = pto.Tile("vec", "float16", 16, 16, addr=0)
    b = pto.Tile("mat", "float16", 16, 16, addr=0, **NZ)
    pto.tload(a, x)
    flag("MTE2", "MTE3")
    flag("MTE2", "V")
    pto.tstore(work, a)
    if act != "never set":
        pto.sync_set("MTE3", event if act != "another id" else event + 1)
    if act == "set twice":
        pto.sync_set("MTE3", event)  # once more
    elif act == "set by two pipes":
        pto.tadds(a, a, 0.0)
        pto.sync_set("V", event)  # once more
    elif act == "set by two pipes in order":
        flag("MTE3", "V")
        pto.sync_set("V", event)
    elif act == "taken by two pipes":
        pto.sync_set("MTE3", event)
    pto.sync_wait("AIC.MTE2", event)  # for the store
    if act in ("set by two pipes", "set by two pipes in order"):
        pto.sync_wait("AIC.MTE2", event)
    elif act == "taken by two pipes":
        pto.sync_wait("MTE1", event)  # as well
    pto.tload(b, work)
    flag("MTE2", "MTE1")


FLAGS = Hazard(
    "", 'pto.sync_wait("AIC.MTE2", event)  # for the store', "flag", flags,
    {"x": HALF, "work": SPACE, "out": WHOLE},
)  # fmt: skip
AGAIN = 'pto.sync_set("MTE3", event)  # once more'
BY_TWO = 'pto.sync_set("V", event)  # once more'
AS_WELL = 'pto.sync_wait("MTE1", event)  # as well'


@pto.kernel(mode="manual")
def simt_twice(table, ids, scratch, event: pto.const = 0):
    """A5: two gathers through one scratch, which the cube core hands back."""
    first = pto.Tile("mat", "float16", 16, 16, addr=0, **NZ)
    second = pto.Tile("mat", "float16", 16, 16, addr=0x1000, **NZ)
    pto.mgather(first, table, ids, coalesce="elem", oob="zero", scratch=scratch, executor="simt")
    pto.sync_set("AIC.MTE2", event)
    pto.sync_wait("V", event)
    pto.mgather(second, table, ids, coalesce="elem", oob="zero", scratch=scratch, executor="simt")


SIMT = Hazard(
    "", 'pto.sync_set("AIC.MTE2", event)', "flag", simt_twice,
    {"table": counted(20, 16, dtype="float16"), "ids": upto(16, 16), "scratch": zeros(256, dtype="float16")},
    also=("",),
)  # fmt: skip


# --- Two caches ----------------------------------------------------------------------------------------------


@pto.kernel(mode="manual")
def lengths(x, w, counts, ids, values, out, reader: pto.const = "cube"):
    """Threads or the scalar unit of the vector core store numbers; a core reads one of them as a scalar."""
    where = pto.Tile("vec", "int32", 1, 8, addr=0)
    what = pto.Tile("vec", "int32", 1, 8, addr=64)
    a = pto.Tile("vec", "float16", 16, 16, addr=0x1000)
    b = pto.Tile("mat", "float16", 16, 16, addr=0, **NZ)
    pto.tload(where, ids)
    pto.tload(what, values)
    flag("MTE2", "V")
    pto.mscatter(counts, what, where, coalesce="elem")
    flag("V", "S")
    sync("AIV.S", "AIC.S", 1)
    k = pto.load_scalar(counts, 0)
    if reader in ("cube", "both"):
        pto.tload(b, w[k * 16 : k * 16 + 16])
    else:
        pto.tload(b, w[0:16])
    if reader in ("vector", "both"):
        pto.tload(a, x[k * 16 : k * 16 + 16])
    else:
        pto.tload(a, x[0:16])
    flag("MTE2", "MTE3")
    pto.tstore(out, a)


CACHES = Hazard(
    "H-47", "k = pto.load_scalar(counts, 0)", "source", lengths,
    {
        "x": counted(32, 16, dtype="float16"), "w": counted(32, 16, dtype="float16"), "out": SPACE,
        "counts": zeros(8, dtype="int32"), "ids": upto(1, 8), "values": numbers(*[1] * 8),
    },
)  # fmt: skip


def _crossings(target: str) -> list[Case]:
    cases = [TO_CUBE.bad(way, target, way=way) for way in FAULTS]
    cases.append(TO_CUBE.bad("flag and sync of another pipe", target, way="flag and sync of another pipe"))
    rights = ("sync", "by way of S", "by way of V", "barrier and sync")
    cases += [TO_CUBE.twin(way, target, way=way) for way in rights]
    cases += [TO_CUBE.twin(f"id {event}", target, event=event) for event in (1, 5, 10)]
    wrong = ("none", "barrier", "flag of the cube core", "the wrong pipe")
    cases += [TO_VECTOR.bad(f"to vector, {way}", target, way=way) for way in wrong]
    cases += [TO_VECTOR.twin(f"to vector, {way}", target, way=way) for way in ("sync", "by way of S", "FIX to V")]
    cases += [CIRCULAR.bad(f"id {event}, circular", target, order="circular", event=event) for event in IDS]
    cases += [CIRCULAR.twin(f"both ways, id {event}", target, event=event) for event in IDS]
    cases += [FLAGS.bad(f"id {event}, set twice", target, act="set twice", event=event, line=AGAIN, level="hazard")
              for event in IDS]  # fmt: skip
    cases += [FLAGS.twin(f"once, id {event}", target, event=event) for event in IDS]
    cases += [
        FLAGS.bad("never set", target, act="never set"),
        FLAGS.bad("another id", target, act="another id", also=("",)),
        FLAGS.bad("set by two pipes", target, act="set by two pipes", line=BY_TWO, also=("",)),
        FLAGS.twin("set by two pipes in order", target, act="set by two pipes in order"),
        FLAGS.bad("a reserved id", target, event=12, level="hazard", also=("",)),
        FLAGS.bad("the last reserved id", target, event=15, level="hazard", also=("",)),
        FLAGS.twin("the last free id", target, event=10),
        AHEAD.bad("far ahead", target),
        AHEAD.bad("17 ahead", target, **stores(17)),
        AHEAD.twin("15 of them", target, **stores(15)),
        AHEAD.twin("with an answer", target, back=4),
        AHEAD.twin("with an answer to each", target, back=1),
        CACHES.bad("the cube core reads", target, reader="cube"),
        CACHES.bad("both cores read", target, reader="both"),
        CACHES.twin("the vector core reads", target, reader="vector"),
        CACHES.twin("the vector core reads 0", target, reader="vector", values=numbers(*[0] * 8)),
    ]
    return cases


_ALL = [
    *(case for target in NPU for case in _crossings(target)),
    FLAGS.bad("taken by two pipes", "a5", act="taken by two pipes", line=AS_WELL),
    FLAGS.twin("taken by the scalar unit, whatever the pipe", "a2a3", act="taken by two pipes"),
    *(INTO_UB.bad(f"into UB, {way}", "a5", way=way) for way in ("none", "barrier", "flag of the vector core")),
    *(INTO_UB.twin(f"into UB, {way}, {first} first, id {event}", "a5", way=way, first=first, event=event)
      for way in ("sync", "FIX to V") for first in ("cube", "vector") for event in (0, 1, 3, 5, 7)),
    *(INTO_UB.bad(f"id {event}, a wait in the text before, and no set", "a5", way="no set", first="vector", event=event,
                  line='pto.sync_wait("V", event)', operand="flag") for event in (*range(9), 10)),
    *RING.pair("no buffer is handed back", "a5", {"free": "none", "prime": 0, "drain": 0}, {}),
    *RING.pair("one buffer too few", "a5", {"slots": 1}, {"slots": 1, "prime": 1, "drain": 1}),
    *(RING.twin(f"{trips} iterations", "a5", **rounds(trips)) for trips in (1, 2, 9, 20)),
    RING.twin("three buffers", "a5", slots=3, prime=3, drain=3),
    RING.bad("nothing set before the loop", "a5", prime=0, drain=0, line='pto.sync_wait("FIX", 1)', operand="flag"),
    RING.bad("not drained", "a5", drain=0, line='pto.sync_set("MTE3", 1)', operand="flag", level="hazard"),
    RING.bad("handed over twice", "a5", ready=2, line='pto.sync_set("FIX", 0)', operand="flag", level="hazard",
             also=("",)),
    *(SIMT.bad(f"id {event} of the gather", "a5", event=event) for event in (2,)),
    *(SIMT.twin(f"id {event} beside the gather", "a5", event=event) for event in (0, 1, 3)),
]  # fmt: skip
CASES = [replace(case, name=f"two cores, {case.name}") for case in _ALL]
