"""How many threads a launch should use when its scatters must be deferred.

Scatters are executed in order in any case, and recording them costs as much again as the move itself. So threads pay
only if the rest of the program takes long enough. The comparison uses rough nanoseconds, from the program and the
sizes of its tiles: the rest is estimated low, the cost of threads high.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt, prod

from ptokit.engine.llvm.program.sample import UNKNOWN_ITERATIONS, tile_bytes
from ptokit.engine.native import host
from ptokit.isa.policy import TileType
from ptokit.program.calls import named_operands
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, ExpressionError, Var, evaluate
from ptokit.program.ir import Block, Branch, Instr, Leaf, Loop, Program, View, fold

Values = Mapping[Var, int]
At = tuple[Values, float]
"""The values of variables at a statement, and how often it runs."""

MOST_ITERATIONS = 1 << 40
"""Iterations of one loop that are counted."""
MOST_LOOKED_AT = 64
"""Blocks of a grid that are sampled."""
MOVED, COMPUTED = 0.05, 0.03
"""Nanoseconds for a byte of the tiles of an instruction that moves to or from an array, and of one that does not."""
SLOW = {"exp": 0.4, "log": 0.4}
"""The same for operations that take longer."""
MULTIPLIED = 0.1
"""Nanoseconds for a product of a matrix multiplication."""
KEPT, TAKEN = 0.3, 0.2
"""Nanoseconds for a deferred byte: to record it, and to execute it."""
MOST_WRITTEN = 256 << 20
"""Bytes that one block of each thread may defer, in total."""
WAKES = 2.5
"""How often each thread is woken: once for the blocks and once for the deferred scatters, and not at once."""


@dataclass(frozen=True, eq=False)  # looked up by its identity
class LaunchWork:
    """The estimated work of a launch."""

    besides: float
    """Nanoseconds on one thread, without the deferred scatters."""
    written: Mapping[int, float]
    """Bytes that a block defers on average, for each scatter."""
    grid: int
    certain: bool
    """Whether all extents of loops and all conditions are known before the run."""

    @property
    def nbytes(self) -> float:
        """Bytes that a block defers."""
        return sum(self.written.values())


@lru_cache(maxsize=4096)
def profitable_threads(work: LaunchWork, most: int) -> int:
    """The number of threads for a launch: `most`, or half of them, and so on; 1 if more do not pay."""
    halves = [most >> k for k in range(most.bit_length() - 1)]
    counts = [count for count in halves if count * work.nbytes <= MOST_WRITTEN]
    best = max(counts, key=lambda count: gain(work, count), default=1)
    return best if best > 1 and gain(work, best) > 0 else 1


def gain(work: LaunchWork, threads: int) -> float:
    """Nanoseconds that this many threads save."""
    written = work.nbytes * work.grid
    return work.besides * (1 - 1 / threads) - written * (KEPT / threads + TAKEN) - WAKES * host.HOST.wake * threads


def work_of(program: Program, integers: Values, grid: int, scatters: Mapping[int, int]) -> LaunchWork:
    """What a launch does. `scatters` gives the number of each deferred statement, by its identity."""
    looked_at = sorted({grid * k // MOST_LOOKED_AT for k in range(MOST_LOOKED_AT)})
    meter = _Meter(program, scatters)
    for block in looked_at:
        meter.add(program.body, {**integers, BLOCK_IDX: block, BLOCK_NUM: grid}, 1)
    count = len(looked_at)
    written = {number: meter.written.get(number, 0.0) / count for number in scatters.values()}
    return LaunchWork(meter.besides * grid / count, written, grid, meter.certain)


class _Meter:
    """Adds up what statements cost."""

    def __init__(self, program: Program, scatters: Mapping[int, int]) -> None:
        self.program, self.scatters = program, scatters
        self.besides, self.certain = 0.0, True
        self.written: dict[int, float] = {}

    def add(self, block: Block, values: Values, times: float) -> None:
        """Add statements that run `times` times."""
        fold(block, (values, times), self._leaf, loop=self._loop, branch=self._branch)

    def _leaf(self, instr: Leaf, at: At) -> At:
        if isinstance(instr, Instr):
            self._instruction(instr, at[1])
        return at

    def _instruction(self, instr: Instr, times: float) -> None:
        number = self.scatters.get(id(instr))
        if number is None:
            self.besides += times * nanoseconds(self.program, instr)
        else:
            self.written[number] = self.written.get(number, 0.0) + times * tile_bytes(self.program, instr)

    def _loop(self, loop: Loop, at: At) -> At:
        values, times = at
        try:
            start, stop = evaluate(loop.start, values), evaluate(loop.stop, values)
        except (ExpressionError, KeyError):
            self.certain = False
            self.add(loop.body, values, times * UNKNOWN_ITERATIONS)
            return at
        count = min(MOST_ITERATIONS, max(0, -((start - stop) // loop.step)))
        if count:
            self.add(loop.body, {**values, loop.var: start + count // 2 * loop.step}, times * count)
        return at

    def _branch(self, branch: Branch, at: At) -> At:
        """The arm that is taken; if that is known at run time only, the scatters of both and nothing else."""
        values, times = at
        try:
            taken = (branch.then if evaluate(branch.condition, values) else branch.otherwise,)
        except (ExpressionError, KeyError):
            self.certain, taken = False, (branch.then, branch.otherwise)
        before = self.besides
        for arm in taken:
            self.add(arm, values, times)
        if len(taken) > 1:
            self.besides = before
        return at


def nanoseconds(program: Program, instr: Instr) -> float:
    """A low estimate of what an instruction costs on one thread."""
    operands = named_operands(instr)
    factors = [
        program.tiles[use.tile].spec.elements
        for k, use in enumerate(instr.tiles)
        if k == 0 or program.tiles[use.tile].spec.loc in (TileType.Left, TileType.Right)
    ]
    op = instr.definition.operation
    if op == "matmul" and len(factors) == 3:
        return MULTIPLIED * isqrt(prod(factors))  # m n, m k and k n
    default = MOVED if any(isinstance(operand, View) for operand in operands.values()) else COMPUTED
    return SLOW.get(op, default) * tile_bytes(program, instr)
