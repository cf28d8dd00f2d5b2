"""What a finding says: names, bytes and rows, blocks and iterations, calls, one finding for one cause, and a fix."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.finding import ConflictAccess, Finding
from ptokit.lang.loaded import TextKernel, from_text
from ptokit.machine.report import MachineReport
from ptokit.render.findings import finding_text
from tests.corpus.hazards.case import Case
from tests.corpus.hazards.everything import CASES as ALL_CASES
from tests.loops import FULL
from tests.machine.manual_programs import Sample, sample
from tests.snippet import compiled

ROWS, COLS = 8, 32
NBYTES = ROWS * COLS * 4


def arrays(rows: int = 64) -> tuple[Any, Any]:
    """A source and a destination."""
    return np.arange(rows * COLS, dtype="float32").reshape(rows, COLS), np.zeros((rows, COLS), "float32")


def launched(kernel: Any, *given: object, grid: int = 1, target: str = "a5", **options: Any) -> MachineReport:
    return kernel[grid](*given, target=target, engine="machine", options=pto.MachineOptions(**options))


def races(report: MachineReport) -> list[Finding]:
    return [finding for finding in report.hazards if len(finding.ends) == 2]


def ends(finding: Finding) -> tuple[ConflictAccess, ConflictAccess]:
    first, then = finding.ends
    return first, then


def line_in(text: str, part: str) -> int:
    """The line of a text that contains a part of it."""
    return 1 + text[: text.index(part)].count("\n")


def kernel_of(source: str) -> Any:
    """The kernel of a source text."""
    names: dict[str, Any] = {}
    exec(compiled(source, f"kernel {hash(source)}"), names)
    return names["kernel"]


def line_with(text: str) -> int:
    """The line of this file that contains a text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.strip() == text]
    return number


# --- names, bytes, blocks, iterations


@pto.kernel(mode="manual")
def sometimes(x, y, n):
    """The flag between the load and the store is missing in some blocks and iterations."""
    lines = pto.Tile("vec", "float32", ROWS, COLS, addr=NBYTES)
    block = pto.block_idx()
    for outer in pto.range(2):
        for i in pto.range(n):
            row = ((block * 2 + outer) * n + i) * ROWS
            pto.tload(lines, x[row : row + ROWS])
            with pto.when((block % 3) * (i % 2) == 0):
                pto.set_flag("MTE2", "MTE3", 0)
                pto.wait_flag("MTE2", "MTE3", 0)
            pto.tstore(y[row : row + ROWS], lines)  # sometimes too early
            pto.set_flag("MTE3", "MTE2", 1)
            pto.wait_flag("MTE3", "MTE2", 1)


def test_a_race_names_tiles_bytes_rows_and_its_first_block_and_iteration_and_counts_all() -> None:
    grid, n = 7, 3
    x, y = arrays(grid * 2 * n * ROWS)
    report = launched(sometimes, x, y, n, grid=grid)
    shown = [(b, o, i) for b in range(grid) for o in range(2) for i in range(n) if b % 3 * (i % 2) != 0]
    (finding,) = races(report)
    seen = finding.seen
    assert seen is not None
    assert (seen.block, seen.iteration) == (shown[0][0], (("outer", shown[0][1]), ("i", shown[0][2])))
    assert (seen.times, seen.blocks, seen.grid) == (len(shown), len({b for b, *_ in shown}), grid)
    first, then = ends(finding)
    assert (first.name, first.operand, then.name, then.operand) == ("lines", "dst", "lines", "src")
    assert (first.instruction, first.how, first.pipe) == ("tload", "write", "AIV.MTE2")
    assert (then.instruction, then.how, then.pipe, then.gate) == ("tstore", "read", "AIV.MTE3", "AIV.MTE3")
    assert first.bytes == then.bytes == (NBYTES, 2 * NBYTES) and first.rows == then.rows == (0, ROWS - 1)
    assert first.block == then.block == seen.block and first.iteration == then.iteration == seen.iteration
    assert (
        finding.message.startswith("tstore reads lines (src) on MTE3") and "tload's write of lines" in finding.message
    )
    assert finding.details == (
        "rows 0..7 of lines, UB 0x400..0x800",
        f"in {seen.blocks} of 7 blocks, {seen.times} times; first: block 1, outer=0, i=1",
    )


@pto.kernel(mode="manual")
def halves(x, y):
    """A store of other rows than those that are loaded last."""
    lines = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    pto.tload(lines, x[0:ROWS])
    pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)
    pto.tload(lines[4:8], x[8:12])
    pto.tstore(y[0:3], lines[2:5])


