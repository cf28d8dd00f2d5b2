"""Histogram and segment maximum: single elements are combined in cells of memory, by element scatter.

Both kernels have the same steps: load a run of values, find a cell for each, and let `mscatter` combine it with the
cell, `atomic="add"` for a count and `atomic="max"` for a maximum. Any number of elements may have the same cell, from
any block. The histogram computes its bins in UB (scale, then round down), and a sample outside the range gets a bin
outside the table, which `oob="skip"` drops: no comparison is needed. Note what `clamp` would do here: indices are
unsigned, so a sample *below* the range would be counted in the *last* bin. On A2/A3 hardware an element scatter adds by
scalar loads and stores, which are not atomic between cores: there, give every block its own histogram.
"""

from __future__ import annotations

import numpy as np
from _run import Array, Case, run_everywhere

import ptokit as pto

LOW = -4
"""Where the first bin begins."""
PER_UNIT = 8
"""Bins for each unit of the samples."""


@pto.kernel
def histogram(
    samples, out, low: pto.const = LOW, per_unit: pto.const = PER_UNIT, cols: pto.const = 1024, oob: pto.const = "skip"
):
    """`out[floor((x - low) * per_unit)] += 1` for every sample `x`; a sample outside all bins is not counted."""
    count = samples.shape[0]
    tiles = pto.cdiv(count, cols)
    ones = pto.Tile("vec", out.dtype, 1, cols)
    pto.texpands(ones, 1)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks, buffers=2):
        first = tile * cols
        n = pto.min(cols, count - first)
        values = pto.Tile("vec", samples.dtype, 1, cols, valid=(1, n))
        bins = pto.Tile("vec", "int32", 1, cols, valid=(1, n))
        pto.tload(values, samples[first : first + n])
        pto.tsubs(values, values, low)
        pto.tmuls(values, values, per_unit)
        pto.tcvt(bins, values, "floor")
        ones.valid = (1, n)
        pto.mscatter(out, ones, bins, coalesce="elem", atomic="add", oob=oob)


@pto.kernel
def segment_max(values, segments, out, cols: pto.const = 1024, oob: pto.const = "skip"):
    """`out[s] = max(out[s], the values whose segment is s)`."""
    count = values.shape[0]
    tiles = pto.cdiv(count, cols)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks, buffers=2):
        first = tile * cols
        n = pto.min(cols, count - first)
        numbers = pto.Tile("vec", values.dtype, 1, cols, valid=(1, n))
        cells = pto.Tile("vec", segments.dtype, 1, cols, valid=(1, n))
        pto.tload(numbers, values[first : first + n])
        pto.tload(cells, segments[first : first + n])
        pto.mscatter(out, numbers, cells, coalesce="elem", atomic="max", oob=oob)


def histogram_reference(samples: Array, out: Array, low: float = LOW, per_unit: float = PER_UNIT) -> Array:
    """The same as `histogram` in NumPy."""
    bins = np.floor((samples - samples.dtype.type(low)) * samples.dtype.type(per_unit))
    counted = bins[(bins >= 0) & (bins < len(out))].astype("int64")
    return out + np.bincount(counted, minlength=len(out)).astype(out.dtype)


def segment_max_reference(values: Array, segments: Array, out: Array) -> Array:
    """The same as `segment_max` in NumPy."""
    kept = (segments >= 0) & (segments < len(out))
    largest = out.copy()
    np.maximum.at(largest, segments[kept], values[kept])
    return largest


def make_histogram_case(rng: np.random.Generator, *, count: int = 20_000, bins: int = 64) -> Case:
    """Samples, some of them outside the range."""
    return {"samples": 2 * rng.standard_normal(count, dtype="float32"), "out": np.zeros(bins, "int32")}


def make_segment_case(
    rng: np.random.Generator, *, count: int = 20_000, segments: int = 100, dtype: str = "float32"
) -> Case:
    """Values in no order; the last segments stay empty, at the lowest number of the type."""
    lowest = -np.inf if dtype.startswith("float") else np.iinfo(dtype).min
    return {
        "values": (1000 * rng.standard_normal(count, dtype="float32")).astype(dtype),
        "segments": rng.integers(0, max(1, segments - 3), count, dtype="int32"),
        "out": np.full(segments, lowest, dtype),
    }


def main() -> None:
    """Count samples, and find the largest value of every segment."""
    rng = np.random.default_rng(0)
    counted = make_histogram_case(rng)
    run_everywhere(histogram, counted, histogram_reference(**counted), grid=8)
    for dtype in ("float32", "int32"):
        grouped = make_segment_case(rng, dtype=dtype)
        run_everywhere(segment_max, grouped, segment_max_reference(**grouped), grid=8)


if __name__ == "__main__":
    main()
