"""Loops of recorded calls: what is folded makes the same calls, and regular calls become few statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

import numpy as np
import pytest

from ptokit.cxx.fit import Unfit, fit
from ptokit.cxx.loops import Folded, FoldedBlocks, Single, Stream, Tables, fold, table_of
from ptokit.program.expr import BLOCK_IDX, Var, evaluate

Call = tuple[int, tuple[int, ...]]


def stream(calls: Iterable[Call], block: int = 0, tables: Tables | None = None) -> Stream:
    made, tables = [*calls], tables or Tables()
    rows = [tables.add(shape, table_of([numbers])) for shape, numbers in made]
    return Stream(block, np.array([shape for shape, _ in made], np.int64), np.array(rows, np.int64), tables)


def calls_of(each: Stream) -> list[Call]:
    """The calls that a stream is made of."""
    pairs = zip(each.shapes.tolist(), each.rows.tolist(), strict=True)
    return [(shape, each.tables.numbers(shape, row)) for shape, row in pairs]


def folded(*streams: Stream) -> list[FoldedBlocks]:
    tables = Tables()  # those that are folded together share them
    return fold([[stream(calls_of(each), each.block, tables)] for each in streams], lambda shape: shape)


def made(groups: list[FoldedBlocks], block: int) -> Iterator[Call]:
    """The calls that a block makes, by running its loops."""

    def run(body: tuple[Folded, ...], values: dict[Var, int]) -> Iterator[Call]:
        for piece in body:
            if isinstance(piece, Single):
                yield piece.shape, tuple(evaluate(number, values) for number in piece.numbers)
            else:
                for value in range(piece.start, evaluate(piece.stop, values)):
                    yield from run(piece.body, {**values, piece.var: value})

    for group in groups:
        if block in group.blocks:
            yield from run(group.body, {BLOCK_IDX: block})


def size(body: tuple[Folded, ...]) -> int:
    return sum(1 if isinstance(piece, Single) else 1 + size(piece.body) for piece in body)


def statements(groups: list[FoldedBlocks]) -> int:
    return sum(size(group.body) for group in groups)


def ping_pong(block: int, trips: int = 9) -> Iterator[Call]:
    """Two buffers: the first iterations wait for nothing, the last one is short, and the flags are drained."""
    yield 0, (0,)
    yield 0, (1,)
    for i in range(trips):
        yield 1, (i % 2,)
        yield 2, (i % 2 * 4096, block * 1000 + i * 64, 64 if i < trips - 1 or block < 3 else 17)
        for j in range(5):
            yield 3, (j * 3 + i, (i * 5 + j) % 2)
        yield 4, (i % 2,)
    yield 5, (0,)
    yield 5, (1,)


def triangle(_block: int) -> Iterator[Call]:
    for i in range(7):
        yield 0, (i,)
        for j in range(i + 2):
            yield 1, (i * 10 + j,)
        yield 2, ()


def first_without(_block: int) -> Iterator[Call]:
    """The first iteration has no wait: the loop begins with the others' first line."""
    for i in range(6):
        if i:
            yield 0, (i % 2,)
        yield 1, (i * 8,)
        yield 2, (i % 2,)


REGULAR = [(ping_pong, 4, 11), (triangle, 2, 5), (first_without, 1, 6)]


@pytest.mark.parametrize(("calls", "grid", "most"), REGULAR, ids=lambda each: getattr(each, "__name__", str(each)))
def test_regular_calls_become_loops(calls: Callable[[int], Iterator[Call]], grid: int, most: int) -> None:
    groups = folded(*(stream(calls(block), block) for block in range(grid)))
    for block in range(grid):
        assert [*made(groups, block)] == [*calls(block)]
    assert statements(groups) <= most


def test_a_loop_begins_with_its_first_line() -> None:
    (group,) = folded(stream(first_without(0)))
    loop = next(piece for piece in group.body if not isinstance(piece, Single))
    assert [piece.shape for piece in loop.body if isinstance(piece, Single)] == [0, 1, 2]


