"""Loops in what the blocks of a launch did, with expressions for the numbers that change.

Blocks whose calls have the same places and types share statements. Numbers that no expression has end a loop, or give
blocks statements of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import numpy as np

from ptokit.cxx.fit import Numbers, Unfit, fit
from ptokit.cxx.nest import Again, Entry, Nester, Once, Rank
from ptokit.program.expr import BLOCK_IDX, Expr, Var, substitute

LETTERS = "ijklmnpqrst"
"""Names of loop variables, by depth."""
PATIENCE = 8
"""How many iterations in succession may be unlike the next, before several are taken at a time."""


@dataclass(frozen=True, slots=True)
class Single:
    """A call: its shape, and its numbers."""

    shape: int
    numbers: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A loop: `var` counts from `start` to before `stop`."""

    var: Var
    start: int
    stop: Expr
    body: tuple[Folded, ...]


Folded = Single | Repeated


@dataclass(frozen=True, eq=False)
class Stream:
    """What one block did: the shape and the numbers of each call."""

    block: int
    shapes: Sequence[int]
    numbers: Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class FoldedBlocks:
    """What some blocks of a launch do."""

    blocks: tuple[int, ...]
    body: tuple[Folded, ...]


Row = tuple[Stream, list[Entry]]
"""Entries of one stream."""
Part = TypeVar("Part")


def fold(streams: Sequence[Stream], rank: Rank) -> list[FoldedBlocks]:
    """The loops of all blocks. Blocks that are alike share them."""
    nester = Nester(rank)
    known: dict[bytes, list[Entry]] = {}
    groups: dict[tuple[int, ...], list[Row]] = {}
    for stream in streams:
        key = np.asarray(stream.shapes, np.int64).tobytes()
        if key not in known:
            known[key] = nester.nest(stream.shapes)
        groups.setdefault(tuple([entry.id for entry in known[key]]), []).append((stream, known[key]))
    return [piece for rows in groups.values() for piece in _Folder().blocks(rows)]


class _Folder:
    """Finds the expressions of one group of blocks."""

    def __init__(self) -> None:
        self._numbers = count()

    def blocks(self, rows: list[Row]) -> Iterator[FoldedBlocks]:
        """The blocks in as few groups as expressions allow."""

        def build(first: int, end: int) -> FoldedBlocks:
            chosen = rows[first:end]
            points = np.array([[stream.block] for stream, _ in chosen], np.int64)
            body = _named(self._body(chosen, points, (BLOCK_IDX,)))
            return FoldedBlocks(tuple(stream.block for stream, _ in chosen), body)

        return _pieces(len(rows), build)

    def _body(self, rows: list[Row], points: Numbers, variables: tuple[Var, ...]) -> tuple[Folded, ...]:
        """Statements that all rows have in common."""
        ids = [entry.id for entry in rows[0][1]]
        if any([entry.id for entry in entries] != ids for _, entries in rows[1:]):
            raise Unfit
        found: list[Folded] = []
        for number, entry in enumerate(rows[0][1]):
            column: list[Any] = [(stream, entries[number]) for stream, entries in rows]
            if isinstance(entry, Once):
                found.append(_single(column, points, variables))
            else:
                found += self._loop(column, points, variables)
        return tuple(found)

    def _loop(self, column: list[tuple[Stream, Again]], points: Numbers, variables: tuple[Var, ...]) -> list[Folded]:
        """A loop, in as few pieces as expressions allow."""
        counts = np.array([len(loop.rounds) for _, loop in column], np.int64)
        var = Var(f"#{next(self._numbers)}")

        def build(first: int, end: int | None) -> list[Folded]:
            rows: list[Row] = [(stream, round_) for stream, loop in column for round_ in loop.rounds[first:end]]
            taken = counts if end is None else np.full(len(column), end - first, np.int64)
            inner = np.concatenate([np.arange(first, first + number) for number in taken])
            inside = np.column_stack((np.repeat(points, taken, axis=0), inner))
            body = self._body(rows, inside, (*variables, var))
            if end == first + 1:
                return [*body]
            return [Repeated(var, first, fit(points, counts, variables) if end is None else end, body)]

        if (counts != counts[0]).any():
            return build(0, None)
        return [each for piece in _pieces(int(counts[0]), build) for each in piece]


def _single(column: list[tuple[Stream, Once]], points: Numbers, variables: tuple[Var, ...]) -> Single:
    stream, once = column[0]
    shape = stream.shapes[once.at]
    rows = [each.numbers[entry.at] for each, entry in column]
    if not rows[0]:
        return Single(shape, ())
    if len(rows) == 1 or rows.count(rows[0]) == len(rows):
        return Single(shape, rows[0])
    try:
        table = np.array(rows, np.int64)
    except OverflowError as too_large:
        raise Unfit from too_large
    return Single(shape, tuple([fit(points, table[:, k], variables) for k in range(table.shape[1])]))


def _pieces(size: int, build: Callable[[int, int], Part]) -> Iterator[Part]:
    """What consecutive ranges of `range(size)` build, each as long as can be. Raises Unfit if one number alone builds
    nothing."""
    first, guess, alone = 0, size, 0
    while first < size:
        end, piece = _longest(first, size, guess, build)
        yield piece
        alone = alone + 1 if end == first + 1 else 0
        first, guess = end, 2 * (end - first)
        if alone >= PATIENCE:  # it goes on like this: look again later
            end = min(size, first + alone)
            yield from (build(number, number + 1) for number in range(first, end))
            alone, first = 2 * alone, end


def _longest(first: int, size: int, guess: int, build: Callable[[int, int], Part]) -> tuple[int, Part]:
    """The end of the longest range that can be built, and what it builds."""
    good, bad, length, pieces = 0, size - first + 1, min(guess, size - first), list[Part]()
    while good < bad - 1:
        try:
            pieces, good = [build(first, first + length)], length
        except Unfit:
            if length == 1:
                raise
            bad = length
        length = max(1, 2 * good)
        if length >= bad:
            length = (good + bad) // 2
    return first + good, pieces[0]


def _named(body: tuple[Folded, ...]) -> tuple[Folded, ...]:
    """The same with plain names of the loop variables: by depth, each once."""
    used: Counter[str] = Counter()

    def rename(piece: Folded, names: dict[Var, Expr], depth: int) -> Folded:
        if isinstance(piece, Single):
            return Single(piece.shape, tuple([substitute(number, names) for number in piece.numbers]))
        letter = LETTERS[min(depth, len(LETTERS) - 1)]
        used[letter] += 1
        var = Var(f"{letter}{used[letter]}" if used[letter] > 1 else letter)
        inside = {**names, piece.var: var}
        body = tuple([rename(each, inside, depth + 1) for each in piece.body])
        return Repeated(var, piece.start, substitute(piece.stop, names), body)

    return tuple([rename(piece, {}, 0) for piece in body])