def test_only_the_bytes_that_both_accesses_touch_are_named() -> None:
    (finding,) = races(launched(halves, *arrays()))
    assert [(end.bytes, end.rows) for end in ends(finding)] == [((4 * COLS * 4, 5 * COLS * 4), (4, 4))] * 2
    assert finding.details == ("row 4 of lines, UB 0x200..0x280",)


@pto.kernel(mode="manual")
def carried(x, y, n):
    """Nothing makes a load wait for the store of the iteration before."""
    lines = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    for i in pto.range(n):
        pto.tload(lines, x[i * ROWS : (i + 1) * ROWS])
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.tstore(y[i * ROWS : (i + 1) * ROWS], lines)


def test_two_iterations_are_both_named() -> None:
    (finding,) = races(launched(carried, *arrays(), 5))
    assert [end.iteration for end in ends(finding)] == [(("i", 0),), (("i", 1),)]
    assert finding.seen is not None and finding.seen.times == 4
    assert finding.details[1] == "in 1 of 1 block, 4 times; first: block 0, i=1 (tstore's read: block 0, i=0)"


@pto.kernel(mode="manual")
def everywhere(x, y):
    """Every block stores the same rows, after rows of its own."""
    lines = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    for i in pto.range(2):
        pto.tload(lines, x[0:ROWS])
        pto.barrier("ALL")
        row = pto.block_idx() * (1 - i) * ROWS + i * 40
        pto.tstore(y[row : row + ROWS], lines)
        pto.barrier("ALL")


def test_blocks_that_meet_are_both_named_with_the_rows_of_the_array() -> None:
    (finding,) = races(launched(everywhere, *arrays(), grid=3))
    first, then = ends(finding)
    assert (first.name, then.name, first.memory) == ("y", "y", "GM")
    assert ((first.block, first.iteration), (then.block, then.iteration)) == ((0, (("i", 1),)), (1, (("i", 1),)))
    assert then.rows == (40, 47) and then.bytes == (40 * COLS * 4, 48 * COLS * 4)
    assert finding.seen is not None and (finding.seen.times, finding.seen.blocks) == (2, 2)


@pto.kernel(mode="manual")
def twice(x, y, n):
    """Two loops whose variables have one name."""
    lines = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    for i in pto.range(n):
        pto.tload(lines, x[i * ROWS : (i + 1) * ROWS])
        pto.barrier("ALL")
    for i in pto.range(n):
        pto.tstore(y[i * ROWS : (i + 1) * ROWS], lines)
    pto.tload(lines, x[0:ROWS])


def test_loop_variables_keep_the_names_of_the_source() -> None:
    (finding,) = races(launched(twice, *arrays(), 3))
    assert ends(finding)[0].iteration == (("i", 2),)


@pto.kernel(mode="manual")
def without_names(x, y):
    """A tile that is bound to no name, and one that a function makes."""
    made = tile_at(NBYTES)
    pto.tload(made, x[0:ROWS])
    pto.tload({0: pto.Tile("vec", "float32", ROWS, COLS, addr=0)}[0], x[0:ROWS])
    pto.tstore(y[0:ROWS], made)
    pto.barrier("ALL")
    pto.tadd(made, pto.Tile("vec", "float32", ROWS, COLS, addr=2 * NBYTES), made)


def tile_at(address: int) -> Any:
    """A tile."""
    return pto.Tile("vec", "float32", ROWS, COLS, addr=address)


def test_a_tile_without_a_name_is_named_by_kind_and_address_and_one_of_a_function_by_its_caller() -> None:
    race, unwritten = launched(without_names, *arrays()).hazards
    assert ends(race)[1].name == "made"
    assert unwritten.message.startswith("tadd reads the vec tile at 0x800 (src0)")


@pto.kernel(mode="manual")
def partly(x, y, rows: pto.const, cols: pto.const, first: pto.const):
    """A load of a part; all rows from the first on are read."""
    lines = pto.Tile("vec", "float32", ROWS, COLS, valid=(rows, cols), addr=NBYTES)
    copied = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    pto.tload(lines, x[0:rows, 0:cols])
    pto.barrier("ALL")
    lines.valid = (ROWS, COLS)
    pto.tmov(copied[first:ROWS], lines[first:ROWS])


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize(("rows", "cols"), [(6, COLS), (1, COLS), (ROWS, 24), (6, 8), (ROWS, COLS)])
def test_a_read_of_undefined_memory_says_which_rows_or_bytes(rows: int, cols: int, first: int, target: str) -> None:
    found = [
        finding
        for finding in launched(partly, *arrays(), rows, cols, first, target=target).hazards
        if finding.kind == "H-36"
    ]
    lost = [r * COLS + c for r in range(first, ROWS) for c in range(COLS) if r >= rows or c >= cols]
    assert len(found) == bool(lost)
    for finding in found:
        (part,) = finding.ends
        assert part.bytes == (NBYTES + 4 * lost[0], NBYTES + 4 * (lost[-1] + 1))
        assert part.rows == ((max(first, rows), ROWS - 1) if cols == COLS else None)
        assert f"{4 * len(lost)} of {4 * (ROWS - first) * COLS} bytes" in finding.message
        start, end = part.bytes
        named = "lines" if part.rows is None else f"rows {part.rows[0]}..{part.rows[1]} of lines"
        assert finding.details[0] == f"{named}, {part.memory} {start:#x}..{end:#x}"


