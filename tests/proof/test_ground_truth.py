"""Proofs of random kernels agree with the machine: no kernel is proved that some small launch shows to be wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

import ptokit as pto
from ptokit.lang.loaded import TextKernel
from ptokit.program.expr import Var
from ptokit.program.ir import Integer, Loop
from ptokit.program.verify_call import Options
from ptokit.proof.explore import Explorer
from ptokit.proof.order import TooMuch
from ptokit.proof.outcome import prove
from ptokit.target import profile
from tests.machine.manual_programs import Sample as ManualSample
from tests.machine.manual_programs import sample as manual_sample
from tests.machine.test_ground_truth import RACES
from tests.proof.programs import GRID, Sample, sample
from tests.property.strategies import FUZZ

pytest.importorskip("z3", reason="proofs about numbers need the solver", exc_type=ImportError)
CHUNKS = 10
COUNT = 2000 if FUZZ else 60
OPTIONS = pto.MachineOptions(checks=("order", "memory", "blocks"))


def is_proved(of: Sample) -> bool:
    return not prove(of.program, profile(of.target), Options(), grid=GRID, seconds=10).open


def fault(of: Sample) -> pto.Finding | None:
    """What the first launch shows that is no note."""
    kernel = TextKernel(of.program)
    for numbers, fill in of.launches:
        arrays = of.arrays
        for name in arrays.keys() & {"k"}:
            arrays[name][...] = fill
        report = kernel[GRID](**arrays, **numbers, target=of.target, engine="machine", options=OPTIONS)
        found = [finding for finding in report.findings if finding.level != "note"]
        if found:
            return found[0]
    return None


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_proofs_agree_with_enumeration(chunk: int) -> None:
    for seed in range(chunk, COUNT, CHUNKS):
        of = sample(seed)
        found = fault(of)
        assert is_proved(of) == (found is None), f"seed {seed}: {found}\n{of}"


def test_the_kernels_are_a_good_mixture() -> None:
    """Many are right, many wrong; on one core and on two."""
    drawn = [sample(seed) for seed in range(40)]
    kinds = Counter((is_proved(of), any(tile.name == "c0" for tile in of.program.tiles.values())) for of in drawn)
    assert all(kinds[proved, two] >= 3 for proved in (True, False) for two in (True, False)), kinds


def _in_a_loop(of: ManualSample) -> ManualSample:
    """The program with its instructions and flags in a loop of any number of iterations."""
    first = len(of.program.tiles)
    tiles, rest = of.program.body[:first], of.program.body[first:]
    body = (*tiles, Loop(Var("turn"), 0, Var("n"), 1, rest))
    return replace(of, program=replace(of.program, arguments=(*of.program.arguments, Integer("n")), body=body))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_loop_over_random_instructions_is_wrongly_proved(chunk: int) -> None:
    """Indices are values, of which a proof says nothing: it takes all of a table, and may not prove what is right."""
    options = pto.MachineOptions(checks=("order",), poison=False)
    proved = wrong = 0
    for seed in range(chunk, COUNT, CHUNKS):
        of = _in_a_loop(manual_sample(seed))
        explorer = Explorer(of.program, profile(of.target), Options(), {}, 10)
        is_whole = True
        try:
            explorer.run()
        except TooMuch:
            is_whole = False
        is_proved = is_whole and all(fault.kind in ("unwritten", "overwritten") for fault in explorer.faults)
        for n in range(5):
            arrays = {name: array.copy() for name, array in of.arrays.items()}
            report = TextKernel(of.program)[1](**arrays, n=n, target=of.target, engine="machine", options=options)
            faults = [each for each in report.findings if each.level != "note" and each.rule in RACES]
            assert not (is_proved and faults), f"seed {seed}, n = {n}: {faults[0]}\n{of}"
            wrong += bool(faults)
        proved += is_proved
    assert proved and wrong
