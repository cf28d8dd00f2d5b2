"""Loops in what the blocks of a launch did, with expressions for the numbers that change.

Blocks whose calls have the same places and types share statements. Numbers that no expression has end a loop, or give
blocks statements of their own. `Nester` finds which calls form the rounds of loops in one pass: what was just seen is
compared with what is before it, and with the loop before it. A call is known there by its shape alone, a number. Rounds
may differ in how often an inner loop repeats.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import Any, TypeVar

import numpy as np

from ptokit.cxx.alike import Ints
from ptokit.cxx.fit import Numbers, Unfit, fit
from ptokit.program.expr import BLOCK_IDX, SUBBLOCK_IDX, Expr, Var, substitute

PRIME, BASE = (1 << 61) - 1, 1_000_003
"""Of the hashes of sequences."""
MOST_TRIED = 32
"""Earlier calls of one shape that may begin the previous round."""


@dataclass(slots=True, eq=False)
class Once:
    """One call."""

    id: int
    at: int
    """Its position in the sequence."""


@dataclass(slots=True, eq=False)
class Again:
    """A loop."""

    id: int
    rounds: list[list[Entry]]


Entry = Once | Again
Rank = Callable[[int], Any]
"""The place of a call's shape in the source, to compare."""


class Nester:
    """Finds loops. Equal calls and equal loops of all sequences have equal ids."""

    def __init__(self, rank: Rank) -> None:
        self._ids: dict[tuple[object, ...], int] = {}
        self.powers = [1]
        """Of `BASE`."""
        self._bodies: dict[int, tuple[int, ...]] = {}
        """The ids in a round of each loop."""
        self._rank = rank
        self._first: dict[int, Any] = {}
        """The rank of the first call of each id."""

    def nest(self, shapes: Sequence[int]) -> list[Entry]:
        """The sequence with its repetitions as loops."""
        stack = _Stack(self)
        for at, shape in enumerate(shapes):
            stack.push(Once(self._leaf(shape), at))
        return self._turned(stack.entries)

    def _leaf(self, shape: int) -> int:
        made = self._ids.get((shape,))
        if made is None:
            made = self._ids[(shape,)] = len(self._ids)
            self._first[made] = self._rank(shape)
        return made

    def loop(self, body: tuple[int, ...]) -> int:
        """The id of a loop, by the ids in its rounds."""
        key = ("loop", *body)
        made = self._ids.get(key)
        if made is None:
            made = self._ids[key] = len(self._ids)
            self._bodies[made] = body
            self._first[made] = self._first[body[0]]
        return made

    def body(self, id: int) -> tuple[int, ...]:
        """The ids in a round of a loop; empty for a call."""
        return self._bodies.get(id, ())

    def _turned(self, entries: list[Entry]) -> list[Entry]:
        """Loops that begin with the first line of their body, if the calls behind them are the rest of a round."""
        done: list[Entry] = []
        at = 0
        while at < len(entries):
            entry = entries[at]
            at += 1
            if isinstance(entry, Again):
                rounds = [self._turned(round_) for round_ in entry.rounds]
                shift = self._shift(rounds, entries[at : at + len(rounds[0])])
                done += rounds[0][:shift]
                flat = [entry for round_ in rounds for entry in round_][shift:] + entries[at : at + shift]
                if shift:
                    rounds = [flat[k : k + len(rounds[0])] for k in range(0, len(flat), len(rounds[0]))]
                entry = Again(self.loop(_ids(rounds[0])), rounds)
                at += shift
            done.append(entry)
        return done

    def _shift(self, rounds: list[list[Entry]], behind: list[Entry]) -> int:
        """How many calls of its first round to take out of a loop."""
        body = _ids(rounds[0])
        first = min(range(len(body)), key=lambda k: self._first[body[k]])
        fits = _ids(behind[:first]) == body[:first] and all(_ids(round_) == body for round_ in rounds)
        return first if fits else 0


def _ids(entries: list[Entry]) -> tuple[int, ...]:
    return tuple([entry.id for entry in entries])