@pto.kernel(mode="manual")
def computed(x, y, n):
    """A tile at a computed address destroys rows 3 and 4 of another one."""
    lines = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    pto.tload(lines, x[0:ROWS])
    pto.barrier("ALL")
    for i in pto.range(n):
        part = pto.Tile("vec", "float32", 2, COLS, addr=(3 + i) * COLS * 4)
        pto.tload(part, x[0:2])
    pto.barrier("ALL")
    pto.tstore(y[0:ROWS], lines)


def test_a_read_of_overwritten_memory_says_which_rows() -> None:
    (finding,) = launched(computed, *arrays(), 1).hazards
    assert finding.kind == "H-38"
    assert finding.ends[0].rows == (3, 4)
    assert finding.details[0] == f"rows 3..4 of lines, UB {3 * COLS * 4:#x}..{5 * COLS * 4:#x}"


@pto.kernel(mode="manual")
def beside_an_address(x, out):
    first = pto.Tile("vec", x.dtype, 16, 16, addr=0)
    second = pto.Tile("vec", x.dtype, 16, 16, addr=0)
    alone = pto.Tile("vec", x.dtype, 16, 16)
    pto.tload(first, x)
    pto.tstore(out, first)
    pto.tload(second, x)
    pto.tload(alone, x)
    pto.tstore(out, alone)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
def test_a_tile_without_an_address_is_overwritten_by_no_other(dtype: str) -> None:
    """On a target that places no tiles, it has its own memory, also if another tile is at address 0."""
    x = np.arange(256).reshape(16, 16).astype(dtype)
    out = np.zeros_like(x)
    run = beside_an_address[1](x, out, target="cpu", engine="machine")
    assert not [finding for finding in run.findings if finding.level != "note"], run
    assert (out == x).all()


@pto.kernel
def outside(table, places, y):
    """Indices beyond the table."""
    ids = pto.Tile("vec", "int32", 1, ROWS)
    found = pto.Tile("vec", "float32", ROWS, COLS)
    pto.tload(ids, places)
    pto.mgather(found, table, ids)
    pto.tstore(y[0:ROWS], found)


def test_a_finding_on_an_operand_says_which_tile_or_array_it_is() -> None:
    x, y = arrays()
    report = launched(outside, x, np.arange(60, 68, dtype="int32"), y, grid=2)
    finding = next(finding for finding in report.hazards if finding.kind == "H-10")
    assert dict(finding.names) == {"dst": "found", "table": "table", "idx": "ids"}
    assert "idx is ids" in finding.details and "in 2 of 2 blocks; first: block 0" in finding.details


# --- calls


def fetch(tile: Any, part: Any) -> None:
    """A helper with a fault for each of its calls."""
    pto.tload(tile, part)
    pto.tadd(tile, tile, tile)  # the helper's line


def fetch_both(one: Any, other: Any, x: Any) -> None:
    """A helper that calls the other."""
    fetch(one, x[0:ROWS])
    fetch(other, x[ROWS : 2 * ROWS])


@pto.kernel(mode="manual")
def through_helpers(x):
    """Faults through helpers only."""
    one = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    other = pto.Tile("vec", "float32", ROWS, COLS, addr=NBYTES)
    third = pto.Tile("vec", "float32", ROWS, COLS, addr=2 * NBYTES)
    fetch_both(one, other, x)
    fetch(third, x[0:ROWS])


def test_faults_of_several_calls_of_one_helper_are_several_findings_with_their_calls() -> None:
    found = [finding for finding in races(launched(through_helpers, arrays()[0])) if finding.operand == "src0"]
    helper = line_with("pto.tadd(tile, tile, tile)  # the helper's line")
    both, third = line_with("fetch_both(one, other, x)"), line_with("fetch(third, x[0:ROWS])")
    inner = [line_with("fetch(one, x[0:ROWS])"), line_with("fetch(other, x[ROWS : 2 * ROWS])")]
    lines = [[place.line for place in finding.path] for finding in found]
    assert lines == [[helper, inner[0], both], [helper, inner[1], both], [helper, third]]
    assert found[2].details[-1] == (f"called from {__file__}:{third}; tload's write called from {__file__}:{third}")
    assert [end["calls"] for end in found[2].as_dict()["ends"]] == [[f"{__file__}:{third}"]] * 2


