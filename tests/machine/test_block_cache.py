"""Blocks that do what an earlier block did: the report is the one that checking every block gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.loaded import TextKernel
from ptokit.machine import block_cache
from ptokit.machine.block_cache import BlockCache
from ptokit.machine.executable import MachineExecutable
from ptokit.machine.session import Session
from ptokit.program.expr import BLOCK_IDX, Op, Var
from ptokit.program.ir import Barrier, Branch, Flag, Instr, Loop, Program, Stmt, View
from tests.corpus.hazards.everything import CASES
from tests.machine.manual_programs import ROWS, TILES, Sample, sample
from tests.property.strategies import FUZZ

GRID = 7
PROGRAMS = 40 if FUZZ else 16
"""Random programs of one portion."""
CHUNKS = 8 if FUZZ else 2
"""Portions of the random programs and of the corpus, so that processes can share them."""
CORPUS = CASES if FUZZ else [*{(case.kind, case.bad): case for case in CASES}.values()]
"""One case that has a hazard, and one twin; in `make fuzz`, all."""


def outcome(launch: Any) -> Any:
    """The report of a launch, without its duration; or what it raises."""
    try:
        report = launch().as_dict()
    except (pto.VerifyError, pto.OutOfBoundsError) as problem:
        return type(problem), str(problem)
    report.pop("seconds")
    return report


def both(launch: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The outcome of a launch, and that of the same launch when every block is checked."""
    found = outcome(launch)
    with monkeypatch.context() as patch:
        patch.setattr(block_cache, "MOST_CACHED_ITEMS", 0)
        return found, outcome(launch)


# --- Random programs: blocks differ in some statements, and in the rows that they access


def varied(of: Sample, dice: Random) -> Program:
    """The program with statements that only some blocks execute, some of them twice, on other rows. In half of the
    programs, barriers order everything."""
    tiles, rest = of.program.body[: len(TILES)], of.program.body[len(TILES) :]
    if dice.random() < 0.5:
        rest = tuple(each for stmt in rest if not isinstance(stmt, Flag) for each in (stmt, Barrier("ALL")))
    return replace(of.program, body=(*tiles, *(_varied(stmt, k, dice) for k, stmt in enumerate(rest))))


def _varied(stmt: Stmt, k: int, dice: Random) -> Stmt:
    if isinstance(stmt, Instr) and dice.random() < 0.5:
        operands = tuple(_moved(operand) if isinstance(operand, View) else operand for operand in stmt.operands)
        stmt = replace(stmt, operands=operands)
    drawn = dice.random()
    if drawn < 0.2 and not isinstance(stmt, Flag):
        return Branch(Op("eq", (Op("mod", (BLOCK_IDX, dice.randint(2, 4))), 0)), (stmt,))
    if drawn < 0.3 and not isinstance(stmt, Flag):
        return Loop(Var(f"turn{k}"), 0, Op("mod", (BLOCK_IDX, 3)), 1, (stmt,))
    return stmt


