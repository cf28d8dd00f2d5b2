"""Writes docs/pictures: every picture is drawn by ptokit from a program that runs, or from a table of measurements.

`python tests/pictures.py` (`make pictures`) writes the files; a test draws them again and compares the bytes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import ptokit as pto
from ptokit.machine.report import MachineReport
from ptokit.report.access import access_maps
from ptokit.report.svg import tile_svg
from tests.examples.test_gallery import GALLERY, Entry, rng
from tests.figures import access_svg, bars_svg, lanes_svg, stacked, timeline_svg

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/pictures"
LAYOUTS: dict[str, dict[str, str]] = {
    "nd": {},
    "dn": {"blayout": "col_major"},
    "nz": {"blayout": "col_major", "slayout": "row_major"},
}
TITLES = {
    "nd": "ND: row by row",
    "dn": "DN: column by column",
    "nz": "NZ: boxes of 16 rows x 32 bytes, column by column",
}


# --- programs


@pto.kernel
def pick(table, ids, out, oob: pto.const = "zero"):
    """`out[i] = table[ids[i]]`."""
    index = pto.Tile("vec", ids.dtype, 1, ids.shape[0])
    rows = pto.Tile("vec", table.dtype, ids.shape[0], table.shape[1])
    pto.tload(index, ids)
    pto.mgather(rows, table, index, oob=oob)
    pto.tstore(out, rows)


@pto.kernel
def put(src, ids, out, oob: pto.const = "skip"):
    """`out[ids[i]] += src[i]`."""
    index = pto.Tile("vec", ids.dtype, 1, ids.shape[0])
    rows = pto.Tile("vec", src.dtype, ids.shape[0], src.shape[1])
    pto.tload(index, ids)
    pto.tload(rows, src)
    pto.mscatter(out, rows, index, coalesce="row", atomic="add", oob=oob)


@pto.kernel
def lookup(table, tokens, out, rows: pto.const = 32, buffers: pto.const = 2):
    """Rows of a table, `rows` at a time; the tiles of an iteration are one of `buffers` sets."""
    width = table.shape[1]
    for k in pto.range(tokens.shape[0] // rows, buffers=buffers):
        ids = pto.Tile("vec", tokens.dtype, 1, rows)
        vectors = pto.Tile("vec", table.dtype, rows, width)
        pto.tload(ids, tokens[k * rows : (k + 1) * rows])
        pto.mgather(vectors, table, ids, oob="zero")
        pto.tstore(out[k * rows : (k + 1) * rows], vectors)


@pto.kernel(mode="manual")
def by_hand(table, tokens, out, flag: pto.const = 1):
    """A lookup whose author may have forgotten the flag before the store."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    rows = pto.Tile("vec", "float32", 8, 16, addr=0x1000)
    pto.tload(ids, tokens)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.mgather(rows, table, ids)
    if flag:
        pto.set_flag("V", "MTE3", 0)
        pto.wait_flag("V", "MTE3", 0)
    pto.tstore(out, rows)


def machine(kernel: Any, *arrays: Any, target: str = "a5", grid: int = 1, **constants: Any) -> MachineReport:
    """A launch on the machine."""
    options = pto.MachineOptions(lanes=True)
    return kernel[grid](*arrays, target=target, engine="machine", options=options, **constants)


def access_of(report: MachineReport) -> dict[str, Any]:
    """The access map of the only gather or scatter of a launch."""
    (found,) = access_maps(report)
    return found


# --- pictures


def layout(name: str) -> str:
    tile = pto.Tile("mat" if name == "nz" else "vec", "float16", 32, 32, **LAYOUTS[name])
    return tile_svg(tile.spec, TITLES[name])


def valid_region() -> str:
    tile = pto.Tile("vec", "float32", 8, 16, valid=(6, 10))
    return tile_svg(tile.spec, "8 x 16 float32, of which 6 x 10 are valid")


def gather_policies() -> str:
    """One lane below the table, two above it."""
    table, ids = np.arange(64, dtype="float32").reshape(8, 8), np.array([2, 9, 5, -1, 5, 0, 7, 12], "int32")
    drawn = []
    for oob in ("clamp", "wrap", "zero"):
        report = machine(pick, table, ids, np.empty((8, 8), "float32"), oob=oob)
        drawn.append(lanes_svg(access_of(report), f'mgather(..., oob="{oob}"): 8 indices into a table of 8 rows'))
    return stacked("The policies of mgather for indices outside the table", drawn)