def test_a_terminal_shows_calls_relative_to_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    found = races(launched(through_helpers, arrays()[0]))[-1]
    line = line_with("fetch(third, x[0:ROWS])")
    place = f"test_findings.py:{line}"
    shown = finding_text(found).plain.splitlines()
    assert shown[0].startswith("test_findings.py:")
    assert shown[-1] == f"    called from {place}; tload's write called from {place}"


def test_a_line_of_another_file_is_named_with_its_file() -> None:
    helper = {"pto": pto}
    exec(compiled("def load(tile, part):\n    pto.tload(tile, part)\n", "helpers"), helper)
    load = helper["load"]

    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
        load(a, x[0:ROWS])
        pto.tstore(y[0:ROWS], a)

    (finding,) = races(launched(kernel, *arrays()))
    assert finding.message.endswith("tload's write of a (dst) on MTE2 (<helpers>:2)")


def test_the_verifier_tells_calls_of_a_helper_apart_too() -> None:
    def wrong(table: Any, ids: Any) -> None:
        found = pto.Tile("vec", "float32", ROWS, COLS)
        pto.mgather(found, table, ids, coalesce="elem")

    @pto.kernel
    def calls(table, places):
        ids = pto.Tile("vec", "int32", 1, ROWS)
        pto.tload(ids, places)
        wrong(table, ids)
        wrong(table, ids)

    report = pto.check(calls, arrays()[0], np.zeros(ROWS, "int32"), target="a5")
    kinds = [finding.kind for finding in report.targets["a5"].findings if finding.kind == "H-45"]
    assert len(kinds) == 2


ALIASES = """
!part = !pto.partition_tensor_view<8x32xf32>
!tile = !pto.tile_buf<vec, 8x32xf32>
!view = !pto.tensor_view<8x32xf32>"""
CALLS = (
    ALIASES
    + """
module attributes {pto.target_arch = "a5"} {
  func.func private @fetch(%t: !tile, %p: !part) {
    pto.tload ins(%p : !part) outs(%t : !tile)
    pto.tadd ins(%t, %t : !tile, !tile) outs(%t : !tile)
    return
  }
  func.func @calls(%x: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %c0_i64 = arith.constant 0 : i64
    %c1024_i64 = arith.constant 1024 : i64
    %v = pto.make_tensor_view %x, shape = [%c8, %c32], strides = [%c32, %c1] : !view
    %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c32] : !view -> !part
    %a = pto.alloc_tile addr = %c0_i64 : !tile
    %b = pto.alloc_tile addr = %c1024_i64 : !tile
    call @fetch(%a, %p) : (!tile, !part) -> ()
    call @fetch(%b, %p) : (!tile, !part) -> ()
    return
  }
}
"""
)


def test_calls_in_text_are_told_apart_and_names_are_those_of_the_text() -> None:
    found = races(launched(from_text(CALLS, "calls.pto", "calls"), arrays(ROWS)[0]))
    found = [finding for finding in found if finding.operand == "src0"]
    add, one = line_in(CALLS, "pto.tadd"), line_in(CALLS, "call @fetch(%a")
    assert [[place.line for place in finding.path] for finding in found] == [[add, one], [add, one + 1]]
    assert [ends(finding)[1].name for finding in found] == ["%a", "%b"]


# --- one finding for one cause


def pipeline(prime_loads: bool, prime_stores: bool) -> Any:
    """Load, add, store, with every flag, or without a priming."""

    @pto.kernel(mode="manual")
    def loop(x, y, n):
        a = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
        b = pto.Tile("vec", "float32", ROWS, COLS, addr=NBYTES)
        if prime_loads:
            pto.set_flag("V", "MTE2", 0)
        if prime_stores:
            pto.set_flag("MTE3", "V", 0)
        for i in pto.range(n):
            pto.wait_flag("V", "MTE2", 0)
            pto.tload(a, x[i * ROWS : (i + 1) * ROWS])
            pto.set_flag("MTE2", "V", 0)
            pto.wait_flag("MTE2", "V", 0)
            pto.wait_flag("MTE3", "V", 0)
            pto.tadd(b, a, a)
            pto.set_flag("V", "MTE2", 0)
            pto.set_flag("V", "MTE3", 1)
            pto.wait_flag("V", "MTE3", 1)
            pto.tstore(y[i * ROWS : (i + 1) * ROWS], b)
            pto.set_flag("MTE3", "V", 0)
        pto.wait_flag("V", "MTE2", 0)
        pto.wait_flag("MTE3", "V", 0)

    return loop


