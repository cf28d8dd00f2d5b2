"""The fixes in refusals of reductions, scatters and gathers work."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto

FAMILIES = ("cpu", "a2a3", "a5")


def refused(call) -> list[pto.Finding]:
    with pytest.raises(pto.VerifyError) as refusal:
        call()
    return list(refusal.value.findings)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", ["trowsum", "tcolsum"])
def test_sums_of_bfloat16_go_through_float32(target: str, name: str) -> None:
    data = np.arange(256).reshape(8, 32).astype(ml_dtypes.bfloat16)
    op, shape = getattr(pto, name), (8, 16) if name == "trowsum" else (1, 32)
    valid = (8, 1) if name == "trowsum" else (1, 32)
    with pto.target(target):
        src, dst = pto.Tile("vec", "bfloat16", 8, 32).write(data), pto.Tile("vec", "bfloat16", *shape, valid=valid)
        if (name, target) == ("tcolsum", "a5"):  # which adds bfloat16 itself
            op(dst, src)
        else:
            (finding,) = refused(lambda: op(dst, src))
            assert finding.rule in ("CP-RED-02", "CP-COL-02") and "tcvt" in finding.fix and "float32" in finding.fix
            wide, total = pto.Tile("vec", "float32", 8, 32), pto.Tile("vec", "float32", *shape, valid=valid)
            pto.tcvt(wide, src)
            op(total, wide)
            pto.tcvt(dst, total)
        expected = data.astype("float32").sum(axis=1 if name == "trowsum" else 0).astype(ml_dtypes.bfloat16)
        assert (dst.read().ravel() == expected).all()


@pytest.mark.parametrize("target", FAMILIES)
def test_atomic_adds_of_bfloat16(target: str) -> None:
    with pto.target(target):
        table = pto.GlobalTensor(np.ones((4, 16), ml_dtypes.bfloat16))
        tile = pto.Tile("vec", "bfloat16", 4, 16).write(2)
        idx = pto.Tile("vec", "int32", 1, 8, valid=(1, 4)).write([[0, 1, 2, 3]])
        (finding,) = refused(lambda: pto.mscatter(table, tile, idx, coalesce="row", atomic="add"))
        assert finding.rule == "MS-ATOM-05" and "float32" in finding.fix and "tstore" in finding.fix
        pto.tstore(table, tile, atomic="add")
        assert (table.array == 3).all()


@pytest.mark.parametrize("target", FAMILIES)
def test_a_row_index_as_wide_as_the_source_asks_for_rows(target: str) -> None:
    """A-05: where N is the width, a [1, N] index means elements unless rows are asked for."""
    with pto.target(target):
        src = pto.Tile("vec", "float32", 8, 8).write(np.arange(64).reshape(8, 8))
        idx = pto.Tile("vec", "int32", 1, 8).write([[7, 6, 5, 4, 3, 2, 1, 0]])
        table = pto.GlobalTensor(np.zeros((8, 8), "float32"))
        findings = refused(lambda: pto.mscatter(table, src, idx))
        assert all('coalesce="row"' in finding.fix for finding in findings), findings
        pto.mscatter(table, src, idx, coalesce="row")
        assert (table.array == src.read()[::-1]).all()
        short = pto.Tile("vec", "int32", 1, 8, valid=(1, 5)).write([[0] * 5])
        assert not any('coalesce="row"' in f.fix for f in refused(lambda: pto.mscatter(table, src, short)))


@pytest.mark.parametrize("target", FAMILIES)
def test_rows_of_a_tile_by_one_index_each(target: str) -> None:
    """The fixes of tscatter and tgather."""
    order = np.array([3, 0, 7, 1, 6, 2, 5, 4], "int32")
    with pto.target(target):
        data = np.arange(128, dtype="float32").reshape(8, 16)
        src, dst = pto.Tile("vec", "float32", 8, 16).write(data), pto.Tile("vec", "float32", 8, 16).write(0)
        column = pto.Tile("vec", "int32", 8, 1, blayout="col_major")
        pto.tload(column, pto.GlobalTensor(order))
        row_major = pto.Tile("vec", "int32", 8, 8, valid=(8, 1)).write(order[:, None])
        assert any("trowexpand" in f.fix for f in refused(lambda: pto.tscatter(dst, src, row_major)))
        assert any("trowexpand" in f.fix for f in refused(lambda: pto.tgather(dst, src, row_major)))
        wide = pto.Tile("vec", "int32", 8, 16)
        pto.trowexpand(wide, column)
        pto.tscatter(dst, src, wide)
        assert (dst.read()[order] == data).all()
        pto.tmuls(wide, wide, 16)
        numbers = pto.Tile("vec", "int32", 1, 16)
        pto.tci(numbers, 0)
        pto.tcolexpandadd(wide, wide, numbers)
        pto.tgather(dst, src, wide)
        assert (dst.read() == data[order]).all()


@pto.kernel
def scaled(x, weights, out):
    rows, width = x.shape
    values = pto.Tile("vec", x.dtype, rows, width)
    column = pto.Tile("vec", x.dtype, rows, 1, blayout="col_major")
    pto.tload(values, x)
    pto.tload(column, weights)
    pto.trowexpandmul(values, values, column)
    pto.tstore(out, values)


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("shape", [(64,), (1, 64), (64, 1)])
def test_a_row_of_weights_loads_as_a_column_in_one_burst(target: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random((64, 16), "float32")
    weights = np.arange(64, dtype="float32").reshape(shape)
    for engine in ("native", "reference", "machine"):
        out = np.zeros_like(x)
        report = scaled[1](x, weights, out, target=target, engine=engine)
        assert (out == x * weights.reshape(64, 1)).all()
    assert report.ok
    if target != "cpu":
        load = report.traffic[1]
        assert (load.instruction, load.bursts, load.bytes_moved, load.bytes_used) == ("tload", 1, 256, 256)


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("shape", [(8,), (1, 8), (8, 1)])
@pytest.mark.parametrize("tile", [(1, 8), (8, 1)])
def test_a_run_of_elements_loads_as_a_row_or_a_column(
    target: str, tile: tuple[int, int], shape: tuple[int, ...]
) -> None:
    with pto.target(target):
        row = pto.Tile("vec", "float32", *tile, blayout="col_major" if tile[1] == 1 else "row_major")
        pto.tload(row, pto.GlobalTensor(np.arange(8, dtype="float32").reshape(shape)))
        assert row.read().ravel().tolist() == list(range(8))


@pytest.mark.parametrize("target", FAMILIES)
def test_elements_with_gaps_are_no_column(target: str) -> None:
    with pto.target(target):
        column = pto.Tile("vec", "float32", 16, 1, blayout="col_major")
        gaps = pto.GlobalTensor(np.zeros((16, 4), "float32")[:, 1:2])
        (finding,) = refused(lambda: pto.tload(column, gaps))
        assert finding.rule == "TL-01" and "side by side" in finding.fix
        (finding,) = refused(lambda: pto.tload(column, pto.GlobalTensor(np.zeros(15, "float32"))))
        assert finding.rule == "TL-02"


def zeroed(kind: str, rows: int, cols: int, *valid: int) -> pto.Tile:
    tile = pto.Tile("vec", kind, rows, cols, valid=valid or None)
    tile.storage.bits[:] = 0
    return tile


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize(
    ("src", "idx", "rows"),
    [
        ((4, 8), (1, 4), True),
        ((2, 8), (1, 2), True),
        ((4, 7), (1, 7), False),
        ((4, 8), (1, 5), False),
        ((1, 8), (1, 1), False),
    ],
    ids=str,
)
def test_rows_are_proposed_for_an_index_with_a_number_for_each_row(
    target: str, src: tuple[int, int], idx: tuple[int, int], rows: bool
) -> None:
    """An index tile as wide as the source means elements (A-05)."""
    with pto.target(target):
        table = pto.GlobalTensor(np.zeros((8, 8), "float32"))
        found = refused(lambda: pto.mscatter(table, zeroed("float32", 8, 8, *src), zeroed("int32", 1, 8, *idx)))
        assert any('coalesce="row"' in finding.fix for finding in found) == rows


@pytest.mark.parametrize("name", ["tscatter", "tgather"])
@pytest.mark.parametrize(
    ("data", "idx", "proposed"),
    [((4, 8), (4, 1), True), ((4, 8), (1, 4), True), ((4, 8), (1, 8), False), ((4, 8), (3, 1), False),
     ((4, 2), (4, 1), True), ((4, 1), (1, 4), False), ((4, 1), (4, 2), False)],
    ids=str,
)  # fmt: skip
def test_an_index_for_each_row_of_a_tile_has_a_fix_of_its_own(
    name: str, data: tuple[int, int], idx: tuple[int, int], proposed: bool
) -> None:
    tile, index = zeroed("float32", 8, 8, *data), zeroed("int32", 8, 8, *idx)
    (finding,) = refused(lambda: getattr(pto, name)(zeroed("float32", 8, 8, *data), tile, index))
    assert ("by one index each" in finding.fix) == proposed


@pytest.mark.parametrize(("rows", "cols"), [(4, 64), (64, 16), (2, 17)])
@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_a_mask_has_a_bit_for_each_column(target: str, rows: int, cols: int) -> None:
    kind, bits = ("uint32", 32) if target == "a5" else ("uint8", 8)
    words = -(-cols // bits)
    with pto.target(target):
        data = zeroed("float32", 64, 64, rows, cols)
        for down, across, legal in ((rows, words, True), (rows, words + 1, True), (rows, words - 1, False),
                                    (rows + 1 if rows < 64 else rows - 1, words, False)):  # fmt: skip
            if across < 1:
                continue
            mask = zeroed(kind, 64, 32, down, across)
            for call in (
                lambda mask=mask: pto.tcmp(mask, data, data),
                lambda mask=mask: pto.tcmps(mask, data, 1),
                lambda mask=mask: pto.tsel(zeroed("float32", 64, 64, rows, cols), mask, data, data),
                lambda mask=mask: pto.tsels(zeroed("float32", 64, 64, rows, cols), mask, data, 1),
            ):
                if legal:
                    call()
                else:
                    assert {finding.rule for finding in refused(call)} <= {"CP-CMP-01", "CP-SEL-01"}
