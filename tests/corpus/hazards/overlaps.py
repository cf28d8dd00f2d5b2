"""Tiles at computed addresses that overlap (H-38), tiles that share an address in turn, and workspaces."""

from __future__ import annotations

from itertools import product

import ptokit as pto
from tests.corpus.hazards.case import Case, Given, Hazard, counted, flag, zeros

ALL = ("cpu", "a2a3", "a5")
NPU = ("a2a3", "a5")
DTYPES = ("float32", "float16", "int32")


# --- Addresses computed in loops


@pto.kernel(mode="manual")
def two_loops(x, out, stride: pto.const = 512, rows: pto.const = 8, count: pto.const = 4, way: pto.const = "tiles"):
    """Tiles `stride` bytes apart: all are loaded in one loop and stored in another."""
    if way == "tassign":
        moved = pto.Tile("vec", x.dtype, rows, 16, addr=0)
    for i in pto.range(count):
        if way == "tassign":
            pto.tassign(moved, i * stride)
        first = moved if way == "tassign" else pto.Tile("vec", x.dtype, rows, 16, addr=i * stride)
        pto.tload(first, x[i * rows : i * rows + rows])
    pto.barrier("ALL")
    for i in pto.range(count):
        if way == "tassign":
            pto.tassign(moved, i * stride)
        then = moved if way == "tassign" else pto.Tile("vec", x.dtype, rows, 16, addr=i * stride)
        pto.tstore(out[i * rows : i * rows + rows], then)  # reads


@pto.kernel(mode="manual")
def rounds(x, out, stride: pto.const = 512, count: pto.const = 3):
    """One declaration: the first round loads, the second one stores."""
    for k in pto.range(2):
        for i in pto.range(count):
            a = pto.Tile("vec", x.dtype, 8, 16, addr=i * stride)
            with pto.when(k == 0):
                pto.tload(a, x[i * 8 : i * 8 + 8])
            with pto.otherwise():
                pto.tstore(out[i * 8 : i * 8 + 8], a)  # reads
        pto.barrier("ALL")


@pto.kernel(mode="manual")
def pipeline(x, out, stride: pto.const = 512, count: pto.const = 4, start: pto.const = 0):
    """The tile of the iteration before is stored after that of this one was loaded."""
    a = pto.Tile("vec", x.dtype, 8, 16, addr=start)
    pto.tload(a, x[0:8])
    for i in pto.range(1, count):
        b = pto.Tile("vec", x.dtype, 8, 16, addr=start + i * stride)
        pto.tload(b, x[i * 8 : i * 8 + 8])
        pto.barrier("ALL")
        c = pto.Tile("vec", x.dtype, 8, 16, addr=start + (i - 1) * stride)
        pto.tstore(out[i * 8 - 8 : i * 8], c)  # reads
        pto.barrier("ALL")


@pto.kernel(mode="manual")
def over_fixed(x, out, start: pto.const = 0x600, step: pto.const = 512):
    """A loop of tiles, and a tile at a fixed address that is read after it."""
    keep = pto.Tile("vec", x.dtype, 8, 16, addr=0x400)
    pto.tload(keep, x[0:8])
    for i in pto.range(4):
        a = pto.Tile("vec", x.dtype, 8, 16, addr=start + i * step)
        pto.tload(a, x[i * 8 : i * 8 + 8])
    pto.barrier("ALL")
    pto.tstore(out[0:8], keep)


@pto.kernel(mode="manual")
def two_sizes(x, out, start: pto.const = 0x400):
    """Two loops of tiles with different sizes, both read afterwards."""
    for i in pto.range(2):
        a = pto.Tile("vec", x.dtype, 8, 16, addr=i * 512)
        pto.tload(a, x[i * 8 : i * 8 + 8])
    for j in pto.range(2):
        b = pto.Tile("vec", x.dtype, 4, 16, addr=start + j * 256)
        pto.tload(b, x[16 + j * 4 : 20 + j * 4])
    pto.barrier("ALL")
    for i in pto.range(2):
        c = pto.Tile("vec", x.dtype, 8, 16, addr=i * 512)
        pto.tstore(out[i * 8 : i * 8 + 8], c)  # reads
    for j in pto.range(2):
        d = pto.Tile("vec", x.dtype, 4, 16, addr=start + j * 256)
        pto.tstore(out[16 + j * 4 : 20 + j * 4], d)