@pytest.mark.parametrize("primed", [(True, True), (False, True), (True, False), (False, False)])
def test_a_missing_priming_is_one_finding_at_the_first_wait(primed: tuple[bool, bool]) -> None:
    waits = [(("V", "MTE2"), "MTE2 waits"), (("MTE3", "V"), "V waits")]
    expected = [(pair, said) for (pair, said), has in zip(waits, primed, strict=True) if not has]
    report = launched(pipeline(*primed), *arrays(), 4)
    for finding, ((src, dst), said) in zip(report.findings, expected, strict=True):
        assert finding.message.startswith(said)
        assert f'pto.set_flag("{src}", "{dst}", 0) before the loop (line ' in finding.fix
        assert finding.seen is not None and finding.seen.iteration == (("i", 0),)


@pto.kernel(mode="manual")
def chain(x, y):
    """V waits for the load, the stores do not wait for V."""
    a = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    b = pto.Tile("vec", "float32", ROWS, COLS, addr=NBYTES)
    pto.tload(a, x[0:ROWS])
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.tadd(b, a, a)
    pto.tstore(y[0:ROWS], b)
    pto.tstore(y[ROWS : 2 * ROWS], a)


@pto.kernel(mode="manual")
def two_causes(x, y):
    """The same, but V loads nothing that the last store needs: another flag is missing for that."""
    a = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    b = pto.Tile("vec", "float32", ROWS, COLS, addr=NBYTES)
    c = pto.Tile("vec", "float32", ROWS, COLS, addr=2 * NBYTES)
    pto.tload(a, x[0:ROWS])
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.tadd(b, a, a)
    pto.tload(c, x[ROWS : 2 * ROWS])
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.tstore(y[0:ROWS], b)
    pto.tstore(y[ROWS : 2 * ROWS], c)


def test_what_follows_from_a_race_is_not_reported_unless_asked_for() -> None:
    assert [ends(finding)[1].name for finding in races(launched(chain, *arrays()))] == ["b"]
    everything = races(launched(chain, *arrays(), consequences=True))
    assert [ends(finding)[1].name for finding in everything] == ["b", "a"]


def test_another_cause_is_reported_too() -> None:
    assert [ends(finding)[1].name for finding in races(launched(two_causes, *arrays()))] == ["b", "c"]


@pytest.mark.parametrize("chunk", range(4))
def test_folding_hides_no_faulty_program_and_adds_nothing(chunk: int) -> None:
    for seed in range(chunk, 400 if FULL else 60, 4):
        of = sample(seed)
        kernel = TextKernel(of.program)
        some, everything = (_found(kernel, of, consequences) for consequences in (False, True))
        assert some <= everything and bool(some) == bool(everything), (seed, some, everything, of)


def _found(kernel: Any, of: Sample, consequences: bool) -> set[tuple[bool, frozenset[object]]]:
    given = {name: array.copy() for name, array in of.arrays.items()}
    options = pto.MachineOptions(checks=("order", "blocks"), poison=False, consequences=consequences)
    report = kernel[1](**given, target=of.target, engine="machine", options=options)
    return {(finding.operand in FLAG, _lines(finding)) for finding in report.hazards}


FLAG = ("flag", "event")


def _lines(finding: Finding) -> frozenset[object]:
    """The lines of both accesses, whichever ran first."""
    return frozenset(end.where for end in ends(finding)) if finding.ends else frozenset((finding.where,))


ONE = ("stored, float32, once", "id 0, circular", "never set", "nothing set before the loop", "one buffer too few",
       "id 0, a wait in the text before, and no set")  # fmt: skip
"""Cases of which everything but one finding follows from the fault: a workspace, and flags between the cores."""


FOLDED = [case for case in ALL_CASES if case.bad and case.name.endswith(ONE)]


@pytest.mark.parametrize("case", FOLDED, ids=lambda case: case.id)
def test_one_fault_is_one_finding(case: Case) -> None:
    assert len(case.launch().hazards) == 1


# --- fixes


def applied(source: str, fix: str, end: Callable[[list[str], int], int]) -> str:
    """The source with what a fix asks for; `end` gives the last line of the loop that begins at a line."""
    lines: list[list[str]] = [[line] for line in source.splitlines()]
    loop = re.search(r"the loop \(line (\d+)\)", fix)
    for added, side, place in re.findall(
        r"([^;]+?) (before|after) (line \d+|the loop \(line \d+\)|the loop)[,;]? ?", fix
    ):
        number = int(re.findall(r"\d+", place)[-1]) if "line" in place else int(loop[1]) if loop else 0
        at = number - 1
        indent = re.match(r"\s*", lines[at][0])[0]  # type: ignore[index]
        if side == "before":
            lines[at].insert(len(lines[at]) - 1, indent + added)
        else:
            last = end([line[-1] for line in lines], at) if "loop" in place else at
            lines[last].append(indent + added)
    return "\n".join(line for group in lines for line in group) + "\n"


