"""UB of A5: static tiles and dynUBufSize share 216 KB (MG-BUDG-07), and 128 KB need no request (MG-BUDG-09).

The same verdict from `pto.check`, launches, the machine and eager calls.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ptokit as pto

KB = 1024
ROWS = 8
"""Rows of the index, the destination and the table; a KB of destination is 32 columns."""


@pto.kernel
def unplaced(table, tokens, out, cols: pto.const = 32):
    ids = pto.Tile("vec", "int32", 1, 8)
    got = pto.Tile("vec", "float32", 8, cols)
    pto.tload(ids, tokens)
    pto.mgather(got, table, ids)
    pto.tstore(out, got)


@pto.kernel(mode="manual")
def placed(table, tokens, out, cols: pto.const = 32):
    ids = pto.Tile("vec", "int32", 1, 8, addr=8 * cols * 4)
    got = pto.Tile("vec", "float32", 8, cols, addr=0)
    pto.tload(ids, tokens)
    pto.barrier("ALL")
    pto.mgather(got, table, ids)
    pto.barrier("ALL")
    pto.tstore(out, got)


@pto.kernel
def no_threads(table, tokens, out, cols: pto.const = 32):
    got = pto.Tile("vec", "float32", 8, cols)
    pto.tload(got, table)
    pto.tstore(out, got)


@pto.kernel
def into_l1(table, tokens, out, cols: pto.const = 32):
    """A row gather into L1 is done by the cube core; it starts no threads."""
    got = pto.Tile("vec", "float32", 8, cols)
    mat = pto.Tile("mat", "float32", 16, 8, valid=(8, 8), blayout="col_major", slayout="row_major")
    pto.tload(got, table)
    pto.tstore(out, got)
    pto.mgather(mat, table[0:8, 0:8], tokens)


IDS = 32
"""Bytes of the index."""
CASES = [
    # kernel, KB of the destination, dyn_ub, expected
    (unplaced, 199, 216 * KB, "H-21"),
    (unplaced, 64, 32 * KB, None),
    (unplaced, 127, None, None),
    (unplaced, 128, None, "H-20"),
    (unplaced, 128, 0, "H-20"),
    (unplaced, 128, 32, None),
    (unplaced, 128, 88 * KB - IDS, None),
    (unplaced, 128, 88 * KB - IDS + 1, "H-21"),
    (unplaced, 216, None, "H-21"),
    (placed, 127, None, None),
    (placed, 128, None, "H-20"),
    (placed, 64, 32 * KB, "H-21"),
    (placed, 64, 64 * KB + IDS, None),
    (placed, 199, 216 * KB, None),
    (placed, 199, 216 * KB + 1, "H-21"),
    (placed, 216, 216 * KB, "H-21"),
    (no_threads, 200, None, None),
    (no_threads, 200, 16 * KB, None),
    (no_threads, 200, 16 * KB + 1, "H-21"),
    (no_threads, 217, None, None),
    (no_threads, 257, None, "H-21"),
]
NAMES = [f"{kernel.name} {size} KB, dyn_ub={dyn}" for kernel, size, dyn, _ in CASES]


def arrays(size: int) -> tuple[np.ndarray[Any, Any], ...]:
    table = np.arange(ROWS * 32 * size, dtype="float32").reshape(ROWS, 32 * size)
    return table, np.arange(ROWS, dtype="int32")[::-1].copy(), np.zeros_like(table)


def kinds(findings: Any) -> list[str | None]:
    return [f.kind for f in findings if f.level != "note" and f.kind in ("H-20", "H-21", "H-22")]


@pytest.mark.parametrize(("kernel", "size", "dyn_ub", "expected"), CASES, ids=NAMES)
def test_one_verdict(kernel: Any, size: int, dyn_ub: int | None, expected: str | None) -> None:
    table, tokens, out = arrays(size)
    options = {"target": "a5", "dyn_ub": dyn_ub, "cols": 32 * size}
    wanted = [expected] if expected else []
    assert kinds(pto.check(kernel, table, tokens, out, **options).findings) == wanted
    assert kinds(kernel[1](table, tokens, out, engine="machine", **options).findings) == wanted
    for engine in ("reference", "native"):
        if expected:
            with pytest.raises(pto.VerifyError) as refused:
                kernel[1](table, tokens, out, engine=engine, **options)
            assert kinds(refused.value.findings) == wanted
        else:
            kernel[1](table, tokens, out, engine=engine, **options)
            assert np.array_equal(out, table if kernel is no_threads else table[tokens])


@pytest.mark.parametrize(
    ("size", "addr", "dyn_ub", "expected"),
    [(size, kernel is placed, dyn, kind) for kernel, size, dyn, kind in CASES if kernel is not no_threads],
)
def test_eager_calls_agree(size: int, addr: bool, dyn_ub: int | None, expected: str | None) -> None:
    """Without a launch, only sizes that no launch could provide are refused."""
    table, tokens, _ = arrays(size)
    wanted = None if dyn_ub is None and expected == "H-20" else expected
    with pto.target("a5", dyn_ub=dyn_ub), warnings.catch_warnings():
        warnings.simplefilter("error")
        ids = pto.Tile("vec", "int32", 1, 8, addr=size * KB if addr else None).write(tokens[None])
        got = pto.Tile("vec", "float32", 8, 32 * size, addr=0 if addr else None)
        if wanted:
            with pytest.raises(pto.VerifyError) as refused:
                pto.mgather(got, pto.GlobalTensor(table), ids)
            assert kinds(refused.value.findings) == [wanted]
        else:
            pto.mgather(got, pto.GlobalTensor(table), ids)
            assert np.array_equal(got.read(), table[tokens])


def test_a_gather_by_the_cube_core_starts_no_threads() -> None:
    table, tokens, out = arrays(150)
    assert kinds(pto.check(into_l1, table, tokens, out, target="a5", cols=32 * 150).findings) == []


def test_a_single_element_starts_no_threads() -> None:
    with pto.target("a5", dyn_ub=0):
        big = pto.Tile("vec", "float32", 600, 64, valid=(1, 1))
        idx = pto.Tile("vec", "int32", 1, 8, valid=(1, 1)).write([[3]])
        pto.mgather(big, pto.GlobalTensor(np.arange(8, dtype="float32")), idx, coalesce="elem")
        assert big.read() == 3


def test_the_message_has_the_numbers() -> None:
    table, tokens, out = arrays(199)
    (found,) = pto.check(unplaced, table, tokens, out, target="a5", dyn_ub=216 * KB, cols=6368).findings
    assert found.rule == "MG-BUDG-07"
    assert "dyn_ub of at most 17376 bytes: 221184 less 203808 of tiles without an address" in found.message
    assert found.found == "dyn_ub=221184" and "addr=" in found.fix


def test_c_plus_plus_binds_every_tile() -> None:
    """MG-BUDG-08: with TASSIGN nothing is static, so the emitted launch asks for all of it."""
    from ptokit.lang.launch import mode_of
    from ptokit.target import profile
    from ptokit.text.cpp import emit

    table, tokens, out = arrays(199)
    traced = unplaced.trace(unplaced.bind_for_check((table, tokens, out), {"cols": 6368}), mode_of("a5"))
    assert f"kDynUbBytes = {199 * KB + IDS}" in emit(traced.program, profile("a5"))
    with pytest.raises(pto.VerifyError, match="H-21"):
        emit(traced.program, profile("a5"), dyn_ub=199 * KB)