@pto.kernel(mode="manual")
def double_buffer(x, out, count: pto.const = 4):
    """Two addresses in turn; what was there is stored before the next load."""
    for i in pto.range(count):
        a = pto.Tile("vec", x.dtype, 8, 16, addr=i % 2 * 512)
        pto.tload(a, x[i * 8 : i * 8 + 8])
        flag("MTE2", "MTE3")
        pto.tstore(out[i * 8 : i * 8 + 8], a)
        flag("MTE3", "MTE2")


@pto.kernel(mode="manual")
def reinterpreted(x, out, step: pto.const = 512):
    """The bits that were loaded as integers are used as floats, in place."""
    for i in pto.range(2):
        bits = pto.Tile("vec", "int32", 8, 16, addr=i * step)
        values = pto.Tile("vec", "float32", 8, 16, addr=i * step)
        pto.tload(bits, x[i * 8 : i * 8 + 8])
        pto.barrier("ALL")
        pto.tadd(values, values, values)
        pto.barrier("ALL")
        pto.tstore(out[i * 8 : i * 8 + 8], values)
        pto.barrier("ALL")


def loops() -> list[Case]:
    """H-38 across iterations and across loops."""
    found: list[Case] = []
    for target, dtype in product(ALL, DTYPES):
        nbytes = 8 * 16 * (2 if dtype == "float16" else 4)
        data = {"x": counted(32, 16, dtype=dtype), "out": zeros(32, 16, dtype=dtype)}
        across = Hazard("H-38", "# reads", "src", two_loops, data)
        found += across.pair(f"two loops of {dtype}", target, {"stride": nbytes // 2}, {"stride": nbytes})
        staged = Hazard("H-38", "# reads", "src", pipeline, data)
        found += staged.pair(f"a pipeline of {dtype}", target, {"stride": nbytes // 2}, {"stride": nbytes}, start=0x800)
    data = {"x": counted(32, 16), "out": zeros(32, 16)}
    for target in NPU:
        across = Hazard("H-38", "# reads", "src", two_loops, data)
        again = Hazard("H-38", "# reads", "src", rounds, data)
        fixed = Hazard("H-38", "a = pto.Tile(", "a", over_fixed, data)
        sizes = Hazard("H-38", "# reads", "src", two_sizes, data)
        turns = Hazard("H-38", "", "", double_buffer, data)
        bits = Hazard("H-38", "", "", reinterpreted, {"x": counted(16, 16, dtype="int32"), "out": zeros(16, 16)})
        found += [
            *across.pair("tassign", target, {"stride": 256}, {"stride": 512}, way="tassign"),
            *across.pair("one row too close", target, {"stride": 448}, {"stride": 544}),
            *across.pair("two rows", target, {"stride": 64}, {"stride": 128}, rows=2),
            *across.pair("two tiles", target, {"stride": 480}, {"stride": 512}, count=2),
            *again.pair("one declaration", target, {"stride": 256}, {"stride": 512}),
            *fixed.pair("over a fixed tile", target, {"start": 0x100}, {"start": 0x600}),
            *fixed.pair("into a fixed tile", target, {"start": 0x5E0}, {"start": 0x600}),
            *sizes.pair("two sizes", target, {"start": 0x300}, {"start": 0x400}),
            turns.twin("two addresses in turn", target),
            bits.twin("bits as floats", target),
        ]
    return found


# --- One address for several tiles, in turn


@pto.kernel(mode="manual")
def exclusive(x, y, out, n, way: pto.const = "opposite", rows: pto.const = 8):
    """Tiles of two types at one address, of which a launch uses one."""
    a = pto.Tile("vec", "float32", rows, 16, addr=0x100)
    b = pto.Tile("vec", "int32", rows, 16, addr=0x100)
    first, other = n > 3, n <= 3
    if way == "numbers":
        first, other = n == 5, n == 2
    elif way == "parity":
        first, other = n % 2 == 1, n % 2 == 0
    elif way == "both":
        first, other = n > 3, n > 1
    elif way == "others":
        first, other = n > 3, n < 20
    if way == "arms":
        with pto.when(n > 3):
            pto.tload(a, x)
            pto.barrier("ALL")
            pto.tstore(out, a)
        with pto.otherwise():
            pto.tload(b, y)
            pto.barrier("ALL")
            pto.tstore(y, b)
    else:
        with pto.when(first):
            pto.tload(a, x)
        pto.barrier("ALL")
        with pto.when(other):
            pto.tload(b, y)
        pto.barrier("ALL")
        with pto.when(first):
            pto.tstore(out, a)
        with pto.when(other):
            pto.tstore(y, b)


@pto.kernel(mode="manual")
def in_turn(x, y, out, anew: pto.const = True, rounds: pto.const = 1, half: pto.const = False):
    """a, b, a at one address, where a is loaded anew, all or what b has destroyed, or not."""
    a = pto.Tile("vec", "float32", 8, 16, addr=0x100)
    b = pto.Tile("vec", "int32", 4 if half else 8, 16, addr=0x200 if half else 0x100)
    for _ in pto.range(rounds):
        pto.tload(a, x)
        pto.barrier("ALL")
        pto.tstore(out, a)
        pto.barrier("ALL")
        pto.tload(b, y[0:4] if half else y)
        pto.barrier("ALL")
        pto.tstore(y[0:4] if half else y, b)
        pto.barrier("ALL")
        if anew and half:
            pto.tload(a[4:8, 0:16], x[4:8])
        elif anew:
            pto.tload(a, x)
        pto.barrier("ALL")
        pto.tstore(out, a)
        pto.barrier("ALL")


def turns() -> list[Case]:
    """Tiles that are never in use together, and tiles that are."""
    found: list[Case] = []
    for target, n in product(ALL, (5, 2)):
        data = {"x": counted(8, 16), "y": counted(8, 16, dtype="int32"), "out": zeros(8, 16), "n": n}
        choice = Hazard("H-38", "b = pto.Tile(", "b", exclusive, data)
        found += [choice.twin(f"{way}, {n}", target, way=way) for way in ("opposite", "numbers", "parity", "arms")]
        found += [choice.bad(f"{way}, {n}", target, way=way) for way in ("both", "others")]
    for target, rounds in product(ALL, (1, 3)):
        data = {"x": counted(8, 16), "y": counted(8, 16, dtype="int32"), "out": zeros(8, 16), "rounds": rounds}
        again = Hazard("H-38", "b = pto.Tile(", "b", in_turn, data)
        found += again.pair(f"a, b, a, {rounds} times", target, {"anew": False}, {})
        found += again.pair(f"a, half of it, a, {rounds} times", target, {"anew": False}, {}, half=True)
    return found


# --- Workspaces

LONG = 144
"""Columns of rows that are longer than a step of the vector unit, whose sums need the workspace on A2/A3."""


@pto.kernel(mode="manual")
def summed(
    x, other, out, fault: pto.const = "", addr: pto.const = 0x4000, rows: pto.const = 16, loop: pto.const = False,
):  # fmt: skip
    """A sum of long rows with a workspace, which other instructions touch as well."""
    a = pto.Tile("vec", x.dtype, rows, LONG, addr=0x8000)
    col = pto.Tile("vec", x.dtype, rows, 1, blayout="col_major", addr=0x1000)
    keep = pto.Tile("vec", x.dtype, rows, 16, addr=0x2000)
    work = pto.Tile("vec", x.dtype, rows, LONG, valid=(rows, 16), addr=addr)
    for _ in pto.range(2 if loop else 1):
        pto.tload(a, x)
        pto.tload(keep, other)
        pto.barrier("ALL")
        if fault == "still loaded":
            pto.tload(work, other)
        elif fault in ("still stored", "stored before"):
            pto.tload(work, other)
            flag("MTE2", "MTE3")
            pto.tstore(other, work)
        if fault == "stored before":
            pto.barrier("ALL")
        pto.trowsum(col, a, tmp=work)  # computes
        if fault == "read again":
            pto.tadd(keep, work, work)  # reads
        elif fault == "loaded again":
            pto.barrier("ALL")
            pto.tload(work, other)
            flag("MTE2", "V", 1)
            pto.tadd(keep, work, work)
        pto.barrier("ALL")
        pto.tstore(other, keep)
        pto.tstore(out, col)
        pto.barrier("ALL")


@pto.kernel(mode="manual")
def moving(x, out, step: pto.const = 0x2400):
    """A workspace that moves with the iteration, and a tile that is read after the loop."""
    keep = pto.Tile("vec", x.dtype, 16, 16, addr=0x1A000)
    a = pto.Tile("vec", x.dtype, 16, LONG, addr=0x8000)
    col = pto.Tile("vec", x.dtype, 16, 1, blayout="col_major", addr=0xC000)
    pto.tload(keep, x)
    pto.texpands(a, 1)
    pto.barrier("ALL")
    for i in pto.range(4):
        work = pto.Tile("vec", x.dtype, 16, LONG, addr=0x10000 + i * step)
        pto.trowsum(col, a, tmp=work)
    pto.barrier("ALL")
    pto.tstore(out, keep)


def used(hazard: Hazard, name: str, target: str, wrong: Given, right: Given) -> list[Case]:
    """A pair where the target writes the workspace; A5 ignores that of `trowsum`, so that nothing is wrong there."""
    if target == "a2a3":
        return hazard.pair(name, target, wrong, right)
    return [hazard.twin(f"{name}, ignored", target, **wrong), hazard.twin(name, target, **right)]


def workspaces() -> list[Case]:
    """What an instruction has in its workspace is written, and no data for others."""
    found: list[Case] = []
    for target, (dtype, loop) in product(NPU, (("float32", False), ("float16", False), ("float32", True))):
        data = {"x": counted(16, LONG, dtype=dtype), "other": counted(16, 16, dtype=dtype),
                "out": zeros(16, 1, dtype=dtype), "loop": loop}  # fmt: skip
        name = f"{dtype}, {'in a loop' if loop else 'once'}"
        race = Hazard("", "# computes", "tmp", summed, data)
        poison = Hazard("H-36", "# reads", "src0", summed, data)
        overlap = Hazard("H-38", "work = pto.Tile(", "work", summed, data)
        half = 16 * 16 * (2 if dtype == "float16" else 4) // 2
        found += [
            *used(race, f"loaded, {name}", target, {"fault": "still loaded"}, {"fault": ""}),
            *used(race, f"stored, {name}", target, {"fault": "still stored"}, {"fault": "stored before"}),
            *poison.pair(f"read again, {name}", target, {"fault": "read again"}, {"fault": "loaded again"}),
            *used(overlap, f"over a tile, {name}", target, {"addr": 0x2000}, {"addr": 0x3000}),
            *used(overlap, f"over half a tile, {name}", target, {"addr": 0x2000 + half}, {"addr": 0x2000 + 2 * half}),
            *used(overlap, f"over the source, {name}", target, {"addr": 0x8000}, {"addr": 0xC000}),
        ]
    for target in NPU:
        moves = Hazard("H-38", "work = pto.Tile(", "work", moving, {"x": counted(16, 16), "out": zeros(16, 16)})
        found += used(moves, "moving", target, {"step": 0x4000}, {"step": 0x2400})
    return found


CASES = [*loops(), *turns(), *workspaces()]
