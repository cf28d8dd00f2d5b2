"""One cause is one finding: it names the accesses that meet, and its fix, followed to the letter, cures the program."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.finding import Finding
from ptokit.lang.loaded import from_text
from ptokit.machine.report import MachineReport
from tests.snippet import compiled

TARGETS = ("a2a3", "a5")
STATEMENT = r"pto\.\w+\([^()]*\)"
STEP = re.compile(
    rf"({STATEMENT}) (?:(after|before) (?:line (\d+)|the (?:loop|branch)(?: \(line (\d+)\))?)|at line (\d+)|here)"
)


def kernel_of(source: str) -> Any:
    """The kernel of a source text."""
    names: dict[str, Any] = {}
    exec(compiled(source, f"kernel {hash(source)}"), names)
    return names["kernel"]


def launched(source: str, target: str, *given: Any, **options: Any) -> MachineReport:
    return kernel_of(source)[1](*given, target=target, engine="machine", options=pto.MachineOptions(**options))


def only(report: MachineReport) -> Finding:
    """The only finding."""
    (finding,) = report.hazards
    return finding


def end_of(lines: list[str], number: int) -> int:
    """The last line of a statement, with its body."""
    indent, last = len(lines[number - 1]) - len(lines[number - 1].lstrip()), number
    for k in range(number, len(lines)):
        if lines[k].strip() and len(lines[k]) - len(lines[k].lstrip()) <= indent:
            break
        last = k + 1
    return last


def fixed(source: str, finding: Finding) -> str:
    """The source with the fix of a finding."""
    lines, around = source.splitlines(), 0
    ahead: dict[int, list[str]] = {}
    behind: dict[int, list[str]] = {}
    assert finding.where is not None
    steps = STEP.findall(finding.fix)
    assert steps, finding.fix
    for statement, side, line, body, instead in steps:
        at = int(line or body or instead or around or finding.where.line)
        around = int(body) if side == "before" and body else around
        text = " " * (len(lines[at - 1]) - len(lines[at - 1].lstrip())) + statement
        if not side:
            lines[at - 1] = text
        elif side == "before":
            ahead.setdefault(at, []).append(text)
        else:
            behind.setdefault(end_of(lines, at), []).append(text)
    written = [text for k, each in enumerate(lines, 1) for text in (*ahead.get(k, ()), each, *behind.get(k, ()))]
    return "\n".join(written) + "\n"


def given(name: str = "") -> tuple[Any, ...]:
    """Arguments of the programs below."""
    x, y = np.arange(2048, dtype="float32").reshape(64, 32), np.zeros((64, 32), "float32")
    halves = np.ones((32, 32), "float16"), np.ones((32, 32), "float16")
    return (*halves, np.zeros((32, 32), "float32"), np.zeros((32, 32), "float32")) if name == "cores" else (x, y)


# --- event ids

LOOP = """
import ptokit as pto
@pto.kernel(mode="manual")
def kernel(x, y):
    a = pto.Tile("vec", "float32", 8, 32, addr=0)
    b = pto.Tile("vec", "float32", 8, 32, addr=1024)
    pto.set_flag("V", "MTE2", 0)  # free
    pto.set_flag("MTE3", "V", 0)  # stored
    for i in pto.range(5):
        pto.wait_flag("V", "MTE2", 0)  # wait free
        pto.tload(a, x[i * 8 : i * 8 + 8])
        pto.set_flag("MTE2", "V", 0)  # loaded
        pto.wait_flag("MTE2", "V", 0)  # wait loaded
        pto.wait_flag("MTE3", "V", 0)  # wait stored
        pto.tadd(b, a, a)
        pto.set_flag("V", "MTE2", 0)  # used
        pto.set_flag("V", "MTE3", 0)  # added
        pto.wait_flag("V", "MTE3", 0)  # wait added
        pto.tstore(y[i * 8 : i * 8 + 8], b)
        pto.set_flag("MTE3", "V", 0)  # gone
    pto.wait_flag("V", "MTE2", 0)  # drain
    pto.wait_flag("MTE3", "V", 0)  # drain stores
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "line",
    ["free", "stored", "loaded", "wait loaded", "added", "wait added", "gone", "drain", "drain stores"],
)
def test_a_wrong_event_id_is_one_finding_with_the_right_one(line: str, target: str) -> None:
    source = re.sub(rf", 0\)  # {line}$", f", 1)  # {line}", LOOP, flags=re.M)
    assert source != LOOP and launched(LOOP, target, *given()).ok
    finding = only(launched(source, target, *given()))
    assert "waits forever for the flag" in finding.message
    assert launched(fixed(source, finding), target, *given()).ok


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("id_", ["0", "1"])
def test_flags_that_alternate_are_not_taken_for_wrong_ids(id_: str, target: str) -> None:
    source = """
import ptokit as pto
@pto.kernel(mode="manual")
def kernel(x, y):
    pto.set_flag("MTE3", "MTE2", ID)
    for i in pto.range(5):
        a = pto.Tile("vec", "float32", 8, 32, addr=i % 2 * 1024)
        pto.wait_flag("MTE3", "MTE2", i % 2)
        pto.tload(a, x[i * 8 : i * 8 + 8])
        pto.set_flag("MTE2", "MTE3", i % 2)
        pto.wait_flag("MTE2", "MTE3", i % 2)
        pto.tstore(y[i * 8 : i * 8 + 8], a)
        pto.set_flag("MTE3", "MTE2", i % 2)
    pto.wait_flag("MTE3", "MTE2", 0)
    pto.wait_flag("MTE3", "MTE2", 1)
""".replace("ID", id_)
    finding = only(launched(source, target, *given()))
    missing = 1 - int(id_)
    assert finding.fix.startswith(f'pto.set_flag("MTE3", "MTE2", {missing}) before the loop')
    assert launched(fixed(source, finding), target, *given()).ok


