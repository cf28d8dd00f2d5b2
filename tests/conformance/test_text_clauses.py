"""Every mode and policy in every textual form: the spelling, the program that it means, and the round trip."""

from __future__ import annotations

from itertools import product

import pytest

from ptokit.isa.policy import (
    Coalesce,
    GatherOOB,
    PtoEnum,
    ScatterAtomicOp,
    ScatterConflict,
    ScatterOOB,
)
from ptokit.program.ir import Instr, Program
from ptokit.text.forms import print_program, read_program
from ptokit.text.ptoas import print_ptoas, read_ptoas
from tests.text.test_ptoas import COL, ELEM, MEM, ROW, TILE, program

FORMS = ("as", "l1", "l2")
INDEX = {"row": COL, "elem": ELEM}


def modifiers(of: Program) -> tuple[PtoEnum | None, ...]:
    (instr,) = [stmt for stmt in of.body if isinstance(stmt, Instr)]
    return instr.modifiers


def same(found: PtoEnum | None, wanted: PtoEnum, default: PtoEnum) -> bool:
    """A modifier that is left out means its default."""
    return (default if found is None else found) is wanted


def suffix(word: str) -> str:
    return f".{word}" if word else ""


@pytest.mark.clause("MG-ASM-02", "MG-ASM-03", "MG-ASM-04", "A-25", "A-27")
@pytest.mark.parametrize(("mode", "policy"), list(product(("row", "elem"), ("", "clamp", "wrap", "zero"))))
def test_modes_and_policies_of_mgather(mode: str, policy: str) -> None:
    index = ROW if mode == "row" else ELEM
    opcode = f"mgather.{mode}{suffix(policy)}"
    text = f"{opcode} %dst, %table, %idx : ({TILE}, {MEM}, {index})"
    found = program(text)
    coalesce, oob, executor = modifiers(found)
    assert same(coalesce, Coalesce.parse(mode), Coalesce.Row)
    assert same(oob, GatherOOB.parse(policy or "undefined"), GatherOOB.Undefined)
    assert executor is None
    for form in FORMS:
        assert read_program(print_program(found, form)) == found, form
    assert f"\n{text}\n" in print_ptoas(read_ptoas(text))


ATOMICS = ("", "atomic_add", "atomic_max", "atomic_min")
OUTSIDE = ("", "skip", "clamp", "wrap")


@pytest.mark.clause("MS-ASM-04", "MS-ASM-05", "MS-ASM-06", "A-25", "A-27")
@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize(("atomic", "policy", "conflict"), list(product(ATOMICS, OUTSIDE, ("", "last"))))
def test_modes_atomics_and_policies_of_mscatter(mode: str, atomic: str, policy: str, conflict: str) -> None:
    opcode = f"mscatter.{mode}{suffix(atomic)}{suffix(policy)}{suffix(conflict)}"
    text = f"{opcode} %table, %src, %idx : ({MEM}, {TILE}, {INDEX[mode]})"
    found = program(text)
    coalesce, combine, oob, winner = modifiers(found)
    assert coalesce in (None, Coalesce.parse(mode))  # the index shape says the same
    assert same(combine, ScatterAtomicOp.parse(atomic.removeprefix("atomic_") or "none"), ScatterAtomicOp.NONE)
    assert same(oob, ScatterOOB.parse(policy or "undefined"), ScatterOOB.Undefined)
    assert same(winner, ScatterConflict.parse(conflict or "default"), ScatterConflict.Default)
    for form in FORMS:
        assert read_program(print_program(found, form)) == found, form
    assert f"\n{text}\n" in print_ptoas(read_ptoas(text))


@pytest.mark.clause("MG-ASM-05", "MG-ASM-06", "MS-ASM-02", "MS-ASM-03", "TS-ASM-01", "TS-ASM-02", "TS-ASM-03")
def test_operands_stand_in_the_order_of_each_level() -> None:
    gather = program(f"%dst = mgather %mem, %idx : {MEM}, {ROW} -> {TILE}")
    scatter = program(f"mscatter.row %mem, %src, %idx : ({MEM}, {TILE}, {COL})")
    tiles = program(f"%dst = tscatter %src, %idx : {TILE}, {ELEM} -> {TILE}")
    spelled = {
        ("l1", "pto.mgather"): (gather, ["mem", "idx"]),
        ("l2", "pto.mgather"): (gather, ["mem", "idx", "dst"]),
        ("l1", "pto.mscatter"): (scatter, ["src", "idx", "mem"]),
        ("l2", "pto.mscatter"): (scatter, ["src", "idx", "mem"]),
        ("l1", "pto.tscatter"): (tiles, ["src", "idx"]),
        ("l2", "pto.tscatter"): (tiles, ["src", "idx", "dst"]),
    }
    for (form, opcode), (of, operands) in spelled.items():
        (line,) = [line for line in print_program(of, form).splitlines() if f"{opcode} " in line]
        rest = line.split(f"{opcode} ")[1]
        found = [name for name in rest.replace("(", " ").replace(",", " ").split() if name.startswith("%")]
        assert [name.lstrip("%").split("_")[0] for name in found] == operands, line
        if form == "l2":
            assert rest.startswith("ins(") and " outs(" in rest
        else:
            assert "ins(" not in rest and " -> " in rest
