"""Vector instructions of A2/A3 that read what earlier ones have written by another walk: H-49."""

from __future__ import annotations

import ptokit as pto
from tests.corpus.hazards.case import Case, Hazard, counted, flag, zeros


def after(way: str) -> None:
    """Keep the next vector instruction from overlapping the last one, in one of the ways there are, or not."""
    if way == "barrier":
        pto.barrier("V")
    elif way == "all":
        pto.barrier("ALL")
    elif way == "chain":
        flag("V", "MTE3", 4)
        flag("MTE3", "V", 4)
    elif way == "half a chain":
        flag("V", "MTE3", 4)


@pto.kernel(mode="manual")
def column_sums(x, out, way: pto.const = "barrier", early: pto.const = False):
    """The sums of the columns of x + x."""
    tile = pto.Tile("vec", "float32", 8, 64, addr=0)
    twice = pto.Tile("vec", "float32", 8, 64, addr=0x1000)
    sums = pto.Tile("vec", "float32", 1, 64, addr=0x2000)
    pto.tload(tile, x)
    flag("MTE2", "V")
    if early:
        after(way)
    pto.tadd(twice, tile, tile)
    if not early:
        after(way)
    pto.tcolsum(sums, twice)
    flag("V", "MTE3")
    pto.tstore(out, sums)


@pto.kernel(mode="manual")
def spread_row(x, out, way: pto.const = "barrier"):
    """The first row, added to every row."""
    tile = pto.Tile("vec", "float32", 8, 64, addr=0)
    rows = pto.Tile("vec", "float32", 8, 64, addr=0x1000)
    pto.tload(tile, x)
    flag("MTE2", "V")
    pto.tcolexpand(rows, tile[0:1, :])
    after(way)
    pto.tadd(tile, tile, rows)
    flag("V", "MTE3")
    pto.tstore(out, tile)


@pto.kernel(mode="manual")
def widened(x, out, way: pto.const = "barrier", turns: pto.const = 1):
    """float16 as float32, doubled."""
    half = pto.Tile("vec", "float16", 8, 64, addr=0)
    wide = pto.Tile("vec", "float32", 8, 64, addr=0x1000)
    pto.tload(half, x)
    flag("MTE2", "V")
    for _ in pto.range(turns):
        pto.tcvt(wide, half)
        after(way)
        pto.tadd(wide, wide, wide)
        flag("V", "MTE3")
        pto.tstore(out, wide)
        flag("MTE3", "V")


COLUMNS = Hazard("H-49", "pto.tcolsum(", "src", column_sums, {"x": counted(8, 64), "out": zeros(1, 64)}, level="hazard")
ROWS = Hazard("H-49", "pto.tadd(tile", "src1", spread_row, {"x": counted(8, 64), "out": zeros(8, 64)}, level="hazard")
WIDE = Hazard(
    "H-49", "pto.tadd(wide", "src0", widened,
    {"x": counted(8, 64, dtype="float16"), "out": zeros(8, 64)}, level="hazard",
)  # fmt: skip

CASES: list[Case] = [
    *(case for hazard, name in ((COLUMNS, "reduction"), (ROWS, "broadcast"), (WIDE, "conversion"))
      for way in ("barrier", "all", "chain")
      for case in hazard.pair(f"{name} without {way}", "a2a3", {"way": "none"}, {"way": way})),
    *COLUMNS.pair("half a chain", "a2a3", {"way": "half a chain"}, {"way": "chain"}),
    *COLUMNS.pair("too early", "a2a3", {"early": True}, {"early": False}),
    *WIDE.pair("in a loop", "a2a3", {"way": "none"}, {"way": "barrier"}, turns=3),
]  # fmt: skip