def _moved(view: View) -> View:
    first = Op("add", (view.starts[0], Op("mod", (BLOCK_IDX, 3))))
    return replace(view, starts=(Op("min", (first, ROWS - int(view.sizes[0]))), *view.starts[1:]))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_get_the_report_of_checking_every_block(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(monkeypatch)
    for seed in range(chunk, PROGRAMS * CHUNKS, CHUNKS):
        of, dice = sample(seed), Random(seed)
        kernel = TextKernel(varied(of, dice) if dice.random() < 0.7 else of.program)
        options = pto.MachineOptions(poison=dice.random() < 0.2)
        bits: list[dict[str, bytes]] = []
        found, expected = both(partial(launch_copies, kernel, of, options, bits), monkeypatch)
        assert found == expected and bits[0] == bits[1], f"seed {seed}\n{of}"
    assert min(seen[what] for what in ("followed", "left", "found in a followed block")) >= PROGRAMS / 2, seen


def launch_copies(kernel: Any, of: Sample, options: pto.MachineOptions, bits: list[dict[str, bytes]]) -> Any:
    """Launch on copies of the arrays; what they hold then is added to `bits`."""
    arrays: dict[str, Any] = {name: array.copy() for name, array in of.arrays.items()}
    report = kernel[GRID](**arrays, target=of.target, engine="machine", options=options)
    bits.append({name: array.tobytes() for name, array in arrays.items()})
    return report


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often blocks followed others, left them in the middle, and had findings of their own meanwhile."""
    seen: Counter[str] = Counter()
    check_all, end, report = BlockCache.check_all, Session.end, Session.report

    def left(blocks: BlockCache) -> None:
        seen["left"] += blocks.is_repeat and blocks.item > 0
        check_all(blocks)

    def ended(session: Session) -> None:
        seen["followed"] += session.cache.is_repeat
        end(session)

    def reported(session: Session, findings: Any, *rest: Any, **more: Any) -> None:
        given = list(findings)
        seen["found in a followed block"] += bool(given) and session.cache.is_repeat
        report(session, given, *rest, **more)

    monkeypatch.setattr(BlockCache, "check_all", left)
    monkeypatch.setattr(Session, "end", ended)
    monkeypatch.setattr(Session, "report", reported)
    return seen


# --- The corpus, over several blocks


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_corpus_gets_the_report_of_checking_every_block(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = MachineExecutable.run

    def over_more(self: Any, tensors: Any, integers: Any, grid: int, *rest: Any) -> Any:
        return run(self, tensors, integers, max(grid, 3), *rest)

    monkeypatch.setattr(MachineExecutable, "run", over_more)
    for case in CORPUS[chunk::CHUNKS]:
        found, expected = both(case.launch, monkeypatch)
        assert found == expected, case.id


# --- What a followed block still has to check


@pto.kernel(mode="manual")
def spread_rows(ids, x, out):
    """The last row of `out` is stored after its neighbours, without a flag that would order the two stores."""
    block = pto.block_idx()
    idx = pto.Tile("vec", "int32", 1, 8, addr=0)
    rows = pto.Tile("vec", "float32", 8, 8, addr=64)
    pto.tload(idx, ids[block * 8 : block * 8 + 8])
    pto.tload(rows, x[block * 8 : block * 8 + 8])
    pto.barrier("ALL")
    pto.mscatter(out, rows, idx, coalesce="row", oob="skip")
    pto.tstore(out[block * 8 + 7 : block * 8 + 8], rows[7:8, 0:8])


def spread(blocks: int, *changed: tuple[int, int]) -> Any:
    """Every block scatters to its own rows, except its last one, which is left out; and the changes."""
    ids = np.arange(blocks * 8, dtype="int32")
    ids[7::8] = -1
    for at, row in changed:
        ids[at] = row
    x = np.ones((blocks * 8, 8), "float32")
    return spread_rows[blocks](ids, x, np.zeros((blocks * 8, 8), "float32"), target="a5", engine="machine")


def test_races_repeats_and_conflicts_of_a_later_block_are_found() -> None:
    assert spread(6).ok
    race = spread(6, (4 * 8 + 7, 4 * 8 + 7)).hazards
    assert [(finding.kind, finding.level) for finding in race] == [("H-16", "error")] and race[0].seen.block == 4
    assert [finding.kind for finding in spread(6, (5 * 8, 5 * 8 + 1)).hazards] == ["H-14"]
    across = spread(6, (3 * 8, 1)).hazards
    assert [finding.kind for finding in across] == ["H-16"]
    assert [end.block for end in across[0].ends] == [0, 3]


@pto.kernel
def one_left_out(x, out, odd):
    """One block does not load what it stores."""
    block = pto.block_idx()
    tile = pto.Tile("vec", "float32", 8, 8)
    pto.texpands(tile, 0)
    other = pto.Tile("vec", "float32", 8, 8)
    with pto.when(block != odd):
        pto.tload(other, x[block * 8 : block * 8 + 8])
    pto.tadd(tile, tile, other)
    pto.tstore(out[block * 8 : block * 8 + 8], tile)


@pytest.mark.parametrize("odd", [0, 1, 4, 7])
def test_a_block_that_does_something_else_is_checked(odd: int) -> None:
    x = np.ones((64, 8), "float32")
    report = one_left_out[8](x, np.zeros_like(x), odd, target="a5", engine="machine")
    assert [finding.kind for finding in report.hazards] == ["H-36"]
    assert report.hazards[0].seen.block == odd


def test_equal_blocks_are_followed_and_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(monkeypatch)
    x = np.ones((64, 8), "float32")
    assert one_left_out[8](x, np.zeros_like(x), 99, target="a5", engine="machine").ok
    assert seen == Counter(followed=7)


@pto.kernel(mode="manual")
def copied_often(x, out, turns: pto.const):
    tile = pto.Tile("vec", "float32", 8, 8, addr=0)
    for i in pto.range(turns):
        at = (pto.block_idx() * turns + i) * 8
        pto.tload(tile, x[at : at + 8])
        pto.barrier("ALL")
        pto.tstore(out[at : at + 8], tile)
        pto.barrier("ALL")


@pytest.mark.parametrize("turns", [10, 1_500])
def test_long_blocks_are_followed_as_short_ones_are(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(monkeypatch)
    x = np.ones((3 * turns * 8, 8), "float32")
    assert copied_often[3](x, np.zeros_like(x), turns, target="a5", engine="machine").ok
    assert seen == Counter(followed=2)