class _Stack:
    """Calls and loops so far."""

    def __init__(self, nester: Nester) -> None:
        self.nester = nester
        self.entries: list[Entry] = []
        self.ids: list[int] = []
        self.hashes = [0]
        """Of the ids before each position."""
        self.places: dict[int, list[int]] = defaultdict(list)
        """Where each id is in the stack."""
        self.ends: dict[int, list[int]] = defaultdict(list)
        """Where loops are in the stack, by the last id of the body of a loop that may go on there."""

    def push(self, entry: Entry) -> None:
        self._add(entry)
        while not self._goes_on() and self._repeats():
            pass

    def _add(self, entry: Entry) -> None:
        at = len(self.ids)
        self.entries.append(entry)
        self.ids.append(entry.id)
        self.hashes.append((self.hashes[-1] * BASE + entry.id + 1) % PRIME)
        if len(self.nester.powers) <= at + 1:
            self.nester.powers.append(self.nester.powers[-1] * BASE % PRIME)
        self.places[entry.id].append(at)
        for loop in _open_loops(entry) if isinstance(entry, Again) else ():
            self.ends[self.nester.body(loop.id)[-1]].append(at)

    def _take(self, start: int) -> list[Entry]:
        """Take the entries from a position on out of the stack."""
        taken = self.entries[start:]
        for entry in reversed(taken):
            self.places[entry.id].pop()
            for loop in _open_loops(entry) if isinstance(entry, Again) else ():
                self.ends[self.nester.body(loop.id)[-1]].pop()
        del self.entries[start:], self.ids[start:], self.hashes[start + 1 :]
        return taken

    def _goes_on(self) -> bool:
        """Whether the last entries are a round of the loop before them, which takes them."""
        end, last = len(self.ids), self.ids[-1]
        if last not in self.ends:
            return False
        for at in reversed(self.ends[last][-MOST_TRIED:]):
            entry = self.entries[at]
            for loop in _open_loops(entry):
                body = self.nester.body(loop.id)
                if len(body) == end - at - 1 and tuple(self.ids[at + 1 :]) == body:
                    round_ = self._take(at + 1)
                    is_plain = isinstance(round_[-1], Once)  # then the loops that end here stay the same
                    if not is_plain:
                        self._take(at)
                    loop.rounds.append(round_)
                    if not is_plain:
                        self._add(entry)
                    return True
        return False

    def _hash(self, start: int, end: int) -> int:
        return (self.hashes[end] - self.hashes[start] * self.nester.powers[end - start]) % PRIME

    def _repeats(self) -> bool:
        """Whether the last entries are equal to those before them; they become a loop."""
        end = len(self.ids)
        for at in reversed(self.places[self.ids[-1]][-MOST_TRIED - 1 : -1]):
            size = end - 1 - at
            start = end - 2 * size
            if start < 0 or self._hash(start, at + 1) != self._hash(at + 1, end):
                continue
            if self.ids[start : start + size] == self.ids[start + size :]:
                body = tuple(self.ids[start + size :])
                taken = self._take(start)
                self._add(Again(self.nester.loop(body), [taken[:size], taken[size:]]))
                return True
        return False


def _open_loops(entry: Entry) -> list[Again]:
    """The loops that end where an entry ends, the innermost first."""
    found: list[Again] = []
    while isinstance(entry, Again):
        found.append(entry)
        entry = entry.rounds[-1][-1]
    return found[::-1]


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


class Tables:
    """The numbers of calls: a table for each shape, with a row for each distinct call."""

    def __init__(self) -> None:
        self._parts: dict[int, list[np.ndarray[Any, Any]]] = {}
        self._sizes: Counter[int] = Counter()

    def add(self, shape: int, rows: np.ndarray[Any, Any]) -> int:
        """Append rows of a shape; returns the place of the first."""
        self._parts.setdefault(shape, []).append(rows)
        self._sizes[shape] += len(rows)
        return self._sizes[shape] - len(rows)

    def table(self, shape: int) -> np.ndarray[Any, Any]:
        """The table of a shape."""
        parts = self._parts[shape]
        if len(parts) > 1:
            parts[:] = [np.concatenate(parts)]
        return parts[0]

    def numbers(self, shape: int, row: int) -> tuple[int, ...]:
        """The numbers of one call."""
        return tuple(self.table(shape)[row].tolist())


def table_of(rows: Sequence[Sequence[int]]) -> np.ndarray[Any, Any]:
    """Rows of numbers, of 64 bits if they all fit."""
    try:
        return np.array(rows, np.int64)
    except OverflowError:
        return np.array(rows, object)


@dataclass(frozen=True, eq=False)
class Stream:
    """What one block did: the shape of each call, and its row in the table of that."""

    block: int
    shapes: Ints
    rows: Ints
    tables: Tables
    vector: int | None = None
    """The vector core of the block; None if the program has one."""


