"""Row gathers of A2/A3 between NZ tables and tiles, cell by cell: every column of the table moves, valid or not."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest

import ptokit as pto

TYPES = ("int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32")
SHAPES = [
    # B, BCols, BRows; tile rows, extra block columns of the tile; valid rows, valid columns
    (1, 2, 2, 16, 0, 16, 3),
    (1, 3, 1, 32, 0, 20, 1),
    (2, 2, 2, 16, 1, 5, 9),
    (3, 1, 4, 48, 2, 33, 17),
    (1, 1, 1, 16, 0, 1, 1),
]


def tile_place(kc0: int, rows: int, r: int, c: int) -> int:
    """MG-NZ-09."""
    return c // kc0 * (rows * kc0) + r * kc0 + c % kc0


def table_place(kc0: int, shape: tuple[int, ...], stride: tuple[int, ...], row: int, col: int) -> int:
    """MG-NZ-08."""
    batch, block = divmod(col // kc0, shape[1])
    at = (batch, block, row // 16, row % 16, col % kc0)
    return sum(k * step for k, step in zip(at, stride, strict=True))


def case(kind: str, sizes: tuple[int, ...], gap: int, oob: str) -> dict[str, Any]:
    """A table, indices, and the content of the tile that a loop over bursts leaves."""
    batches, block_cols, block_rows, rows, extra, valid_rows, valid_cols = sizes
    kc0 = 32 // np.dtype(kind).itemsize
    shape = (batches, block_cols, block_rows, 16, kc0)
    column = block_rows * 16 * kc0 + gap
    stride = (block_cols * column + gap, column, 16 * kc0, kc0, 1)
    random = np.random.default_rng(sum(sizes))
    data = random.integers(1, 120, batches * stride[0]).astype(kind)
    logical_rows, logical_cols = block_rows * 16, batches * block_cols * kc0
    cols = logical_cols + extra * kc0
    high = logical_rows if oob == "undefined" else 3 * logical_rows
    idx = random.integers(0, high, valid_rows).astype("int32")
    before = random.integers(1, 120, rows * cols).astype(kind)
    after = np.zeros_like(before) if oob == "zero" else before.copy()
    for r, index in enumerate(idx.tolist()):
        if index >= logical_rows and oob == "zero":
            continue
        row = min(index, logical_rows - 1) if oob == "clamp" else index % logical_rows
        for c in range(logical_cols):
            after[tile_place(kc0, rows, r, c)] = data[table_place(kc0, shape, stride, row, c)]
    return {
        "table": pto.GlobalTensor(data, shape=shape, stride=stride, layout="nz"), "idx": idx, "before": before,
        "after": after, "tile": (rows, cols), "valid": (valid_rows, min(valid_cols, logical_cols)),
    }  # fmt: skip


@pytest.mark.clause("MG-NZ-05", "MG-NZ-06", "MG-NZ-08", "MG-NZ-09", "MG-OOB-12", "A-47", "A-48")
@pytest.mark.parametrize("oob", ["undefined", "clamp", "wrap", "zero"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_row_transfer_moves_every_column_of_the_table(kind: str, oob: str) -> None:
    """The valid columns do not shorten a burst; cells outside a transfer keep their content, or are zero."""
    for sizes, gap in product(SHAPES, (0, 32)):
        made = case(kind, sizes, gap, oob)
        with pto.target("a2a3"):
            dst = pto.Tile("vec", kind, *made["tile"], valid=made["valid"], blayout="col_major", slayout="row_major")
            dst.buffer[:] = made["before"]
            count = made["idx"].size
            idx = pto.Tile("vec", "int32", 1, -(-count // 8) * 8, valid=(1, count)).write(made["idx"])
            pto.mgather(dst, made["table"], idx, oob=oob)
        assert dst.buffer.tobytes() == made["after"].tobytes(), (sizes, gap)


@pto.kernel
def gathered(
    table, ids, out, rows: pto.const = 16, cols: pto.const = 16, valid: pto.const = (16, 16), count: pto.const = 8,
    oob: pto.const = "clamp",
):  # fmt: skip
    """The whole tile is stored, also what was not valid in the gather."""
    idx = pto.Tile("vec", "int32", 1, count, valid=(1, ids.shape[0]))
    tile = pto.Tile("vec", out.dtype, rows, cols, blayout="col_major", slayout="row_major")
    pto.tload(idx, ids)
    pto.tload(tile, out)
    tile.valid = valid
    pto.mgather(tile, table, idx, oob=oob)
    tile.valid = (rows, cols)
    pto.tstore(out, tile)


@pytest.mark.clause("MG-NZ-06", "A-47")
@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
@pytest.mark.parametrize("oob", ["clamp", "zero"])
@pytest.mark.parametrize("kind", ["int8", "float16", "int32"])
def test_every_engine_moves_every_column(kind: str, oob: str, engine: str) -> None:
    for sizes in SHAPES:
        made = case(kind, sizes, 0, oob)
        (rows, cols), kc0 = made["tile"], 32 // np.dtype(kind).itemsize
        out = made["before"].copy()
        shaped = pto.GlobalTensor(out, shape=(1, cols // kc0, rows // 16, 16, kc0), layout="nz")
        count = -(-made["idx"].size // 8) * 8
        gathered[1](
            made["table"], made["idx"], shaped, rows=rows, cols=cols, valid=made["valid"], count=count, oob=oob,
            target="a2a3", engine=engine,
        )  # fmt: skip
        assert out.tobytes() == made["after"].tobytes(), sizes


@pytest.mark.clause("MG-NZ-10", "MG-NZ-07")
@pytest.mark.parametrize(("kind", "blocks", "rows"), [("int32", 2, 16), ("int16", 3, 16), ("uint8", 2, 32)])
def test_elements_are_walked_by_block_column_then_row_then_column_in_the_block(
    kind: str, blocks: int, rows: int
) -> None:
    """The table is the destination's own memory, so that a lane can load what an earlier one stored."""
    kc0 = 32 // np.dtype(kind).itemsize
    cols = blocks * kc0
    random = np.random.default_rng(rows * cols)
    content = random.integers(0, 100, rows * cols).astype(kind)
    idx = random.integers(0, rows * cols, (rows, cols))
    by_block = [(r, block * kc0 + c) for block, r, c in product(range(blocks), range(rows), range(kc0))]
    by_row = list(product(range(rows), range(cols)))

    def walked(order: list[tuple[int, int]]) -> bytes:
        cells = content.copy()
        for r, c in order:
            row, col = divmod(int(idx[r, c]), cols)
            cells[tile_place(kc0, rows, r, c)] = cells[tile_place(kc0, rows, row, col)]
        return cells.tobytes()

    with pto.target("a2a3"), warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.HazardWarning)  # operands that share memory
        dst = pto.Tile("vec", kind, rows, cols, blayout="col_major", slayout="row_major")
        dst.buffer[:] = content
        table = pto.GlobalTensor(dst.buffer, shape=(1, blocks, rows // 16, 16, kc0), layout="nz")
        pto.mgather(dst, table, pto.Tile("vec", "int32", rows, cols).write(idx), coalesce="elem")
    assert dst.buffer.tobytes() == walked(by_block) != walked(by_row)