def scatter_policies() -> str:
    src, ids = np.ones((8, 8), "float32"), np.array([2, 9, 5, -1, 5, 0, 7, 12], "int32")
    drawn = []
    for oob in ("clamp", "wrap", "skip"):
        report = machine(put, src, ids, np.zeros((8, 8), "float32"), oob=oob)
        drawn.append(lanes_svg(access_of(report), f'mscatter(..., atomic="add", oob="{oob}"): 8 lanes into 8 rows'))
    return stacked("The policies of mscatter for indices outside the table", drawn)


def _lookup(buffers: int) -> MachineReport:
    table, tokens = np.zeros((1000, 64), "float32"), (np.arange(128, dtype="int32") * 37) % 1000
    return machine(lookup, table, tokens, np.empty((128, 64), "float32"), buffers=buffers)


def timeline() -> str:
    line = _timeline(_lookup(2))
    return timeline_svg(line, f"lookup on a5, two sets of tiles: {line.cycles:,.0f} cycles")


def one_buffer() -> str:
    line = _timeline(_lookup(1))
    return timeline_svg(line, f"lookup on a5, one set of tiles: {line.cycles:,.0f} cycles")


def _timeline(report: MachineReport) -> Any:
    assert report.timeline is not None
    return report.timeline


RACES = {0: "without a flag from V to MTE3, tstore reads the tile before mgather writes it", 1: "with the flag"}


def race() -> str:
    """The same kernel without and with its second flag."""
    drawn = []
    for flag, title in RACES.items():
        table, tokens = np.arange(1024, dtype="float32").reshape(64, 16), np.arange(8, dtype="int32") * 7
        report = machine(by_hand, table, tokens, np.zeros((8, 16), "float32"), flag=flag)
        assert report.ok == bool(flag)
        drawn.append(timeline_svg(_timeline(report), title))
    return stacked("A missing flag", drawn)


def access_map() -> str:
    """Indices that prefer the start of the table, and some outside."""
    place = np.arange(64, dtype="int64")
    ids = (place * place * 3 // 10).astype("int32")
    report = machine(pick, np.zeros((1000, 8), "float32"), ids, np.empty((64, 8), "float32"), oob="clamp")
    return access_svg(access_of(report), "mgather(rows, table, ids) of 32-byte rows on a5")


def gallery(entry: Entry) -> str:
    case = entry.make(rng(), **entry.sizes[0])
    report = machine(entry.kernel, *case.values(), grid=2)
    line = _timeline(report)
    return timeline_svg(line, f"{entry.name} on a5, 2 blocks: {line.cycles:,.0f} cycles")


# --- measurements

ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)


def rows_of(text: str, title: str) -> Iterator[list[str]]:
    """The rows below a table's head, which starts with `title`."""
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith(f"| {title} |"))
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def latest_on_gpu() -> Path:
    """The table of the last measurement on a GPU."""
    return max((ROOT / "benchmarks/results").glob("gpu-*.md"))


def speed_gpu() -> str:
    """TB/s of the calls that PyTorch has too."""
    file, found = latest_on_gpu(), {}
    for name, ours, _, _, torch, triton, *_ in rows_of(file.read_text(encoding="utf-8"), "case"):
        if torch != "–" and "matmul" not in name:
            shown = {"ptokit": ours, "PyTorch": torch, "Triton": triton}
            found[name] = {who: float(value) for who, value in shown.items() if value != "–"}
    return bars_svg("NVIDIA H200: 1 GiB of payload", "TB/s", found, f"measured {file.stem.removeprefix('gpu-')}")


def speed_cpu() -> str:
    """Ratios to the best peer on two threads: the first number of a case."""
    text = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    found = {}
    for name, _, arm, _, x86 in rows_of(text, "case"):
        ratios = [re.search(r"([\d.]+) x", cell) for cell in (arm, x86)]
        if all(ratios):
            both = zip(("AArch64", "x86-64"), ratios, strict=True)
            found[name.split(" / ")[0]] = {who: float(ratio[1]) for who, ratio in both if ratio}
    return bars_svg("Two CPUs: times as fast as the best of NumPy, PyTorch and Numba", "ratio", found, "2 threads")


PICTURES: dict[str, Callable[[], str]] = {
    **{f"layout-{name}": partial(layout, name) for name in LAYOUTS},
    "valid-region": valid_region,
    "gather-policies": gather_policies,
    "scatter-policies": scatter_policies,
    "access-map": access_map,
    "timeline": timeline,
    "timeline-one-buffer": one_buffer,
    "race": race,
    **{f"gallery-{entry.name}": partial(gallery, entry) for entry in GALLERY},
    "speed-cpu": speed_cpu,
    "speed-gpu": speed_gpu,
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
    print(f"wrote {len(PICTURES)} pictures")