def random_calls(dice: Random, depth: int = 0) -> Iterator[Call]:
    """Nested loops with numbers that are regular, and some that are not."""
    for _ in range(dice.randrange(1, 4)):
        shape, trips, kind = dice.randrange(8), dice.randrange(1, 6), dice.randrange(5)
        for i in range(trips):
            number = (i, i % 2, 7, dice.randrange(100), int(i == trips - 1))[kind]
            yield shape, (number, i * shape)
            if depth < 2 and dice.random() < 0.4:
                yield from random_calls(dice, depth + 1)


@pytest.mark.parametrize("seed", range(150))
def test_random_calls_stay_the_same(seed: int) -> None:
    dice = Random(seed)
    streams = [stream(random_calls(Random(dice.randrange(3))), block) for block in range(dice.randrange(1, 5))]
    groups = folded(*streams)
    for each in streams:
        assert [*made(groups, each.block)] == calls_of(each)
    assert sorted(block for group in groups for block in group.blocks) == [each.block for each in streams]


def uneven_calls(dice: Random, outer: tuple[int, ...]) -> Iterator[Call]:
    """Nested loops whose trip counts depend on the loops around them, with numbers at the ends of 64 bits."""
    number = sum(outer)
    for _ in range(dice.randrange(1, 4)):
        kind, seed, alike = dice.randrange(6), dice.randrange(1 << 30), dice.random() < 0.8
        first = dice.choice((0, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 63) - 64, -(1 << 63), (1 << 64) - 1))
        step = dice.choice((1, -1, 64, 4096, 1 << 61, -(1 << 62)))
        if kind < 3 and len(outer) < 4:
            for i in range((3, number + 1, max(0, 4 - number))[kind]):
                yield from uneven_calls(Random(seed + (0 if alike else i)), (*outer, i))
        else:
            yield kind, (first + step * number, (first, first + step)[number % 2], step * (number // 2))


@pytest.mark.parametrize("seed", range(60))
def test_uneven_loops_and_large_numbers_stay_the_same(seed: int) -> None:
    streams = [stream(uneven_calls(Random(seed), (block,)), block) for block in range(seed % 3 + 1)]
    groups = folded(*streams)
    for each in streams:
        assert [*made(groups, each.block)] == calls_of(each)


def test_a_hundred_thousand_calls_become_a_few_statements() -> None:
    calls = [(shape, (i % 2, i * 64, j)) for i in range(2_500) for j in range(4) for shape in range(10)]
    (group,) = folded(stream(calls))
    assert size(group.body) <= 12
    assert [*made([group], 0)] == calls


def test_numbers_without_order_stay_as_they_are() -> None:
    dice = Random(1)
    calls = [(shape, (dice.randrange(10**9),)) for _ in range(300) for shape in range(2)]
    assert [*made(folded(stream(calls)), 0)] == calls


# --- expressions


def points(*extents: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.stack(np.meshgrid(*map(np.arange, extents), indexing="ij"), -1).reshape(-1, len(extents))


FORMULAS: dict[str, Callable[..., int]] = {
    "constant": lambda b, i, j: 5,
    "linear": lambda b, i, j: 1000 * b - 64 * i + 3 * j + 7,
    "two buffers": lambda b, i, j: 4096 * (i % 2) + b,
    "three buffers": lambda b, i, j: (0, 9, 4)[i % 3],
    "rows and columns": lambda b, i, j: j // 3 * 100 + j % 3,
    "a counter over both loops": lambda b, i, j: (i * 5 + j) % 2,
    "the last iteration is short": lambda b, i, j: 64 if i < 6 else 17,
    "the first iteration differs": lambda b, i, j: 100 if i == 0 else i,
    "the last iteration of the last block is short": lambda b, i, j: 64 if (b, i, j) != (3, 6, 4) else 17,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_expressions_have_the_values_that_they_were_found_for(name: str) -> None:
    table, variables = points(4, 7, 5), (Var("b"), Var("i"), Var("j"))
    values = np.array([FORMULAS[name](*map(int, row)) for row in table])
    found = fit(table, values, variables)
    for row, value in zip(table, values, strict=True):
        assert evaluate(found, dict(zip(variables, map(int, row), strict=True))) == value


def test_numbers_without_a_rule_have_no_expression() -> None:
    with pytest.raises(Unfit):
        fit(points(1, 9), np.array([3, 1, 4, 1, 5, 9, 2, 6, 5]), (Var("b"), Var("i")))
