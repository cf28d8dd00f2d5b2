"""Numbers at which the instructions of a program are traced: some that occur in the launch."""

from __future__ import annotations

from collections.abc import Mapping

from ptokit.engine.llvm.program.slots import address_of
from ptokit.engine.storage import Storage
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, ExpressionError, Var, evaluate
from ptokit.program.ir import Assign, Block, Branch, Instr, Leaf, LoadScalar, Loop, Program, TileDecl, fold

Values = dict[Var, int]
Samples = dict[int, list[Values]]
"""For each instruction, by its identity, the numbers at which it ran."""


def sample(program: Program, tensors: Mapping[str, Storage], integers: Mapping[Var, int], grid: int) -> Samples:
    """Walk the first, a middle and the last block, with the first and the last iteration of each loop."""
    walker = _Walker(program, tensors)
    for block in dict.fromkeys((0, grid // 2, max(0, grid - 1))):
        walker.walk(program.body, {**integers, BLOCK_IDX: block, BLOCK_NUM: grid})
    return walker.samples


UNKNOWN_ITERATIONS = 64
"""Assumed iterations of a loop whose end is read from memory."""


def cost(program: Program, nbytes: Mapping[int, int], integers: Mapping[Var, int], grid: int) -> int:
    """Bytes of tiles that the instructions of a launch name, roughly: what it costs. `nbytes` are those of each
    instruction, by its identity."""
    ends = [{**integers, BLOCK_IDX: block, BLOCK_NUM: grid} for block in {0, grid - 1}]
    return grid * max(_cost(program.body, nbytes, values) for values in ends)


def tile_bytes(program: Program, instr: Instr) -> int:
    """Bytes of the tiles that an instruction names."""
    return sum(program.tiles[use.tile].spec.nbytes for use in instr.tiles)


def _cost(block: Block, nbytes: Mapping[int, int], values: Values) -> int:
    def leaf(stmt: Leaf, total: int) -> int:
        return total + nbytes.get(id(stmt), 0)

    def branch(stmt: Branch, total: int) -> int:
        return total + max(_cost(arm, nbytes, values) for arm in (stmt.then, stmt.otherwise))

    def loop(stmt: Loop, total: int) -> int:
        try:
            start, stop = evaluate(stmt.start, values), evaluate(stmt.stop, values)
        except (ExpressionError, KeyError):
            start, stop = 0, UNKNOWN_ITERATIONS * stmt.step
        count = max(0, -((start - stop) // stmt.step))
        return total + (count * _cost(stmt.body, nbytes, {**values, stmt.var: start}) if count else 0)

    return fold(block, 0, leaf, loop=loop, branch=branch)


class _Walker:
    def __init__(self, program: Program, tensors: Mapping[str, Storage]) -> None:
        self.program, self.tensors = program, tensors
        self.samples: Samples = {}

    def walk(self, block: Block, values: Values) -> None:
        """Visit a block; an expression without a value ends the visit, and the run will report it."""
        try:
            fold(block, values, self._leaf, loop=self._loop, branch=self._branch)
        except (ExpressionError, KeyError, IndexError):
            return

    def _leaf(self, stmt: Leaf, values: Values) -> Values:
        if isinstance(stmt, Instr):
            self.samples.setdefault(id(stmt), []).append(dict(values))
        elif isinstance(stmt, LoadScalar):
            self._load(stmt, values)
        elif isinstance(stmt, TileDecl) and stmt.addresses:
            values[address_of(stmt.name)] = evaluate(stmt.addresses[0], values)
        elif isinstance(stmt, Assign):
            values[address_of(stmt.tile)] = evaluate(stmt.address, values)
        return values

    def _branch(self, branch: Branch, values: Values) -> Values:
        self.walk(branch.then if evaluate(branch.condition, values) else branch.otherwise, values)
        return values

    def _loop(self, loop: Loop, values: Values) -> Values:
        iterations = range(evaluate(loop.start, values), evaluate(loop.stop, values), loop.step)
        for value in dict.fromkeys((iterations[0], iterations[-1])) if iterations else ():
            self.walk(loop.body, {**values, loop.var: value})
        if iterations:
            values[loop.var] = iterations[-1]
        return values

    def _load(self, stmt: LoadScalar, values: Values) -> None:
        """What memory holds now; the run checks the value that it reads."""
        argument = self.program.tensors[stmt.source.argument]
        at = evaluate(argument.offset, values)
        for start, stride in zip(stmt.source.starts, argument.stride, strict=True):
            at += evaluate(start, values) * evaluate(stride, values)
        storage = self.tensors[argument.name]
        if at < 0:
            raise IndexError(at)
        values[stmt.result] = int(storage.bits[at : at + 1].view(storage.dtype.numpy)[0])
