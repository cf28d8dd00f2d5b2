"""Repetitions in a sequence of calls: which calls form the rounds of loops, by the places that they were made at.

A call is known here by its shape alone, a number. `nest` finds nested repetitions in one pass: what was just seen is
compared with what is before it, and with the loop before it. Rounds may differ in how often an inner loop repeats.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
                flat = [each for round_ in rounds for each in round_][shift:] + entries[at : at + shift]
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