def end_in_python(lines: list[str], at: int) -> int:
    indent = len(lines[at]) - len(lines[at].lstrip())
    inside = [
        k for k in range(at + 1, len(lines)) if lines[k].strip() and len(lines[k]) - len(lines[k].lstrip()) > indent
    ]
    return max(k for n, k in enumerate(inside) if k == at + 1 + n)


STRAIGHT = """
    import ptokit as pto

    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", 8, 32, addr=0)
        pto.tload(a, x[0:8])
        pto.set_flag("MTE2", "MTE3", 0)
        pto.tload(a, x[8:16])
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.tstore(y[0:8], a)
"""
LOOP = """
    import ptokit as pto

    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", 8, 32, addr=0)
        for i in pto.range(3):
            pto.tload(a, x[0:8])
            pto.set_flag("MTE2", "MTE3", 0)
            pto.wait_flag("MTE2", "MTE3", 0)
            pto.tstore(y[0:8], a)
"""
INTO_LOOP = """
    import ptokit as pto

    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", 8, 32, addr=0)
        pto.tload(a, x[0:8])
        for i in pto.range(3):
            pto.tstore(y[0:8], a)
"""
OUT_OF_LOOP = """
    import ptokit as pto

    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", 8, 32, addr=0)
        for i in pto.range(3):
            pto.tload(a, x[0:8])
        pto.tstore(y[0:8], a)
"""
UNPRIMED = """
    import ptokit as pto

    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", 8, 32, addr=0)
        for i in pto.range(3):
            pto.wait_flag("MTE3", "MTE2", 0)
            pto.tload(a, x[0:8])
            pto.set_flag("MTE2", "MTE3", 0)
            pto.wait_flag("MTE2", "MTE3", 0)
            pto.tstore(y[0:8], a)
            pto.set_flag("MTE3", "MTE2", 0)
        pto.wait_flag("MTE3", "MTE2", 0)
"""
HELPER = """
    import ptokit as pto

    def load(tile, part):
        pto.tload(tile, part)

    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", 8, 32, addr=0)
        b = pto.Tile("vec", "float32", 8, 32, addr=1024)
        load(a, x[0:8])
        pto.set_flag("MTE2", "V", 0)
        pto.wait_flag("MTE2", "V", 0)
        load(b, x[0:8])
        pto.tadd(a, a, b)
"""


@pytest.mark.parametrize("source", [STRAIGHT, LOOP, INTO_LOOP, OUT_OF_LOOP, UNPRIMED, HELPER])
def test_a_program_with_its_fix_written_into_it_is_clean(source: str) -> None:
    text = textwrap.dedent(source)
    (finding,) = launched(kernel_of(text), *arrays()).hazards
    assert finding.fix
    fixed = applied(text, finding.fix.partition(", or ")[0], end_in_python)
    report = launched(kernel_of(fixed), *arrays())
    assert report.ok, f"{fixed}\n{report}"


PIPELINE = """
    import ptokit as pto

    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", 8, 32, addr=0)
        b = pto.Tile("vec", "float32", 8, 32, addr=1024)
        pto.set_flag("V", "MTE2", 0)
        pto.set_flag("MTE3", "V", 0)
        for i in pto.range(4):
            pto.wait_flag("V", "MTE2", 0)
            pto.tload(a, x[0:8])
            pto.set_flag("MTE2", "V", 0)
            pto.wait_flag("MTE2", "V", 0)
            pto.wait_flag("MTE3", "V", 0)
            pto.tadd(b, a, a)
            pto.set_flag("V", "MTE2", 0)
            pto.set_flag("V", "MTE3", 1)
            pto.wait_flag("V", "MTE3", 1)
            pto.tstore(y[0:8], b)
            pto.set_flag("MTE3", "V", 0)
        pto.wait_flag("V", "MTE2", 0)
        pto.wait_flag("MTE3", "V", 0)
"""
FLAGS = [number for number, line in enumerate(PIPELINE.splitlines(), 1) if "_flag(" in line]


def test_the_pipeline_is_clean() -> None:
    assert not launched(kernel_of(textwrap.dedent(PIPELINE)), *arrays()).findings


@pytest.mark.parametrize("number", FLAGS)
def test_a_flag_statement_that_is_missing_is_one_finding_and_its_fix_makes_it_clean(number: int) -> None:
    lines = textwrap.dedent(PIPELINE).splitlines()
    indent = re.match(r"\s*", lines[number - 1])[0]  # type: ignore[index]
    lines[number - 1] = f"{indent}pass"
    text = "\n".join(lines) + "\n"
    report = launched(kernel_of(text), *arrays())
    (finding,) = report.findings
    fix, _, at_end = finding.fix.partition(", or ")[0].partition(" at the end")
    fixed = f"{text}    {fix}\n" if at_end else applied(text, fix, end_in_python)
    assert not launched(kernel_of(fixed), *arrays()).findings, f"{finding}\n{fixed}"
    assert len(launched(kernel_of(text), *arrays(), consequences=True).findings) >= 1


