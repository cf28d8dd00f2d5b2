"""Cache lines that scalar stores of two blocks share (H-16), and memory that the headers of A2/A3 use themselves."""

from __future__ import annotations

from itertools import product

import numpy as np

import ptokit as pto
from tests.corpus.hazards.case import Array, Case, Hazard, counted, zeros

KB = 1024


@pto.kernel(mode="manual")
def own_part(table, values, places, atomic: pto.const = "none", coalesce: pto.const = "elem", loop: pto.const = False):
    """Every block stores elements of its own."""
    block = pto.block_idx()
    width = values.shape[1]
    for i in pto.range(2 if loop else 1):
        ids = pto.Tile("vec", "int32", *((1, width) if coalesce == "elem" else (1, 8)), addr=0,
                       valid=(1, width) if coalesce == "elem" else (1, 1))  # fmt: skip
        part = pto.Tile("vec", values.dtype, 1, width, addr=0x200)
        row = block * 2 + i if loop else block
        pto.tload(ids, places[row : row + 1])
        pto.tload(part, values[row : row + 1])
        pto.barrier("ALL")
        pto.mscatter(table, part, ids, coalesce=coalesce, atomic=atomic)  # stores
        pto.barrier("ALL")


def apart(rows: int, width: int, stride: int, first: int = 0) -> Array:
    """Places of `width` neighbours for each row, `stride` elements from row to row."""
    return (first + np.arange(rows)[:, None] * stride + np.arange(width)).astype("int32")


def shared_lines() -> list[Case]:
    """Scalar stores of different blocks less than a line apart."""
    found: list[Case] = []
    for (dtype, size), grid in product((("float32", 4), ("int32", 4), ("float16", 2), ("int16", 2)), (2, 5)):
        line, width = 64 // size, 32 // size
        data = {"table": zeros(1, 512, dtype=dtype), "values": counted(grid, width, dtype=dtype)}
        share = Hazard("H-16", "# stores", "table", own_part, data, grid=grid)

        def places(stride: int, first: int = 0, grid: int = grid, width: int = width) -> Array:
            return apart(grid, width, stride, first)

        near, far = places(width), places(line)
        name = f"{dtype}, {grid} blocks"
        found += [
            *share.pair(f"half a line of {name}", "a2a3", {"places": near}, {"places": far}),
            *share.pair(f"lines from elsewhere of {name}", "a2a3", {"places": places(line, line - 2)},
                        {"places": places(line, line)}),
            share.twin(f"half a line of {name}", "a5", places=near),
        ]  # fmt: skip
    data = {"table": zeros(1, 512), "values": counted(4, 8), "loop": True}
    share = Hazard("H-16", "# stores", "table", own_part, data, grid=2)
    found += share.pair("in a loop", "a2a3", {"places": apart(4, 8, 12)}, {"places": apart(4, 8, 32)})
    found.append(share.twin("a line of one block", "a2a3", places=apart(4, 8, 8)))  # two iterations to a line
    data = {"table": zeros(64, 8), "values": counted(4, 8), "places": apart(4, 1, 1), "coalesce": "row"}
    rows = Hazard("H-16", "# stores", "table", own_part, data, grid=4)
    adds = {"table": zeros(1, 512), "places": apart(4, 8, 8), "coalesce": "elem", "atomic": "add"}
    return [*found, rows.twin("rows by DMA", "a2a3"), rows.twin("added up in a line", "a2a3", **adds),
            rows.twin("one block", "a2a3", **{**adds, "atomic": "none", "grid": 1})]  # fmt: skip


@pto.kernel(mode="manual")
def expanded(
    x, out, addr: pto.const = 0x8000, late: pto.const = False, shape: pto.const = (16, 16), room: pto.const = 0
):
    """A tile that is kept over an instruction for which the headers of A2/A3 need memory of their own, unless it is
    given a workspace (at `room`)."""
    a = pto.Tile("vec", x.dtype, *shape, addr=0)
    col = pto.Tile("vec", x.dtype, shape[0], 1, blayout="col_major", addr=0x4000)
    wide = pto.Tile("vec", x.dtype, *shape, addr=0x6000)
    keep = pto.Tile("vec", x.dtype, *shape, addr=addr)
    pto.tload(a, x)
    pto.tload(keep, x)
    pto.barrier("ALL")
    pto.trowsum(col, a)
    if room:
        pto.trowexpandmul(wide, a, col, tmp=pto.Tile("vec", x.dtype, *shape, addr=room))
    else:
        pto.trowexpandmul(wide, a, col)
    if late:
        pto.barrier("ALL")
        pto.tload(keep, x)
        pto.barrier("ALL")
    pto.tadd(wide, wide, keep)  # reads
    pto.barrier("ALL")
    pto.tstore(out, wide)


@pto.kernel(mode="manual")
def overtaken(x, out, addr: pto.const = 0x8000, guard: pto.const = False):
    """A tile is loaded while the vector pipe may still use its memory."""
    a = pto.Tile("vec", x.dtype, 16, 16, addr=0)
    col = pto.Tile("vec", x.dtype, 16, 1, blayout="col_major", addr=0x4000)
    wide = pto.Tile("vec", x.dtype, 16, 16, addr=0x6000)
    next_one = pto.Tile("vec", x.dtype, 16, 16, addr=addr)
    pto.tload(a, x)
    pto.barrier("ALL")
    pto.trowsum(col, a)
    pto.trowexpandsub(wide, a, col)
    if guard:
        pto.barrier("ALL")
    pto.tload(next_one, x)  # loads
    pto.barrier("ALL")
    pto.tadd(wide, wide, next_one)
    pto.barrier("ALL")
    pto.tstore(out, wide)


def headers_memory() -> list[Case]:
    """H-38: the 8 KB from 184 KB on, which row-expanding instructions of A2/A3 use."""
    found: list[Case] = []
    for dtype, addr in product(("float32", "float16"), (184 * KB, 185 * KB, 184 * KB - 32)):
        data = {"x": counted(16, 16, dtype=dtype), "out": zeros(16, 16, dtype=dtype)}
        kept = Hazard("H-38", "# reads", "src1", expanded, data)
        below = 184 * KB - 16 * 16 * (4 if dtype == "float32" else 2)
        found += kept.pair(f"{dtype} at {addr:#x}", "a2a3", {"addr": addr}, {"addr": below})
        found.append(kept.twin(f"{dtype} at {addr:#x}, loaded later", "a2a3", addr=addr, late=True))
        found.append(kept.twin(f"{dtype} at {addr:#x}", "a5", addr=addr))
        found.append(kept.twin(f"{dtype} at {addr:#x}, a workspace", "a2a3", addr=addr, room=0xA000))
        race = Hazard("", "# loads", "dst", overtaken, data)
        found += race.pair(f"overtaken, {dtype} at {addr:#x}", "a2a3", {"addr": addr}, {"addr": addr, "guard": True})
    return found


CASES = [*shared_lines(), *headers_memory()]