# --- one flag for several accesses


@pytest.mark.parametrize("target", TARGETS)
def test_a_flag_that_orders_two_loads_is_missed_once(target: str) -> None:
    source = """
import ptokit as pto
@pto.kernel(mode="manual")
def kernel(x, y):
    a = pto.Tile("vec", "float32", 8, 32, addr=0)
    b = pto.Tile("vec", "float32", 8, 32, addr=1024)
    pto.tload(a, x[0:8])
    pto.tload(b, x[8:16])
    pto.tadd(b, b, a)
    pto.barrier("ALL")
    pto.tstore(y[0:8], b)
"""
    finding = only(launched(source, target, *given()))
    assert finding.fix == 'pto.set_flag("MTE2", "V", 0) after line 8, pto.wait_flag("MTE2", "V", 0) before line 9'
    assert launched(fixed(source, finding), target, *given()).ok
    assert len(launched(source, target, *given(), consequences=True).hazards) > 1


@pytest.mark.parametrize("target", TARGETS)
def test_what_another_order_implies_is_not_reported(target: str) -> None:
    source = """
import ptokit as pto
@pto.kernel(mode="manual")
def kernel(x, y):
    a = pto.Tile("vec", "float32", 8, 32, addr=0)
    for i in pto.range(4):
        with pto.when(i % 2 == 0):
            pto.tload(a, x[i * 8 : i * 8 + 8])
            pto.set_flag("MTE2", "V", 0)
            pto.wait_flag("MTE2", "V", 0)
            pto.tadds(a, a, 1)
            pto.set_flag("V", "MTE3", 0)
            pto.wait_flag("V", "MTE3", 0)
            pto.tstore(y[i * 8 : i * 8 + 8], a)
"""
    finding = only(launched(source, target, *given()))  # the load must wait for the store, which waits for V
    assert finding.ends is not None and finding.ends[0].instruction == "tstore"
    assert launched(fixed(source, finding), target, *given()).ok


def test_the_read_of_an_index_counts_before_others() -> None:
    source = """
import ptokit as pto
@pto.kernel(mode="manual")
def kernel(x, y, ids):
    i = pto.Tile("vec", "int32", 1, 8, addr=0)
    a = pto.Tile("vec", "float32", 8, 32, addr=1024)
    pto.tload(i, ids)
    pto.tload(a, x[0:8])
    pto.mscatter(y, a, i, coalesce="row")
"""
    arrays = (*given(), np.arange(8, dtype="int32"))
    finding = only(launched(source, "a5", *arrays))
    assert finding.kind == "H-24" and 'pto.set_flag("MTE2", "V", 0) after line 8' in finding.fix
    assert launched(fixed(source, finding), "a5", *arrays).ok


def test_a_fix_around_a_branch_is_behind_its_body() -> None:
    source = """
import ptokit as pto
@pto.kernel(mode="manual")
def kernel(x, y):
    a = pto.Tile("vec", "float32", 8, 32, addr=0)
    for i in pto.range(4):
        with pto.when(i < 2):
            pto.tload(a, x[i * 8 : i * 8 + 8])
        pto.tstore(y[i * 8 : i * 8 + 8], a)
        pto.barrier("ALL")
"""
    finding = only(launched(source, "a5", *given()))
    assert "after the branch (line 7)" in finding.fix
    assert launched(fixed(source, finding), "a5", *given()).ok


# --- the operand that is meant