def test_the_event_ids_of_fixes_are_free_and_differ() -> None:
    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
        b = pto.Tile("vec", "float32", ROWS, COLS, addr=NBYTES)
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.tload(a, x[0:ROWS])
        pto.tstore(y[0:ROWS], a)
        pto.tload(b, x[0:ROWS])
        pto.tstore(y[ROWS : 2 * ROWS], b)

    fixes = [finding.fix for finding in races(launched(kernel, *arrays()))]
    assert [re.findall(r'flag\("MTE2", "MTE3", (\d)\)', fix) for fix in fixes] == [["1", "1"], ["2", "2"]]


def test_a_program_without_a_free_id_gets_a_barrier() -> None:
    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
        for event in range(8):
            pto.set_flag("MTE2", "MTE3", event)
            pto.wait_flag("MTE2", "MTE3", event)
        pto.tload(a, x[0:ROWS])
        pto.tstore(y[0:ROWS], a)

    (finding,) = races(launched(kernel, *arrays()))
    assert finding.fix.startswith('pto.barrier("ALL") before line ')


TEXT = (
    ALIASES
    + """
module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %c0_i64 = arith.constant 0 : i64
    %from = pto.make_tensor_view %x, shape = [%c8, %c32], strides = [%c32, %c1] : !view
    %to = pto.make_tensor_view %y, shape = [%c8, %c32], strides = [%c32, %c1] : !view
    %p = pto.partition_view %from, offsets = [%c0, %c0], sizes = [%c8, %c32] : !view -> !part
    %q = pto.partition_view %to, offsets = [%c0, %c0], sizes = [%c8, %c32] : !view -> !part
    %a = pto.alloc_tile addr = %c0_i64 : !tile
    scf.for %i = %c0 to %c3 step %c1 {
      pto.tload ins(%p : !part) outs(%a : !tile)
      pto.set_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]
      pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]
      pto.tstore ins(%a : !tile) outs(%q : !part)
    }
    return
  }
}
"""
)


def end_in_text(lines: list[str], at: int) -> int:
    indent = re.match(r"\s*", lines[at])[0]  # type: ignore[index]
    return next(k for k in range(at + 1, len(lines)) if lines[k] == indent + "}")


def test_a_fix_for_mlir_is_mlir() -> None:
    (finding,) = launched(from_text(TEXT, "kernel.pto"), *arrays(ROWS)).hazards
    load = line_in(TEXT, "pto.tload")
    assert f"pto.wait_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>] before line {load}," in finding.fix
    fixed = applied(TEXT, finding.fix, end_in_text)
    report = launched(from_text(fixed, "kernel.pto"), *arrays(ROWS))
    assert report.ok, f"{fixed}\n{report}"


PTOAS = """
.kernel lookup
.arg %table : !pto.memref<64x32xf32>
.arg %ids : !pto.memref<1x8xi32>
.arg %out : !pto.memref<8x32xf32>

pto.tassign %idx, @tile(0x0)
pto.tassign %rows, @tile(0x1000)
tload %idx, %ids[0, 0] : (!pto.tile<1x8xi32>, !pto.memref<1x8xi32>)
%rows = mgather %table, %idx : !pto.memref<64x32xf32>, !pto.tile<1x8xi32> -> !pto.tile<8x32xf32>
set_flag[PIPE_V, PIPE_MTE3, EVENT_ID0]
wait_flag[PIPE_V, PIPE_MTE3, EVENT_ID0]
tstore %rows, %out
"""


def test_a_fix_for_ptoas_is_ptoas_and_speaks_of_its_attributes() -> None:
    x, y = arrays()
    given = x, np.arange(60, 68, dtype="int32").reshape(1, ROWS), y[0:ROWS].copy()
    order, index = sorted(
        launched(from_text(PTOAS, "lookup.ptoas"), *given).hazards, key=lambda finding: finding.kind == "H-10"
    )
    assert order.fix == (
        "set_flag[PIPE_MTE2, PIPE_V, EVENT_ID0] after line 9, wait_flag[PIPE_MTE2, PIPE_V, EVENT_ID0] before line 10"
    )
    assert "gatherOob = #pto<gather_oob clamp>" in index.fix and 'oob="' not in index.fix
    fixed = applied(PTOAS, order.fix, end_in_text).replace("%idx : ", "%idx {gatherOob = #pto<gather_oob clamp>} : ")
    assert launched(from_text(fixed, "lookup.ptoas"), *given).ok


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_other_engines_write_fixes_in_the_syntax_of_the_text(engine: str) -> None:
    """Errors as well as hazards; all words of a list."""
    x, y = arrays()
    kernel, out = from_text(PTOAS, "lookup.ptoas"), y[0:ROWS].copy()
    with pytest.raises(pto.OutOfBoundsError) as refused:
        kernel[1](x, np.arange(60, 68, dtype="int32").reshape(1, ROWS), out, engine=engine)
    fix = "keep indices below the capacity, or choose gatherOob = #pto<gather_oob clamp>, wrap or zero"
    assert refused.value.findings[0].fix == fix
    clamped = from_text(PTOAS.replace("%idx : ", "%idx {gatherOob = #pto<gather_oob clamp>} : "), "lookup.ptoas")
    with pytest.warns(pto.HazardWarning, match="gatherOob = #pto<gather_oob zero>"):
        clamped[1](x, np.full((1, ROWS), -1, "int32"), out, engine=engine)


