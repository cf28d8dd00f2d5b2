"""ptokit compared with NumPy, PyTorch, Numba and memcpy, on the same arrays in one run.

    python benchmarks/peers.py [--quick] [--case PATTERN] [--threads N] [--repeats N] [--out FOLDER]

Prints GB/s of payload and ratios, writes them as Markdown and JSON, and ends with status 1 if a required figure is
missed. A missed figure gets more rounds, up to three times as many, before it counts.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from _cases import CASES, FULL, QUICK, Sizes, Works
from _contenders import LIBRARIES, Contender, Library, limit, pick
from _kernels import compiling, launch_overhead, programs
from _machine import Neighbours, cores, facts
from _measure import OURS, Ask, Times, Verdict, Who, interleaved, judge
from _report import Report, Result, figure, show, write
from rich.console import Console

HERE = Path(__file__).parent
PAUSE = 0.005
"""Seconds after which idle threads of a library have stopped spinning."""
PATIENCE = 1.0
"""Seconds that a contender may spend on its rounds of a case."""
ATTEMPTS = 3
"""How often the rounds of a case are run while it misses a requirement."""


@dataclass(frozen=True)
class Plan:
    """The settings of a run."""

    sizes: Sizes
    rounds: int
    most: int
    """Threads, besides one thread."""
    pattern: str

    def wants(self, group: str, name: str) -> bool:
        """Whether a case is selected."""
        return fnmatchcase(f"{group}: {name}".lower(), f"*{self.pattern.lower()}*")


def contest(
    plan: Plan, group: str, name: str, contenders: Sequence[Contender], payload: int, asks: Sequence[Ask]
) -> Result:
    """Measure contenders, interleaved; a case that misses a requirement gets more rounds."""
    calls, before = {c.who: c.call for c in contenders}, {c.who: c.before for c in contenders}
    right = {c.who for c in contenders if c.right}
    times: Times[Who] = {who: [] for who in calls}
    verdicts: list[Verdict] = []
    for _ in range(ATTEMPTS):
        more = interleaved(calls, plan.rounds, before=before, pause=PAUSE, patience=PATIENCE)
        for contender in contenders:
            times[contender.who] += [t * payload / contender.payload for t in more[contender.who]]
        verdicts = judge(name, asks, times, right, plan.most)
        if all(verdict.met for verdict in verdicts):
            break
    return Result(group, name, tuple(contenders), times, payload, tuple(verdicts))


def contenders_for(
    works: Works, libraries: Sequence[Library], counts: Sequence[int], note: Callable[[str], None]
) -> Iterator[Contender]:
    """All contenders for some moves, with each number of threads, and the limit."""
    for library in libraries:
        for threads in counts if library.threaded else (1,):
            found = pick(library, works, threads)
            if isinstance(found, Contender):
                yield found
            elif found:
                note(f"{library.name} on {threads}: {found}")
    yield from map(limit, counts)


def moves(plan: Plan, note: Callable[[str], None]) -> Iterator[Result]:
    """All selected indexed moves."""
    for case in CASES:
        if plan.wants(case.group, case.name):
            works = case.works(plan.sizes)
            counts = case.counts(plan.most)
            found = list(contenders_for(works, LIBRARIES, counts, lambda said, name=case.name: note(f"{name}: {said}")))
            yield contest(plan, case.group, case.name, found, works.payload, case.asks)


def tile_programs(plan: Plan, note: Callable[[str], None]) -> Iterator[Result]:
    """The selected programs over many blocks; peers do the same move as one call."""
    for name, work, kernel, ask in programs(plan.sizes):
        if plan.wants("kernels", name):
            libraries = [kernel, *(library for library in LIBRARIES if library.name != OURS)]
            counts = sorted({1, plan.most})
            found = list(
                contenders_for(Works((work,)), libraries, counts, lambda said, name=name: note(f"{name}: {said}"))
            )
            yield contest(plan, "kernels", name, found, work.payload, [ask])


COSTS: dict[str, Callable[[int], list[Verdict]]] = {
    "compile": lambda rounds: compiling(min(rounds, 5)),
    "launch": lambda rounds: [launch_overhead(3 * rounds)],
}


def costs(plan: Plan, note: Callable[[str], None]) -> Iterator[Verdict]:
    """The selected costs of calls."""
    for name, cost in COSTS.items():
        if plan.wants("costs", name):
            try:
                yield from cost(plan.rounds)
            except Exception as problem:
                note(f"{name}: {problem}")
                yield Verdict(name, "not measured", math.nan, math.nan, at_most=True)


def measure(plan: Plan, console: Console) -> Report:
    """Measure all selected cases, and print a line for each."""
    began, neighbours = time.monotonic(), Neighbours()
    results: list[Result] = []
    verdicts: list[Verdict] = []
    notes: list[str] = []
    for source in (moves, tile_programs):
        for result in source(plan, notes.append):
            results.append(result)
            verdicts += result.verdicts
            peer, lead = result.lead(max(result.threads))
            said = f"{time.monotonic() - began:4.0f} s  {result.group}: {result.name}  {figure(lead)} x {peer}"
            console.print(said, highlight=False)
    verdicts += costs(plan, notes.append)
    share = neighbours.share()
    head = {**facts(), "other programs": f"{share:.0%} of the processors during the run"}
    return Report(head, tuple(results), tuple(verdicts), tuple(dict.fromkeys(notes)), share)


def main() -> int:
    """Run, print, write; 1 if a required figure is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less data and fewer rounds")
    parser.add_argument("--case", default="", metavar="PATTERN", help="only cases whose `group: name` contains this")
    parser.add_argument("--threads", type=int, default=min(2, cores()), help="measured besides one (%(default)s)")
    parser.add_argument("--repeats", type=int, help="rounds of a case (7, or 5 with --quick)")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="output folder")
    given = parser.parse_args()
    rounds = given.repeats or (5 if given.quick else 7)
    plan = Plan(QUICK if given.quick else FULL, rounds, max(1, given.threads), given.case)
    warnings.simplefilter("ignore")  # PyTorch calls some of its reductions experimental
    console = Console(width=None if sys.stdout.isatty() else 150)
    report = measure(plan, console)
    if not report.results and not report.verdicts:
        parser.error(f"no case matches {given.case!r}")
    show(report, console)
    for path in write(report, given.out):
        console.print(f"wrote {path}", highlight=False)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