WORKSPACE = """
import ptokit as pto
@pto.kernel(mode="manual")
def kernel(x, y):
    a = pto.Tile("vec", "float32", 8, 32, addr=0)
    room = pto.Tile("vec", "float32", 8, 32, addr=1024)
    b = pto.Tile("vec", "float32", 8, 32, addr=1024)
    c = pto.Tile("vec", "float32", 1, 32, addr=4096)
    pto.tload(a, x[0:8])
    pto.barrier("ALL")
    pto.tcolsum(c, a, tmp=room)
    pto.tload(b, x[8:16])
    pto.barrier("ALL")
    pto.tadd(b, b, b)
    pto.barrier("ALL")
    pto.tstore(y[0:8], b)
"""


@pytest.mark.parametrize("target", TARGETS)
def test_an_earlier_access_to_a_workspace_is_named(target: str) -> None:
    finding = only(launched(WORKSPACE, target, *given()))
    assert "tcolsum's write of room (tmp) on V (line 11)" in finding.message
    assert launched(fixed(WORKSPACE, finding), target, *given()).ok


RING = """
import ptokit as pto
@pto.kernel(mode="manual")
def kernel(x, y):
    w = pto.Tile("vec", "float32", 8, 32, addr=ADDRESS)
    pto.tload(w, x[56:64])
    pto.set_flag("V", "MTE2", 0)
    pto.set_flag("V", "MTE2", 1)
    for i in pto.range(4):
        a = pto.Tile("vec", "float32", 8, 32, addr=i % 2 * 1024)
        b = pto.Tile("vec", "float32", 8, 32, addr=4096 + i * 1024)
        pto.wait_flag("V", "MTE2", i % 2)
        pto.tload(a, x[i * 8 : i * 8 + 8])
        pto.set_flag("MTE2", "V", i % 2)
        pto.wait_flag("MTE2", "V", i % 2)
        pto.tmul(b, a, w)
        pto.set_flag("V", "MTE2", i % 2)
        pto.set_flag("V", "MTE3", i)
        pto.wait_flag("V", "MTE3", i)
        pto.tstore(y[i * 8 : i * 8 + 8], b)
    pto.wait_flag("V", "MTE2", 0)
    pto.wait_flag("V", "MTE2", 1)
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("address", [1024, 1536])
def test_a_race_between_tiles_that_must_not_overlap_is_their_overlap(address: int, target: str) -> None:
    assert launched(RING.replace("ADDRESS", "2048"), target, *given()).ok
    source = RING.replace("ADDRESS", str(address))
    assert only(launched(source, target, *given())).kind == "H-38"
    everything = launched(source, target, *given(), consequences=True).hazards
    (race,) = [finding for finding in everything if finding.ends and finding.ends[1].instruction == "tload"]
    assert race.ends is not None and [end.name for end in race.ends] == ["w", "a"]  # not `a` one iteration before


@pytest.mark.parametrize("oob", ["clamp", "wrap", "undefined"])
@pytest.mark.parametrize("target", TARGETS)
def test_values_of_an_index_that_nothing_has_written_are_not_reported_too(oob: str, target: str) -> None:
    source = f"""
import ptokit as pto
@pto.kernel
def kernel(x, y):
    i = pto.Tile("vec", "int32", 1, 8)
    a = pto.Tile("vec", "float32", 8, 32)
    pto.mgather(a, x, i, oob="{oob}")
    pto.tstore(y[0:8], a)
"""
    assert only(launched(source, target, *given())).kind == "H-42"
    assert len(launched(source, target, *given(), consequences=True).hazards) == 2


# --- two cores

CORES = """
import ptokit as pto
@pto.kernel(mode="manual")
def kernel(x, w, shared, y):
    nz = {"blayout": "col_major", "slayout": "row_major"}
    a = pto.Tile("mat", "float16", 32, 32, addr=0, **nz)
    b = pto.Tile("mat", "float16", 32, 32, addr=2048, **nz)
    left = pto.Tile("left", "float16", 32, 32, addr=0)
    right = pto.Tile("right", "float16", 32, 32, addr=0)
    c = pto.Tile("acc", "float32", 32, 32, addr=0)
    v = pto.Tile("vec", "float32", 32, 32, addr=0)
    pto.tload(a, x)
    pto.tload(b, w)
    pto.set_flag("MTE2", "MTE1", 0)
    pto.wait_flag("MTE2", "MTE1", 0)
    pto.tmov(left, a)
    pto.tmov(right, b)
    pto.set_flag("MTE1", "M", 0)
    pto.wait_flag("MTE1", "M", 0)
    pto.tmatmul(c, left, right)
    pto.set_flag("M", "FIX", 0)
    pto.wait_flag("M", "FIX", 0)
    pto.tstore(shared, c)
    pto.sync_set("FIX", 0)
    pto.sync_wait("AIV.MTE2", 0)
    pto.tload(v, shared)
    pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)
    pto.tstore(y, v)