# --- a report in spite of a refusal


@pto.kernel(mode="manual")
def ragged(x, y, starts):
    """The last block is outside; every block stores too early."""
    a = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    start = pto.load_scalar(starts, pto.block_idx())
    pto.tload(a, x[start : start + ROWS])
    pto.tstore(y[start : start + ROWS], a)


@pytest.mark.parametrize("outside", [[60], [60, -3, 61]])
def test_a_refused_slice_in_a_block_leaves_the_rest_of_the_report(outside: list[int]) -> None:
    x, y = arrays()
    starts = np.array([0, 8, *outside, 16], "int32")
    report = launched(ragged, x, y, starts, grid=starts.size)
    by_rule = {finding.rule: finding for finding in report.hazards if finding.where}
    assert set(by_rule) == {"KN-10", "KN-13"} and not report.written and not y.any()
    assert [by_rule[rule].seen.blocks for rule in ("KN-10", "KN-13")] == [len(outside), 3]  # type: ignore[union-attr]


def test_a_slice_that_is_refused_before_the_run_does_not_hide_the_rest_either() -> None:
    @pto.kernel(mode="manual")
    def kernel(x, y):
        a = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
        row = pto.block_idx() * ROWS
        pto.tload(a, x[row : row + ROWS])
        pto.tstore(y[row : row + ROWS], a)

    report = launched(kernel, *arrays(), grid=9)
    counted = {(finding.rule, finding.operand): finding.seen for finding in report.hazards}
    assert {rule for rule, _ in counted} == {"KN-10", "KN-13"}
    assert {seen.blocks for (rule, _), seen in counted.items() if seen and rule == "KN-10"} == {1}
    with pytest.raises(pto.VerifyError):
        kernel[9](*arrays(), target="a5")


def test_a_block_that_cannot_go_on_ends_and_the_others_do_not() -> None:
    @pto.kernel(mode="manual")
    def kernel(x, y, places):
        a = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
        pto.set_flag("MTE2", "MTE3", 3)
        row = pto.load_scalar(places, pto.load_scalar(places, pto.block_idx())) * 0
        pto.wait_flag("MTE2", "MTE3", 3)
        pto.tload(a, x[row : row + ROWS])
        pto.tstore(y[pto.block_idx() * ROWS : (pto.block_idx() + 1) * ROWS], a)

    report = launched(kernel, *arrays(), np.array([0, 99, 1, 2], "int32"), grid=4)
    found = {finding.rule: finding.seen.blocks for finding in report.hazards if finding.seen}
    assert found == {"KN-10": 1, "KN-13": 3}  # no flag that is left set


# --- as data


def test_json_has_both_ends_the_counts_and_the_names() -> None:
    report = launched(carried, *arrays(), 3)
    (found,) = [each for each in json.loads(report.to_json())["findings"] if each["ends"]]
    (finding,) = races(report)
    assert found["seen"] == {"block": 0, "iteration": {"i": 1}, "times": 2, "blocks": 1, "grid": 1}
    assert found["names"] == {"dst": "lines", "src": "x"} and found["calls"] == []
    for end, data in zip(ends(finding), found["ends"], strict=True):
        assert (data["statement"], data["pipe"], data["gate"]) == (end.statement, end.pipe, end.gate)
        assert data["iteration"] == dict(end.iteration) and data["bytes"] == [*end.bytes] and data["rows"] == [0, 7]
        assert data["where"] == str(end.where)


def test_a_report_shows_the_lines_of_a_finding_below_it() -> None:
    report = launched(carried, *arrays(), 3)
    (finding,) = races(report)
    lines = str(report).splitlines()
    at = lines.index(str(finding).splitlines()[0])
    assert lines[at + 1 : at + 4] == [f"    fix: {finding.fix}", *(f"    {line}" for line in finding.details)]