@dataclass(frozen=True)
class FoldedBlocks:
    """What some blocks of a launch do."""

    blocks: tuple[int, ...]
    body: tuple[Folded, ...]
    vector: int | None = None
    """The vector core that does it; None for each."""


Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class _Column:
    """What stands at one place of many rounds: a call, or a loop."""

    id: int
    at: Ints
    """Of a call, in each round: its position among the calls of all streams. Of a loop: how many rounds it has."""
    kinds: Ints | None = None
    """Of a loop: what each of its rounds consists of, all after each other: an index of `bodies`."""
    places: Ints | None = None
    """Of a loop: which round of that kind each of them is."""
    bodies: tuple[tuple[_Column, ...], ...] = ()

    @property
    def starts(self) -> Ints:
        """Of a loop: where the rounds begin."""
        return np.cumsum(self.at) - self.at


def _columns(rounds: Sequence[Sequence[Entry]]) -> tuple[_Column, ...]:
    """The columns of rounds with equal ids."""
    return tuple([_column(column) for column in zip(*rounds, strict=True)])


def _column(column: Sequence[Any]) -> _Column:
    first: Entry = column[0]
    if isinstance(first, Once):
        return _Column(first.id, np.array([entry.at for entry in column], np.int64))
    rounds = [round_ for entry in column for round_ in entry.rounds]
    alike: dict[tuple[int, ...], list[int]] = {}
    for at, round_ in enumerate(rounds):
        alike.setdefault(_ids(round_), []).append(at)
    kinds, places = np.empty((2, len(rounds)), np.int64)
    for number, own in enumerate(alike.values()):
        kinds[own], places[own] = number, np.arange(len(own))
    counts = np.array([len(entry.rounds) for entry in column], np.int64)
    bodies = tuple([_columns([rounds[at] for at in own]) for own in alike.values()])
    return _Column(first.id, counts, kinds, places, bodies)


