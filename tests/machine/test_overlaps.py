"""Dependent vector instructions on A2/A3 (A-73, H-49): the rule in its parts, and random programs beside a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.machine.report import MachineReport
from tests.snippet import compiled

QUIET = pto.MachineOptions(quiet=True)
PLAIN = '"vec", "float32", 8, 64'
TILES = f"""
    a = pto.Tile({PLAIN}, addr=0)
    b = pto.Tile({PLAIN}, addr=0x1000)
    c = pto.Tile({PLAIN}, addr=0x2000)
    d = pto.Tile({PLAIN}, addr=0x3000)
    tmp = pto.Tile("vec", "float32", 16, 64, addr=0x4000)
    col = pto.Tile("vec", "float32", 8, 1, blayout="col_major", addr=0x6000)
    row = pto.Tile("vec", "float32", 1, 64, addr=0x6100)
    half = pto.Tile("vec", "float16", 8, 64, addr=0x7000)
    other = pto.Tile("vec", "float16", 8, 64, addr=0x8000)
    ints = pto.Tile("vec", "int32", 8, 64, addr=0x9000)
    bits = pto.Tile("vec", "uint8", 8, 32, addr=0xa000)
    turned = pto.Tile("vec", "float32", 64, 16, valid=(64, 8), addr=0xb000)
    work = pto.Tile("vec", "float32", 64, 16, addr=0xd000)
    idx = pto.Tile("vec", "uint32", 8, 64, addr=0xf000)
    same = pto.Tile("vec", "int32", 8, 64, addr=0x1000)
    first = pto.Tile("vec", "int32", 1, 64, addr=0xf800)
"""
FILLS = """
    pto.texpands(a, 1.0)
    pto.texpands(b, 1.0)
    pto.texpands(c, 1.0)
    pto.texpands(d, 1.0)
    pto.texpands(col, 1.0)
    pto.texpands(row, 1.0)
    pto.texpands(half, 1.0)
    pto.texpands(ints, 1)
    pto.texpands(idx, 1)
    pto.texpands(bits, 1)
    pto.barrier("ALL")
