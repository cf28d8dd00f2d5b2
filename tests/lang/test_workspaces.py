"""Workspaces: the tile that a call gets as `tmp=` is recorded and checked like any tile."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.lang.launch import mode_of
from ptokit.program.ir import Flag, Instr, Program
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.target import profile
from ptokit.text.forms import FORMS, print_program, read_program

WITH_TMP = [name for name in INSTRUCTIONS if "tmp" in inspect.signature(getattr(pto, name)).parameters]


@pto.kernel
def every(x):
    a, b = pto.Tile("vec", "float32", 16, 64), pto.Tile("vec", "float32", 16, 64)
    wide, tmp = pto.Tile("vec", "float32", 16, 64), pto.Tile("vec", "float32", 16, 64)
    column, turned = pto.Tile("vec", "float32", 16, 8, valid=(16, 1)), pto.Tile("vec", "float32", 64, 16)
    narrow = pto.Tile("vec", "int16", 16, 64)
    mask, word = pto.Tile("vec", "uint8", 16, 32), pto.Tile("vec", "uint32", 1, 16)
    row, line = pto.Tile("vec", "int32", 1, 64), pto.Tile("vec", "float32", 1, 64)
    ids = pto.Tile("vec", "int32", 16, 64)
    more, again = pto.Tile("vec", "int32", 16, 64), pto.Tile("vec", "int32", 16, 64)
    pairs, ranks = pto.Tile("vec", "float32", 1, 128), pto.Tile("vec", "uint32", 1, 64)
    counts = pto.Tile("vec", "int32", 16, 8, valid=(16, 1))
    each = pto.Tile("vec", "float32", 16, 1, blayout="col_major")
    pto.tload(a, x)
    pto.tload(b, x)
    pto.texpands(ids, 0)
    pto.texpands(each, 1)
    pto.texpands(line, 1)
    pto.texpands(ranks, 1)
    pto.tcmp(mask, a, b)
    pto.tci(row, 0, tmp=tmp)
    pto.tcvt(narrow, a, saturation="off", tmp=tmp)
    pto.tsel(wide, mask, a, b, tmp=word)
    pto.tsels(wide, mask, a, 1, tmp=tmp)
    for call in (pto.trowsum, pto.trowprod, pto.trowmax, pto.trowmin):
        call(column, a, tmp=tmp)
    for call in (pto.trowargmax, pto.trowargmin):
        call(counts, a, tmp=tmp)
    for call in (pto.tcolargmax, pto.tcolargmin):
        call(row, a, tmp=tmp)
    pto.trsqrt(wide, a, tmp=tmp)
    pto.tsort32(pairs, line, ranks, tmp=tmp[0:1])
    pto.tprelu(wide, a, b, tmp=mask)
    pto.txor(more, ids, ids, tmp=again)
    pto.txors(more, ids, 3, tmp=again)
    pto.ttrans(turned, a, tmp=tmp)
    pto.trowexpandmul(wide, a, each, tmp=tmp)
    pto.trowexpandsub(wide, a, each, tmp=tmp)
    pto.trowexpanddiv(wide, a, each, tmp=tmp)
    pto.trowexpandadd(wide, a, each, tmp=tmp)
    pto.trowexpandmax(wide, a, each, tmp=tmp)
    pto.trowexpandmin(wide, a, each, tmp=tmp)
    pto.trowexpandexpdif(wide, a, each, tmp=tmp)
    pto.tcolsum(line, a, tmp=tmp)
    pto.tgather(wide, a, ids, tmp=tmp[:, 0:32])
    for call in (pto.trem, pto.tpow):
        call(wide, a, b, tmp=tmp)
    for call in (pto.trems, pto.tpows):
        call(wide, a, 2, tmp=tmp)
    bytes8, byte = pto.Tile("vec", "int8", 16, 64), pto.Tile("vec", "uint8", 16, 64)
    sums = pto.Tile("vec", "float16", 16, 64)
    pto.tadddeqrelu(sums, ids, ids, 0.5, tmp=again)
    pto.tquant(bytes8, a, each, tmp=tmp)
    pto.tquant_asym(byte, a, each, each, tmp=tmp)
    merged, other = pto.Tile("vec", "float32", 1, 256), pto.Tile("vec", "float32", 1, 64)
    pto.texpands(other, 1)
    pto.tmrgsort2(merged[:, 0:128], line, other, tmp=tmp[0:1])
    pto.tmrgsort3(merged[:, 0:192], line, other, line, tmp=tmp[0:1])
    pto.tmrgsort4(merged, line, other, line, other, exhausted=True, tmp=tmp[0:1])


def program(kernel: Any = every, target: str = "cpu") -> Program:
    return kernel.trace(kernel.bind((np.zeros((16, 64), "float32"),), {}), mode_of(target)).program


def test_every_call_records_its_workspace() -> None:
    found = {stmt.name for stmt in program().body if isinstance(stmt, Instr) and stmt.workspace is not None}
    assert found == set(WITH_TMP) == {name for name, each in INSTRUCTIONS.items() if each.workspace}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_keeps_it(form: Any) -> None:
    text = print_program(program(), form)
    assert read_program(text) == program()
    assert "ptokit.workspace" not in text


def tile(**options: Any) -> pto.Tile:
    return pto.Tile("vec", "float32", 16, 16, **options).write(1)


def long_rows(**options: Any) -> pto.Tile:
    """Rows of more than 256 bytes, whose sums need the workspace on A2/A3."""
    return pto.Tile("vec", "float32", 16, 72, **options).write(1)


@pytest.mark.clause("CP-TMP-01")
def test_a_small_workspace_is_remarked_on_where_it_is_used() -> None:
    for target, count in (("cpu", 0), ("a5", 0), ("a2a3", 1)):
        with pto.target(target):
            small = pto.Tile("vec", "float32", 16, 64)
            found = pto.trowsum(tile(), long_rows(), tmp=small).findings
            assert [(each.rule, each.level, each.operand) for each in found] == [("CP-TMP-01", "note", "tmp")] * count


def test_what_is_no_tile_is_refused() -> None:
    with pytest.raises(TypeError, match=r"trowsum: tmp must be a pto\.Tile"):
        pto.trowsum(tile(), tile(), tmp=np.zeros(3))  # type: ignore[arg-type]
    array = pto.GlobalTensor(np.zeros((16, 16), "float32"))
    with pytest.raises(TypeError, match=r"trowsum: tmp must be a pto\.Tile"):
        pto.trowsum(tile(), tile(), tmp=array)  # type: ignore[arg-type]


def test_it_shares_no_bytes_with_the_operands_where_it_is_used() -> None:
    with pto.target("a2a3"):
        src, dst = long_rows(), tile()
        pto.tsel(dst, pto.Tile("vec", "uint8", 16, 32).write(1), tile(), tile(), tmp=tile())
        for other in (src, dst, src[0:8]):
            with pytest.raises(pto.VerifyError, match=r"A-38|SL-05"):
                pto.trowsum(dst, src, tmp=other)
        placed = long_rows(addr=0x4000)
        with pytest.raises(pto.VerifyError, match="A-38"):
            pto.trowsum(dst, placed, tmp=tile(addr=0x4100))
        pto.trowsum(dst, tile(), tmp=dst)  # a row of one step is summed without it


@pytest.mark.clause("CP-TMP-01", "A-38")
@pytest.mark.parametrize("target", ["cpu", "a5", "host"])
def test_it_may_lie_anywhere_where_it_is_ignored(target: str) -> None:
    with pto.target(target):
        for other in ("src", "dst", "slice"):
            src, dst = tile(), pto.Tile("vec", "float32", 16, 16, valid=(16, 1))
            pto.trowsum(dst, src, tmp={"src": src, "dst": dst, "slice": src[0:8]}[other])
            assert (dst.read() == 16).all()
        done = pto.trowsum(dst, tile(addr=0x4000), tmp=tile(addr=0x4100))
        assert [(each.rule, each.level) for each in done.findings] == [("A-38", "note")]
        line = pto.Tile("vec", "float32", 1, 16)
        if target == "a5":  # which adds rows in pairs there
            with pytest.raises(pto.VerifyError, match="A-38"):
                pto.tcolsum(line, src, tmp=src)
        else:
            pto.tcolsum(line, src, tmp=src)
        with pytest.raises(pto.VerifyError, match="A-38"):  # the operands themselves lie apart
            pto.trowsum(tile(addr=0x4200), tile(addr=0x4000), tmp=tile())


def test_it_counts_for_the_memory_of_a_call() -> None:
    with pto.target("a2a3"):
        half = [pto.Tile("vec", "float32", 16, 2048) for _ in range(2)]
        half[0].write(1)
        pto.trowsum(tile(), half[0])
        with pytest.raises(pto.VerifyError, match="MG-BUDG-02"):
            pto.trowsum(tile(), half[0], tmp=half[1])


@pto.kernel
def reused(x, y):
    src, room = pto.Tile("vec", "float32", 16, 72), pto.Tile("vec", "float32", 16, 72)
    column = pto.Tile("vec", "float32", 16, 8, valid=(16, 1))
    pto.tload(src, x)
    pto.trowsum(column, src, tmp=room)
    pto.tload(room, x)
    pto.tstore(y, room)


@pto.kernel(mode="manual")
def raced(x, y):
    src, room = pto.Tile("vec", "float32", 16, 72, addr=0), pto.Tile("vec", "float32", 16, 72, addr=0x2000)
    column = pto.Tile("vec", "float32", 16, 8, valid=(16, 1), addr=0x4000)
    pto.tload(src, x)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.trowsum(column, src, tmp=room)
    pto.tload(room, x)
    pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)
    pto.tstore(y, room)


@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_it_is_ordered_among_pipes(engine: str) -> None:
    x, y = np.ones((16, 72), "float32"), np.zeros((16, 72), "float32")
    with pto.target("a2a3"):
        run = reused[1](x, y, engine=engine)
    assert (y == x).all()
    assert run.findings == ()
    plain = reused.trace(reused.bind((x, y), {}), mode_of("a2a3")).program
    body = order(place(plain, profile("a2a3")).program, profile("a2a3")).body
    named = [stmt.name if isinstance(stmt, Instr) else stmt for stmt in body]
    between = named[named.index("trowsum") : len(named) - named[::-1].index("tload")]
    assert [(flag.src, flag.dst) for flag in between if isinstance(flag, Flag) and flag.action == "wait"] == [
        ("V", "MTE2")
    ]


def test_the_machine_sees_a_write_that_nothing_orders_after_it() -> None:
    x, y = np.ones((16, 72), "float32"), np.zeros((16, 72), "float32")
    with pto.target("a2a3"):
        report = raced[1](x, y, engine="machine")
    found = report.findings[0]
    assert found.level == "error"
    assert "tload writes room (dst) on MTE2" in found.message
    assert "after trowsum's write of room (tmp) on V" in found.message


@pto.kernel
def leftover(x, y):
    src, room = pto.Tile("vec", "float32", 16, 72), pto.Tile("vec", "float32", 16, 72)
    column = pto.Tile("vec", "float32", 16, 8, valid=(16, 1))
    pto.tload(src, x)
    pto.tload(room, x)
    pto.trowsum(column, src, tmp=room)
    pto.tstore(y, room)


def test_the_machine_reports_a_read_of_what_a_workspace_is_left_with() -> None:
    x, y = np.ones((16, 72), "float32"), np.zeros((16, 72), "float32")
    with pto.target("a2a3"):
        report = leftover[1](x, y, engine="machine")
    assert [finding.operand for finding in report.findings] == ["src"]