def _ranges(starts: Ints, counts: Ints) -> Ints:
    """Consecutive numbers from each start on, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def _taken(column: _Column, rounds: Ints) -> _Column:
    """The same of some rounds."""
    if column.kinds is None or column.places is None:
        return replace(column, at=column.at[rounds])
    inner = _ranges(column.starts[rounds], column.at[rounds])
    return replace(column, at=column.at[rounds], kinds=column.kinds[inner], places=column.places[inner])


def _repeated(column: _Column, bases: Ints) -> _Column:
    """A column for several streams that are alike, whose calls begin at some positions."""
    if column.kinds is None or column.places is None:
        return replace(column, at=np.add.outer(bases, column.at).reshape(-1))
    sizes = np.bincount(column.kinds, minlength=len(column.bodies))
    places = np.add.outer(np.arange(len(bases)), np.zeros(len(column.places), np.int64)) * sizes[column.kinds]
    return replace(
        column,
        at=np.tile(column.at, len(bases)),
        kinds=np.tile(column.kinds, len(bases)),
        places=(places + column.places).reshape(-1),
        bodies=tuple([tuple([_repeated(each, bases) for each in body]) for body in column.bodies]),
    )


def _joined(parts: Sequence[_Column]) -> _Column:
    """Columns with one id, one after the other."""
    first, at = parts[0], np.concatenate([part.at for part in parts])
    if len(parts) == 1 or first.kinds is None:
        return replace(first, at=at)
    bodies: dict[tuple[int, ...], list[tuple[_Column, ...]]] = {}
    kinds, places, sizes = list[Ints](), list[Ints](), Counter[int]()
    for part in parts:
        assert part.kinds is not None and part.places is not None
        keys = [tuple([column.id for column in body]) for body in part.bodies]
        for key in keys:
            bodies.setdefault(key, [])
        new = np.array([list(bodies).index(key) for key in keys])
        kinds.append(new[part.kinds])
        places.append(part.places + np.array([sizes[number] for number in new.tolist()])[part.kinds])
        for key, number, body, size in zip(
            keys, new.tolist(), part.bodies, np.bincount(part.kinds, minlength=len(keys)).tolist(), strict=True
        ):
            bodies[key].append(body)
            sizes[number] += size
    made = tuple([tuple(map(_joined, zip(*own, strict=True))) for own in bodies.values()])
    return _Column(first.id, at, np.concatenate(kinds), np.concatenate(places), made)


def fold(blocks: Sequence[Sequence[Stream]], rank: Rank) -> list[FoldedBlocks]:
    """The loops of all blocks, each of one stream, or of those of its vector cores, which are alike. Blocks that are
    alike share them. Raises Unfit if the streams of one block do not."""
    nester = Nester(rank)
    known: dict[bytes, list[Entry]] = {}
    groups: dict[tuple[int | None, ...], list[tuple[Sequence[Stream], bytes]]] = {}
    for streams in blocks:
        shapes = streams[0].shapes
        key = shapes.tobytes()
        if key not in known:
            known[key] = nester.nest(shapes.tolist())
        vector = streams[0].vector if len(streams) == 1 else None
        alike = (vector, len(streams), *(entry.id for entry in known[key]))
        groups.setdefault(alike, []).append((streams, key))
    return [piece for rows in groups.values() for piece in _Folder(rows, known).blocks()]


class _Folder:
    """Finds the expressions of one group of blocks."""

    def __init__(self, rows: Sequence[tuple[Sequence[Stream], bytes]], known: Mapping[bytes, list[Entry]]) -> None:
        self._numbers = count()
        self._rows = rows
        streams = [stream for own, _ in rows for stream in own]
        self._shapes = np.concatenate([stream.shapes for stream in streams])
        self._places = np.concatenate([stream.rows for stream in streams])
        self._tables = streams[0].tables
        sizes = np.array([len(stream.shapes) for stream in streams])
        bases = dict(zip(map(id, streams), (np.cumsum(sizes) - sizes).tolist(), strict=True))
        parts: list[tuple[_Column, ...]] = []
        for key, alike in groupby(rows, key=lambda row: row[1]):
            own = np.array([bases[id(stream)] for streams, _ in alike for stream in streams])
            parts.append(tuple([_repeated(column, own) for column in _columns([known[key]])]))
        self._columns = tuple(map(_joined, zip(*parts, strict=True)))

    def blocks(self) -> Iterator[FoldedBlocks]:
        """The blocks in as few groups as expressions allow."""
        rows, width = self._rows, len(self._rows[0][0])

        def build(first: int, end: int) -> FoldedBlocks:
            chosen = [stream for streams, _ in rows[first:end] for stream in streams]
            blocks = tuple(streams[0].block for streams, _ in rows[first:end])
            if width == 1:
                points, variables = [[stream.block] for stream in chosen], (BLOCK_IDX,)
            else:
                points, variables = [[stream.block, stream.vector] for stream in chosen], (BLOCK_IDX, SUBBLOCK_IDX)
            taken = np.arange(width * first, width * end)
            columns = [_taken(column, taken) for column in self._columns]
            body = _named(self._body(columns, np.array(points, np.int64), variables))
            return FoldedBlocks(blocks, body, chosen[0].vector if width == 1 else None)

        return _pieces(len(rows), build)

    def _body(self, columns: Sequence[_Column], points: Numbers, variables: tuple[Var, ...]) -> tuple[Folded, ...]:
        """The statements of some columns."""
        found: list[Folded] = []
        for column in columns:
            if column.kinds is None:
                found.append(self._single(column.at, points, variables))
            else:
                found += self._loop(column, points, variables)
        return tuple(found)

    def _loop(self, column: _Column, points: Numbers, variables: tuple[Var, ...]) -> list[Folded]:
        """A loop, in as few pieces as expressions allow."""
        counts, starts = column.at, column.starts
        var = Var(f"#{next(self._numbers)}")

        def build(first: int, end: int | None) -> list[Folded]:
            assert column.kinds is not None and column.places is not None
            taken = counts if end is None else np.full(len(counts), end - first, np.int64)
            rounds = _ranges(starts + first, taken)
            kinds, places = column.kinds[rounds], column.places[rounds]
            if (kinds != kinds[0]).any():
                raise Unfit
            inside = np.column_stack((np.repeat(points, taken, axis=0), rounds - np.repeat(starts, taken)))
            columns = [_taken(each, places) for each in column.bodies[int(kinds[0])]]
            body = self._body(columns, inside, (*variables, var))
            if end == first + 1:
                return [*body]
            return [Repeated(var, first, fit(points, counts, variables) if end is None else end, body)]

        if (counts != counts[0]).any():
            return build(0, None)
        return [entry for piece in _pieces(int(counts[0]), build) for entry in piece]

    def _single(self, positions: Ints, points: Numbers, variables: tuple[Var, ...]) -> Single:
        shape = int(self._shapes[positions[0]])
        table = self._tables.table(shape)[self._places[positions]]
        if not table.shape[1] or (table == table[0]).all():
            return Single(shape, tuple(table[0].tolist()))
        try:
            table = table.astype(np.int64)
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
        body = tuple([rename(inner, inside, depth + 1) for inner in piece.body])
        return Repeated(var, piece.start, substitute(piece.stop, names), body)

    return tuple([rename(piece, {}, 0) for piece in body])