"""


def kernel(body: str, *, fills: str = FILLS, mode: str = 'mode="manual"', name: str = "overlaps.py") -> Any:
    """A kernel with all tiles, whose instructions are `body`, one a line."""
    tiles = TILES if mode else "".join(f"{line.partition(', addr')[0]})\n" if ", addr" in line else f"{line}\n"
                                       for line in TILES.splitlines())  # fmt: skip
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    code = f"import ptokit as pto\n@pto.kernel({mode})\ndef k(x):\n{tiles}\n{fills}\n{lines}\n"
    scope: dict[str, Any] = {}
    exec(compiled(code, name), scope)
    return scope["k"]


def judged(body: str, target: str = "a2a3", **options: Any) -> MachineReport:
    report = kernel(body)[1](np.zeros((8, 64), "float32"), target=target, engine="machine", options=QUIET, **options)
    assert isinstance(report, MachineReport)
    return report


def levels(body: str, target: str = "a2a3") -> list[str]:
    """The levels of what is found of dependent instructions."""
    found = judged(body, target).findings
    assert all(each.rule == "A-73" or each.level == "note" for each in found), found
    return sorted(each.level for each in found if each.rule == "A-73")


DIFFERENT = {
    "a sum of rows reads": "pto.tadd(b, a, a)\npto.trowsum(col, b, tmp=tmp)",
    "a sum of columns reads": "pto.tadd(b, a, a)\npto.tcolsum(row, b)",
    "a broadcast reads": "pto.tadds(row, row, 1.0)\npto.tcolexpand(b, row)",
    "a broadcast has written": "pto.tcolexpand(b, row)\npto.tadd(c, b, a)",
    "a column is spread": "pto.tadds(col, col, 1.0)\npto.trowexpandadd(b, a, col, tmp=tmp)",
    "a transpose reads": "pto.tadd(b, a, a)\npto.ttrans(turned, b, tmp=work)",
    "a gather reads its index": "pto.tshls(idx, idx, 1)\npto.tgather(c, b, idx, tmp=tmp)" ,
    "a wider type was written": "pto.tcvt(b, half)\npto.tadd(c, b, a)",
    "a narrower type was written": "pto.tcvt(half, b)\npto.tadd(other, half, half)",
    "a mask was written": "pto.tcmp(bits, a, b)\npto.tsel(c, bits, a, b, tmp=tmp)\npto.tnot(bits, bits)",
    "a part was written": "pto.tadds(b[0:4, :], a[0:4, :], 1.0)\npto.tadd(c, b, a)",
    "a part is read": "pto.tadds(b, a, 1.0)\npto.tadd(c[0:4, :], b[0:4, :], a[0:4, :])",
    "other columns are read": "pto.tadds(b[:, 0:32], a[:, 0:32], 1.0)\npto.tadds(c[:, 0:32], b[:, 8:40], 1.0)",
}  # fmt: skip


@pytest.mark.clause("A-73")
@pytest.mark.parametrize("name", [name for name in DIFFERENT if name != "a mask was written"])
def test_another_walk_is_a_hazard_that_a_barrier_ends(name: str) -> None:
    first, then = DIFFERENT[name].split("\n")
    assert "hazard" in levels(f"{first}\n{then}")
    for between in ('pto.barrier("V")', 'pto.barrier("ALL")', CHAIN):
        assert levels(f"{first}\n{between}\n{then}") == []
    assert levels(f"{first}\n{then}", "a5") == []


CHAIN = """\
pto.set_flag("V", "MTE3", 3)
pto.wait_flag("V", "MTE3", 3)
pto.set_flag("MTE3", "V", 3)
pto.wait_flag("MTE3", "V", 3)"""

ALIKE = {
    "a chain": "pto.tadd(b, a, a)\npto.tmul(c, b, a)",
    "in place": "pto.tadd(b, a, a)\npto.texp(b, b)",
    "a conversion reads": "pto.tadd(b, a, a)\npto.tcvt(half, b)",
    "a conversion of one width has written": "pto.tcvt(ints, a)\npto.tadds(ints, ints, 1)",
    "a compare reads": "pto.tadd(b, a, a)\npto.tcmp(bits, b, a)",
    "the full source of a row broadcast": "pto.tadd(b, a, a)\npto.trowexpandadd(c, b, col, tmp=tmp)",
    "what a row broadcast has written": "pto.trowexpandadd(b, a, col, tmp=tmp)\npto.tadd(c, b, a)",
    "the full source of a column broadcast": "pto.tadd(b, a, a)\npto.tcolexpandadd(c, b, row)",
    "writes over writes": "pto.tadd(b, a, a)\npto.tsub(b, a, a)",
    "another walk over a write": "pto.tadd(b, a, a)\npto.tcolexpand(b, row)",
    "a part over a write": "pto.tadd(b, a, a)\npto.tadds(b[0:4, :], a[0:4, :], 1.0)",
    "workspaces": "pto.trowexpandadd(c, b, col, tmp=tmp)\npto.trowexpandadd(d, b, col, tmp=tmp)",
    "another type of one width": "pto.tadd(b, a, a)\npto.tadds(same, same, 1)",
}


@pytest.mark.clause("A-73")
@pytest.mark.parametrize("name", ALIKE)
def test_an_equal_walk_and_a_write_over_a_write_are_one_note(name: str) -> None:
    first, then = ALIKE[name].split("\n")
    if (
        name == "the full source of a row broadcast"
    ):  # its column is spread before a barrier, and the rest read after it
        assert levels(f"{first}\n{then}") == []
        return
    assert levels(f"{first}\n{then}") == ["note"]
    assert levels(f'{first}\npto.barrier("V")\n{then}') == []
    assert levels(f"{first}\n{then}", "a5") == []
    (note,) = [each for each in judged(f"{first}\n{then}").findings if each.rule == "A-73"]
    assert "practice, not a promise" in note.message and note.kind == "H-49"
    assert judged(f"{first}\n{then}").ok


def test_pairs_of_equal_walks_are_counted_in_one_note() -> None:
    body = "pto.tadd(b, a, a)\n" + "\n".join("pto.tadds(b, b, 1.0)" for _ in range(5))
    (note,) = judged(body).findings
    assert note.message.startswith("5 pairs of dependent V instructions")


INSIDE = {
    "a sum of rows ends with one": "pto.trowsum(col, a, tmp=tmp)\npto.tadds(col, col, 1.0)",
    "a largest number ends with one": "pto.tcolmax(row, a)\npto.tcolexpand(b, row)",
    "positions end with one": "pto.tcolargmax(first, a, tmp=tmp)\npto.tcolexpand(ints, first)",
    "a filled destination comes first": "pto.tadds(ints, ints, 1)\npto.tadds(b, b, 1.0)\npto.trecip(c, b)",
    "what is not spread comes behind one": "pto.tcolexpand(b, row)\npto.trowexpandadd(c, b, col, tmp=tmp)",
    "the source of a gather comes behind one": "pto.tcolexpand(b, row)\npto.tgather(c, b, idx, tmp=tmp)",
    "the mask of a selection comes behind one": "pto.tcmp(bits, a, b)\npto.tsel(c, bits, a, b, tmp=tmp)",
}


@pytest.mark.parametrize("name", INSIDE)
def test_barriers_inside_count_operand_by_operand(name: str) -> None:
    found = [each for each in judged(INSIDE[name]).findings if each.level != "note"]
    assert found == []


def test_a_sum_over_one_row_without_a_workspace_has_none() -> None:
    sums = "pto.tcolsum(row, {})\npto.tcolexpand(b, row)"
    assert "hazard" in levels(sums.format("a[0:1, :]"))
    assert "hazard" not in levels(sums.format("a"))


def test_work_of_the_scalar_pipe_between_two_instructions_orders_them() -> None:
    """A scatter of A2/A3 waits V to S and ends S to V."""
    body = "pto.tcolexpand(b, row)\npto.tscatter(ints, ints, ints)\npto.trowsum(col, b, tmp=tmp)"
    fills = FILLS.replace("    pto.texpands(ints, 1)\n", "    pto.texpands(ints, 0)\n")
    report = kernel(body, fills=fills)[1](np.zeros(1, "float32"), target="a2a3", engine="machine", options=QUIET)
    assert [each for each in report.findings if each.rule == "A-73" and each.level != "note"] == []


def test_a_hazard_is_at_the_reading_line_with_its_fix() -> None:
    body = "pto.tadd(b, a, a)\npto.tmul(c, a, a)\npto.trowsum(col, b, tmp=tmp)"
    report = judged(body)
    (found,) = report.hazards
    first, then = (report.program.body[-3].where, report.program.body[-1].where)
    assert found.where == then and (found.level, found.kind, found.rule, found.operand) == (
        "hazard",
        "H-49",
        "A-73",
        "src",
    )
    assert found.fix == f'pto.barrier("V") before line {then.line}' and f"(line {first.line})" in found.message
    assert not report.ok


def test_a_loop_shows_it_once_with_its_count() -> None:
    body = "for i in pto.range(4):\n    pto.tadds(b, b, 1.0)\n    pto.tcolsum(row, b)"
    (found,) = judged(body).hazards
    assert found.seen is not None and found.seen.times == 4
    carried = "for i in pto.range(4):\n    pto.trowsum(col, b, tmp=tmp)\n    pto.tadds(b, a, 1.0)"
    (found,) = judged(carried).hazards
    assert found.seen is not None and found.seen.times == 3


# --- other schedules, repairs, auto mode


STORED = """\
pto.tadd(b, a, a)
pto.tcolsum(row, b)
pto.set_flag("V", "MTE3", 0)
pto.wait_flag("V", "MTE3", 0)
pto.tstore(x[0:1, :], row)"""


def results(body: str) -> set[bytes]:
    found: set[bytes] = set()
    for seed in range(20):
        x = np.zeros((8, 64), "float32")
        kernel(body)[1](x, target="a2a3", engine="machine", options=pto.MachineOptions(quiet=True, seed=seed))
        found.add(x.tobytes())
    return found


def test_other_schedules_show_the_old_content_and_never_where_it_is_ordered() -> None:
    assert len(results(STORED)) > 1
    assert len(results(STORED.replace("pto.tcolsum", 'pto.barrier("V")\npto.tcolsum'))) == 1
    assert len(results(STORED.replace("pto.tcolsum(row, b)", "pto.tadd(b, b, a)\npto.tcolsum(row, c)"))) == 1


def test_the_repair_is_one_barrier() -> None:
    (repair,) = judged(STORED).repairs
    assert [str(edit).partition(": ")[2] for edit in repair.edits] == ['pto.barrier("V")']
    assert repair.kind == "order" and repair.cycles == 0


def test_one_barrier_repairs_several_dependences() -> None:
    body = "pto.tadd(b, a, a)\npto.tadd(c, a, a)\npto.tcolsum(row, b)\npto.trowsum(col, c, tmp=tmp)"
    (repair,) = judged(body).repairs
    assert len(repair.edits) == 1


def test_needless_barriers_are_those_between_independent_instructions() -> None:
    needed = judged('pto.tadd(b, a, a)\npto.barrier("V")\npto.tcolsum(row, b)')
    assert [repair for repair in needed.repairs if 'barrier("V")' in repair.diff] == []
    practice = judged('pto.tadd(b, a, a)\npto.barrier("V")\npto.tadd(b, b, a)')
    assert [repair for repair in practice.repairs if 'barrier("V")' in repair.diff] == []
    apart = judged('pto.tadd(b, a, a)\npto.barrier("V")\npto.tadd(c, a, a)')
    assert [edit.stmt.pipe for repair in apart.repairs for edit in repair.edits if repair.kind == "needless"][-1] == "V"


def test_auto_mode_adds_barriers_on_a2a3_only_and_leaves_no_note() -> None:
    for body in (*DIFFERENT.values(), *ALIKE.values()):
        made = kernel(body, fills=FILLS.replace('    pto.barrier("ALL")\n', ""), mode="")
        for target in ("a2a3", "a5"):
            report = made[1](np.zeros((8, 64), "float32"), target=target, engine="machine", options=QUIET)
            assert [each for each in report.findings if each.rule == "A-73"] == [], body


def test_a_barrier_of_a_pipe_that_orders_itself_is_a_note() -> None:
    (found,) = judged('pto.tadd(b, a, a)\npto.barrier("V")\npto.tcolsum(row, b)', "a5").findings
    assert (found.level, found.rule) == ("note", "A-73") and "orders itself" in found.message


# --- random programs beside a model that knows no clocks


@dataclass(frozen=True)
class Op:
    """An instruction: what it reads and writes, each as bytes and how it walks them; None for an order of its own."""

    text: str
    reads: tuple[tuple[range, bool], ...] = ()
    writes: tuple[range, bool] | None = None
    flags: tuple[str, ...] = ()
    """`barrier` or `chain`."""
    ends: bool = False


def _bytes(tile: str, rows: tuple[int, int] = (0, 8)) -> range:
    start = {"a": 0, "b": 0x1000, "c": 0x2000, "d": 0x3000}[tile]
    return range(start + rows[0] * 256, start + rows[1] * 256)


def random_ops(random: Random) -> list[Op]:
    """Instructions over a few tiles, with barriers and chains of flags among them."""
    made: list[Op] = []
    for _ in range(random.randint(3, 12)):
        x, y, z = (random.choice("abcd") for _ in range(3))
        kind = random.randrange(9)
        if kind < 4:
            made.append(Op(f"pto.tadd({z}, {x}, {y})", ((_bytes(x), True), (_bytes(y), True)), (_bytes(z), True)))
        elif kind == 4:
            part = random.choice([(0, 4), (4, 8), (2, 6)])
            cut = f"[{part[0]}:{part[1]}, :]"
            made.append(Op(f"pto.tadds({z}{cut}, {x}{cut}, 1.0)", ((_bytes(x, part), True),), (_bytes(z, part), True)))
        elif kind == 5:
            made.append(Op(f"pto.tcolexpand({z}, row)", ((range(0x6100, 0x6200), False),), (_bytes(z), False)))
        elif kind == 6:
            made.append(Op(f"pto.tcolmax(row, {x})", ((_bytes(x), False),), (range(0x6100, 0x6200), False), ends=True))
        elif kind == 7:
            made.append(Op('pto.barrier("V")', flags=("barrier",)))
        else:
            made.append(Op(random.choice([CHAIN, CHAIN.replace("MTE3", "MTE2").replace("3)", "0)")]), flags=("chain",)))
    return made


@dataclass
class Model:
    """Which earlier instructions have certainly ended, kept as a set; and the last writer of every byte."""

    done: set[int] = field(default_factory=set)
    issued: list[int] = field(default_factory=list)
    writer: dict[int, int] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    hazards: set[tuple[int, int]] = field(default_factory=set)

    def run(self, ops: Sequence[tuple[int, Op]]) -> set[tuple[int, int]]:
        """Pairs of places in the text: what wrote and what reads by another walk."""
        for place, op in ops:
            if op.flags:
                self.done |= set(self.issued)
                continue
            now = len(self.ops)
            self.ops.append(op)
            wrong = {
                self.writer[byte]
                for bytes_, walks in op.reads
                for byte in bytes_
                if self.writer.get(byte, -1) not in (self.done | {-1})
                and not (walks and self.ops[self.writer[byte]].writes == (bytes_, True))
            }
            if wrong:
                latest = max(wrong)
                self.hazards.add((self.places[latest], place))
                self.done |= {each for each in self.issued if each <= latest}
            self.places[now] = place
            self.issued.append(now)
            if op.writes is not None:
                for byte in op.writes[0]:
                    self.writer[byte] = now
            if op.ends:
                self.done |= set(self.issued)
        return self.hazards

    places: dict[int, int] = field(default_factory=dict)


PROGRAMS = 600 if os.environ.get("PTOKIT_FUZZ") else 24


@pytest.mark.parametrize("seed", list(range(PROGRAMS)))
def test_random_programs_beside_the_model(seed: int) -> None:
    random = Random(seed)
    ops, turns = random_ops(random), random.choice([1, 1, 3])
    lines = "\n".join(op.text for op in ops)
    body = lines if turns == 1 else f"for i in pto.range({turns}):\n" + "\n".join(
        f"    {line}" for line in lines.splitlines()
    )  # fmt: skip
    starts: dict[int, int] = {}
    line = 0
    for place, op in enumerate(ops):
        starts[line] = place
        line += len(op.text.splitlines())
    expected = Model().run([(place, op) for _ in range(turns) for place, op in enumerate(ops)])
    report = judged(body)
    whole = report.program.body if turns == 1 else report.program.body[-1].body  # type: ignore[union-attr]
    own = [stmt.where.line for stmt in whole if stmt.where is not None][-line:]
    base = own[0]
    found = {
        tuple(starts[end.where.line - base] for end in each.ends if end.where is not None)
        for each in report.findings
        if each.level == "hazard" and each.kind == "H-49"
    }
    assert found == expected, body
    assert {each.level for each in report.findings if each.rule != "A-73"} <= {"note"}
    if expected:
        fixed = [repair for repair in report.repairs if repair.kind == "order"]
        assert fixed and all(edit.stmt.pipe == "V" for edit in fixed[0].edits)
        assert len(fixed[0].edits) <= len(expected)
