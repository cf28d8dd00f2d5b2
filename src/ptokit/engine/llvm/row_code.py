"""Gradients of the rows of a table, which are summed, and stored or applied: what the engines for CPUs and GPUs share.

With w the row of the table, g the sum, rounded to the type of the table, s the state, and each operation rounded, in
float32, or in float64 where w is that:

| rule | formula |
|---|---|
| all with weight decay | g = g + decay * w |
| `store` | row and g go to the next place of the output |
| `sgd` | w = w - lr * g |
| `adagrad` | s = s + g * g; w = w - (lr * g) / (sqrt(s) + eps) |
| `rowwise_adagrad` | s = s + squares(g) / width, one number for the row; w = w - (lr * g) / (sqrt(s) + eps) |

`squares` sums the squares of columns j, j + 16, j + 32, … for each j below 16, in that order from 0 on, and adds the
second half of the 16 sums to the first, then those of the 8, 4 and 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import pack, unpack
from typing import Any

from ptokit.engine.bag_arguments import PARTIAL, RowUpdate
from ptokit.engine.llvm.compute.elements import from_single, single
from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue, Variable, lanes_of, vector
from ptokit.engine.llvm.numbers import added_lanes, bits_of, canonical, computes, intrinsic, is_byte_float
from ptokit.engine.runnable import Unsupported
from ptokit.isa.dtype import DType

FACTS = RowUpdate._fields.index("width")
JOB = (*RowUpdate._fields[FACTS:], "owners", "named", "values", "start")
"""The words of a job: those of a `RowUpdate`; the bag of each lane; the output; on a GPU, the number of its first row
among those of all jobs. A key is a row, and in the lower bits the lane, or its bag if nothing depends on the lane."""


@dataclass(frozen=True)
class UpdateKind:
    """What the code of rows depends on."""

    dtype: DType
    width: int
    """Elements of a row; 0 if only the job has it."""
    rule: str
    weighted: bool
    picked: bool
    decays: bool
    owned: bool
    """Whether bags of lanes must be looked up; else a key has the number of its row of the gradient."""
    host: bool = True
    """Whether it is for a CPU; rows of a GPU are aligned to what is loaded at a time."""

    @classmethod
    def of(cls, job: RowUpdate, **more: Any) -> UpdateKind:
        """That of a job, with what an engine adds. Raises `Unsupported`."""
        kind = job.dtype
        if not kind.is_float or is_byte_float(kind) or not computes(kind):
            raise Unsupported(f"updates of {kind}")
        facts: dict[str, Any] = {"width": job.width, "weighted": job.weights != 0, "picked": job.winners != 0} | more
        return cls(kind, rule=job.rule, decays=job.decay != 0, owned=job.is_owned, **facts)

    @property
    def key(self) -> str:
        return repr(self)

    @property
    def of_sums(self) -> str:
        """The type of sums and of the state."""
        return "double" if self.dtype.size == 8 else "float"


def words_of_job(job: RowUpdate, owners: int = 0, start: int = 0) -> tuple[Any, ...]:
    """The words of a job; where its output is, is not known yet."""
    numbers = unpack("3q", pack("3d", job.lr, job.eps, job.decay))  # the last of a `RowUpdate`
    return *job[FACTS : -len(numbers)], *numbers, owners, 0, 0, start


def of_job(code: IrBuilder, job: IrValue, name: str, kind: str = I64) -> IrValue:
    """A word of a job."""
    return code.load(kind, code.at(job, 8 * JOB.index(name)))


Column = Callable[[IrValue, int], None]
"""Is given the first of some columns, and how many."""


class RowCode:
    """Code that sums the gradients of rows of a job, and does what the rule says."""

    def __init__(self, code: IrBuilder, kind: UpdateKind, job: IrValue) -> None:
        self.code, self.kind = code, kind
        names = ("grad", "weights", "winners", "table", "state", "owners", "named", "values")
        self.grad, self.weights, self.winners, self.table, self.state, self.owners, self.named, self.values = (
            of_job(code, job, name, PTR) for name in names
        )
        self.grad_row = of_job(code, job, "grad_row")
        self.width = code.i64(kind.width) if kind.width else of_job(code, job, "width")
        given = (of_job(code, job, name, "double") for name in ("lr", "eps", "decay"))
        self.lr, self.eps, self.decay = (each.to("fptrunc", kind.of_sums) for each in given)
        self.size = kind.dtype.size
        self.sum_size = max(4, self.size)
        self.by_row = kind.rule == "rowwise_adagrad"
        whole = -(-kind.width // PARTIAL) * PARTIAL * self.sum_size
        self.kept = code.memory(whole) if self.by_row else None
        """The sum of a row, and zeros up to the next multiple of `PARTIAL`."""
        if self.kept is not None and kind.width % PARTIAL:
            code.fill_bytes(self.kept, 0, code.i64(whole))

    # --- sums

    def owner(self, lane: IrValue) -> IrValue:
        """The row of the gradient for a lane, or for what a key has instead."""
        if not self.kind.owned:
            return lane
        return self.code.load(I32, self.code.at(self.owners, lane * 4)).to("zext", I64)

    def none(self, count: int) -> Variable:
        """A sum of nothing."""
        kind = vector(self.kind.of_sums, count)
        return self.code.variable(kind, self.code.constant(kind, "0.0"))

    def addend(self, lane: IrValue, bag: IrValue, column: IrValue, count: int) -> IrValue:
        """What a lane adds to some columns of its row."""
        code, kind = self.code, self.kind
        at = code.at(self.grad, bag * self.grad_row + column * self.size)
        bits = code.load(bits_of(kind.dtype, count), at, self._aligned(self.size, count))
        if kind.weighted:
            weight = code.load(bits_of(kind.dtype), code.at(self.weights, lane * self.size))
            value = single(code, kind.dtype, bits) * self._all(single(code, kind.dtype, weight), count)
            bits = from_single(code, kind.dtype, value)
        if kind.picked:
            at = code.at(self.winners, (bag * self.width + column) * 4)
            winners = code.load(vector(I32, count), at, self._aligned(4, count))
            bits = code.select(winners.compare("eq", self._all(lane.to("trunc", I32), count)), bits, 0)
        return bits

    def added(self, total: IrValue, bits: IrValue) -> IrValue:
        return total + single(self.code, self.kind.dtype, bits)

    # --- rules

    def finish(
        self, row: IrValue, out: IrValue, summed: Callable[[IrValue, int], IrValue], across: Callable[[Column], None]
    ) -> None:
        """Do what the rule says with the sum of a row; `across` takes some columns after the other."""
        code, kept = self.code, self.kept

        def whole(column: IrValue, count: int) -> None:
            total = single(code, self.kind.dtype, from_single(code, self.kind.dtype, summed(column, count)))
            if self.kind.decays:
                total = total + self._value(self._cell(row, column), count) * self._all(self.decay, count)
            if kept is not None:
                code.store(total, code.at(kept, column * self.sum_size), self.sum_size)
            else:
                self._end(row, out, column, total, None)

        across(whole)
        if self.kind.rule == "store":
            code.store(row, code.at(self.named, out * 8))
        if kept is None:
            return
        root = self._root_of_row(row, kept)

        def update(column: IrValue, count: int) -> None:
            total = code.load(vector(self.kind.of_sums, count), code.at(kept, column * self.sum_size), self.sum_size)
            self._end(row, out, column, total, root)

        across(update)

    def _end(self, row: IrValue, out: IrValue, column: IrValue, g: IrValue, root: IrValue | None) -> None:
        """Store some columns of a sum, or update the row by them."""
        code, kind, count = self.code, self.kind, lanes_of(g.type)
        aligned = self._aligned(self.size, count)
        if kind.rule == "store":
            at = code.at(self.values, (out * self.width + column) * self.size)
            code.store(from_single(code, kind.dtype, g), at, aligned)
            return
        step, cell = self._all(self.lr, count) * g, self._cell(row, column)
        if kind.rule == "adagrad":
            at, size = code.at(self.state, (row * self.width + column) * self.sum_size), self.sum_size
            squares = canonical(code, code.load(g.type, at, self._aligned(size, count)) + g * g)
            code.store(squares, at, self._aligned(size, count))
            step = step.op("fdiv", intrinsic(code, "sqrt", squares) + self._all(self.eps, count))
        elif root is not None:
            step = step.op("fdiv", self._all(root, count))
        code.store(from_single(code, kind.dtype, self._value(cell, count) - step), cell, aligned)

    def _root_of_row(self, row: IrValue, kept: IrValue) -> IrValue:
        """Add the mean of squares to the state of a row; its root, plus eps."""
        code, sums = self.code, vector(self.kind.of_sums, PARTIAL)
        total = code.variable(sums, code.constant(sums, "0.0"))
        with code.loop(0, self.kind.width, PARTIAL) as column:
            part = code.load(sums, code.at(kept, column * self.sum_size), self.sum_size)
            total.set(total.get() + part * part)
        squares = added_lanes(total.get())
        at = code.at(self.state, row * self.sum_size)
        width = code.i64(self.kind.width).to("sitofp", squares.type)
        state = canonical(code, code.load(squares.type, at) + squares.op("fdiv", width))
        code.store(state, at)
        return intrinsic(code, "sqrt", state) + self.eps

    def _cell(self, row: IrValue, column: IrValue) -> IrValue:
        return self.code.at(self.table, (row * self.width + column) * self.size)

    def _value(self, place: IrValue, count: int) -> IrValue:
        bits = self.code.load(bits_of(self.kind.dtype, count), place, self._aligned(self.size, count))
        return single(self.code, self.kind.dtype, bits)

    def _all(self, value: IrValue, count: int) -> IrValue:
        return self.code.splat(value, count)

    def _aligned(self, size: int, count: int) -> int:
        return size if self.kind.host else min(self.code.chip.piece, size * count)