"""
SET, WAIT = '    pto.sync_set("FIX", 0)\n', '    pto.sync_wait("AIV.MTE2", 0)\n'


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("old", "new"),
    [(SET + WAIT, ""), (WAIT, ""), (WAIT, WAIT.replace("0", "1")), (SET, SET.replace("0", "1"))],
    ids=["neither", "no wait", "another id awaited", "another id set"],
)
def test_a_missing_hand_over_is_one_finding_with_its_lines(old: str, new: str, target: str) -> None:
    assert launched(CORES, target, *given("cores")).ok
    source = CORES.replace(old, new)
    finding = only(launched(source, target, *given("cores")))
    assert launched(fixed(source, finding), target, *given("cores")).ok


@pytest.mark.parametrize("target", TARGETS)
def test_a_wait_for_the_other_core_without_a_set_is_one_finding(target: str) -> None:
    assert "waits forever for flag 0" in only(launched(CORES.replace(SET, ""), target, *given("cores"))).message


TEXT = """module {
  func.func @handed(%x: !pto.ptr<f16>, %out: !pto.ptr<f16>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %z = arith.constant 0 : i64
    %xv = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf16>
    %ov = pto.make_tensor_view %out, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf16>
    %xp = pto.partition_view %xv, offsets = [%c0, %c0], sizes = [%c16, %c16]
      : !pto.tensor_view<16x16xf16> -> !pto.partition_tensor_view<16x16xf16>
    %op = pto.partition_view %ov, offsets = [%c0, %c0], sizes = [%c16, %c16]
      : !pto.tensor_view<16x16xf16> -> !pto.partition_tensor_view<16x16xf16>
    %v = pto.alloc_tile addr = %z : !pto.tile_buf<vec, 16x16xf16>
    %m = pto.alloc_tile addr = %z : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>
    pto.tload ins(%xp : !pto.partition_tensor_view<16x16xf16>) outs(%v : !pto.tile_buf<vec, 16x16xf16>)
    pto.set_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]
    pto.tstore ins(%v : !pto.tile_buf<vec, 16x16xf16>) outs(%op : !pto.partition_tensor_view<16x16xf16>)
    pto.tload ins(%op : !pto.partition_tensor_view<16x16xf16>)
      outs(%m : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>)
    return
  }
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_the_hand_over_of_a_text_is_in_its_syntax(target: str) -> None:
    kernel = from_text(TEXT, "handed.pto")
    arrays = [np.ones((16, 16), "float16") for _ in range(2)]
    finding = only(kernel[1](*arrays, target=target, engine="machine"))
    assert finding.rule == "KN-16"
    assert finding.fix == "pto.sync.set <PIPE_MTE3>, 0 after line 18, pto.sync.wait <PIPE_MTE2>, 0 before line 19"


@pto.kernel(mode="manual")
def alternating(x, out):
    tile, total = pto.Tile("vec", "float32", 8, 16), pto.Tile("vec", "float32", 8, 16, addr=4096)
    for p in range(2):
        pto.set_flag("V", "MTE2", p)
    for i in pto.range(4):
        pto.tassign(tile, (i % 2) * 512)
        pto.wait_flag("V", "MTE2", i % 2)
        pto.tload(tile, x[8 * i : 8 * i + 8])
        pto.set_flag("MTE2", "V", i % 2)
        pto.tadds(total, tile, 1.0)
        pto.set_flag("V", "MTE2", i % 2)
        pto.barrier("ALL")
        pto.tstore(out[8 * i : 8 * i + 8], total)
        pto.barrier("ALL")
    for p in range(2):
        pto.wait_flag("V", "MTE2", p)


@pto.kernel(mode="manual")
def alternating_unrolled(x, out):
    tiles = [pto.Tile("vec", "float32", 8, 16, addr=512 * p) for p in range(2)]
    for i in range(2):
        pto.tload(tiles[i], x[8 * i : 8 * i + 8])
        pto.set_flag("MTE2", "MTE3", i)
        pto.tstore(out[8 * i : 8 * i + 8], tiles[i])


@pytest.mark.parametrize(("kernel", "event"), [(alternating, "i % 2"), (alternating_unrolled, "<as in line ")])
def test_a_wait_for_a_computed_id_is_proposed_as_it_is_computed(kernel: Any, event: str) -> None:
    x = np.ones((32, 16), "float32")
    report = kernel[1](x, np.zeros_like(x), target="a5", engine="machine")
    assert any(event in finding.fix for finding in report.findings if finding.level == "error")
