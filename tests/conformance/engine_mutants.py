"""Engines that are wrong in one known way, for the examples of clauses about values.

Most mutants change what instructions lower to: an engine knows only `Move` and `Compute`, so another remap, another
walk or another layout there is another engine. The others change operations, tile layouts, or what a profile says.
Within a mutant, the example of a clause that it breaks must fail by an assertion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ptokit.engine import compute
from ptokit.engine.reference import IndexReader
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import always
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Combine, Compute, Fill, Index, IndexUnit, Move, Remap
from ptokit.isa.operand import TensorSpec, TileSpec
from ptokit.isa.policy import GatherExec
from ptokit.lang.tile import Tile
from ptokit.target import Profile
from tests.conformance.harness import forget

Step = Move | Compute
Change = Callable[[Step], Step]
Steps = Callable[[tuple[Step, ...]], tuple[Step, ...]]
Mutant = Callable[[], Any]
"""Makes a context in which the engine is wrong."""


@contextmanager
def lowering(change: Steps) -> Iterator[None]:
    """Within, every instruction lowers to other steps."""
    kept = {name: instruction.lower for name, instruction in INSTRUCTIONS.items()}
    for name, lower in kept.items():
        object.__setattr__(INSTRUCTIONS[name], "lower", lambda call, lower=lower: change(lower(call)))
    forget()
    try:
        yield
    finally:
        for name, lower in kept.items():
            object.__setattr__(INSTRUCTIONS[name], "lower", lower)
        forget()


@contextmanager
def attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Within, an object has another attribute."""
    kept = vars(owner)[name]
    setattr(owner, name, value)
    forget()
    try:
        yield
    finally:
        setattr(owner, name, kept)
        forget()


def each(change: Change) -> Mutant:
    """A change of every step."""
    return lambda: lowering(lambda steps: tuple(map(change, steps)))


def moves(change: Callable[[Move], Move]) -> Mutant:
    """A change of every move."""
    return each(lambda step: change(step) if isinstance(step, Move) else step)


def computes(change: Callable[[Compute], Compute]) -> Mutant:
    """A change of every computation."""
    return each(lambda step: change(step) if isinstance(step, Compute) else step)


def indices(change: Callable[[Index], Index]) -> Mutant:
    """A change of what every index does."""
    return moves(lambda move: replace(move, index=change(move.index)) if move.index else move)


# --- Indices -------------------------------------------------------------------------------------------------


def remap(before: Remap, after: Remap) -> Mutant:
    """One policy behaves as another."""
    return indices(lambda index: replace(index, remap=after) if index.remap is before else index)


def capacity(policy: Remap, more: int) -> Mutant:
    """A policy counts on more entries, or on fewer."""
    return indices(lambda i: replace(i, capacity=i.capacity + more) if i.remap is policy else i)


def _one_index(index: Index) -> Index:
    return replace(index, access=Access(index.access.operand, Layout((), ())))


def _narrower_table(index: Index) -> Index:
    return replace(index, width=index.width - 1) if index.width else index


def _signed(reader: IndexReader, raw: Any) -> Any:
    """Index values that keep their sign."""
    return np.ascontiguousarray(raw).view(f"i{raw.itemsize}").astype(np.int64)


def _other_unit(index: Index) -> Index:
    return replace(index, unit=IndexUnit.ELEMENT if index.unit is IndexUnit.ROW else IndexUnit.ROW)


# --- Layouts and walks ---------------------------------------------------------------------------------------


def _transposed(layout: Layout) -> Layout:
    return Layout(layout.cols, layout.rows)


def _wider(terms: tuple[Term, ...], more: int) -> tuple[Term, ...]:
    return tuple(replace(term, stride=term.stride + more) if term.stride > 1 else term for term in terms)


def _closer_rows(layout: Layout) -> Layout:
    """Rows lie one element closer."""
    return Layout(_wider(layout.rows, -1), layout.cols)


def _first_row(layout: Layout) -> Layout:
    """Every row is the first one."""
    return Layout((), layout.cols)


def layouts(side: str, change: Callable[[Layout], Layout]) -> Mutant:
    """Another layout of `dst`, `src` or `index`."""

    def changed(move: Move) -> Move:
        if side == "index":
            index = move.index
            return replace(move, index=replace(index, access=_with(index.access, change))) if index else move
        access = getattr(move, side)
        return move if isinstance(access, Fill) else replace(move, **{side: _with(access, change)})

    return moves(changed)


def _with(access: Access, change: Callable[[Layout], Layout]) -> Access:
    return Access(access.operand, change(access.layout))


def _narrower(move: Move) -> Move:
    return replace(move, shape=(move.rows, max(1, move.cols - 1)))


def _fewer_rows(move: Move) -> Move:
    return replace(move, shape=(max(1, move.rows - 1), move.cols))


def _by_columns(move: Move) -> Move:
    return replace(move, block=1)


def _no_fills(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    kept = tuple(step for step in steps if not (isinstance(step, Move) and isinstance(step.src, Fill)))
    return kept or steps


def _filled_first(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """What is written is cleared first, padding and all that no index names."""
    first = steps[0]
    if not isinstance(first, Move) or isinstance(first.src, Fill) or first.combine is not Combine.STORE:
        return steps
    whole = Move((1, 8), Access(first.dst.operand, Layout.plain(0, 1)), Fill(0))
    return (whole, *steps)


def combine(before: Combine, after: Combine) -> Mutant:
    """One way to combine behaves as another."""
    return moves(lambda move: replace(move, combine=after) if move.combine is before else move)


# --- Computations --------------------------------------------------------------------------------------------


@contextmanager
def operations(changed: Mapping[str, Any]) -> Iterator[None]:
    """Within, some operations compute something else."""
    kept = dict(compute.OPS)
    compute.OPS.update(changed)
    forget()
    try:
        yield
    finally:
        compute.OPS.update(kept)
        forget()


def operation(name: str, other: str) -> Mutant:
    """An operation that computes what another does."""
    return lambda: operations({name: compute.OPS[other]})


def result(name: str, change: Callable[[Any], Any]) -> Mutant:
    """An operation whose result is changed."""
    kept = compute.OPS[name]
    return lambda: operations({name: lambda *given, **options: change(kept(*given, **options))})


def results(names: tuple[str, ...], change: Callable[[Any], Any]) -> Mutant:
    """Operations whose results are changed."""

    def changed(kept: Any) -> Any:
        return lambda *given, **options: change(kept(*given, **options))

    return lambda: operations({name: changed(compute.OPS[name]) for name in names})


def _swapped(step: Compute) -> Compute:
    return replace(step, inputs=step.inputs[::-1])


def _first_element(step: Compute) -> Compute:
    """Inputs that are spread give their first element only."""
    spread = tuple(replace(i, layout=Layout((), ())) if i.shape != step.shape else i for i in step.inputs)
    return replace(step, inputs=spread)


def _input_transposed(step: Compute) -> Compute:
    return replace(step, inputs=tuple(replace(i, layout=_transposed(i.layout)) for i in step.inputs))


def _compute_narrower(step: Compute) -> Compute:
    return replace(step, shape=(step.shape[0], max(1, step.shape[1] - 1)))


# --- Tiles, tensors and profiles -----------------------------------------------------------------------------


def _property(owner: type, name: str, change: Callable[[Any], Any]) -> Mutant:
    """A property or method whose result is changed."""
    kept = vars(owner)[name]
    get = getattr(kept, "func", None) or getattr(kept, "fget", None)
    if get is None:
        return lambda: attribute(owner, name, lambda self, *given, **named: change(kept(self, *given, **named)))
    return lambda: attribute(owner, name, property(lambda self: change(get(self))))


SLICE = Tile.__getitem__


def _copied_slice(tile: Tile, key: Any) -> Tile:
    part = SLICE(tile, key)
    return Tile("vec", part.dtype, *part.shape).write(part.read())


@contextmanager
def defaults(name: str, modifier: str, member: Any) -> Iterator[None]:
    """Within, a modifier has another default."""
    instruction = INSTRUCTIONS[name]
    kept = instruction.modifiers
    changed = tuple(replace(m, default=always(member)) if m.name == modifier else m for m in kept)
    object.__setattr__(instruction, "modifiers", changed)
    forget()
    try:
        yield
    finally:
        object.__setattr__(instruction, "modifiers", kept)
        forget()


def _more_threads(shape: Any) -> Any:
    changed = {name: value + 1 for name, value in vars(shape).items() if isinstance(value, int)} if shape else {}
    return shape and replace(shape, **changed)


def _more_work(work: Any) -> Any:
    return work and replace(work, dma=work.dma + 1, scalar=work.scalar + 1)


def _reversed(handshakes: Any) -> Any:
    """Every kernel does first what it does last, on another pipe."""
    return {r: replace(h, before=h.after, body=("MTE1",), after=h.before) for r, h in handshakes.items()}


def _larger(budget: Any) -> Any:
    changed = {name: value + 1024 for name, value in vars(budget).items() if isinstance(value, int)} if budget else {}
    return budget and replace(budget, **changed)


MUTANTS: Mapping[str, Mutant] = {
    "clamp is wrap": remap(Remap.CLAMP, Remap.WRAP),
    "wrap is clamp": remap(Remap.WRAP, Remap.CLAMP),
    "zero is clamp": remap(Remap.ZERO, Remap.CLAMP),
    "zero is skip": remap(Remap.ZERO, Remap.SKIP),
    "skip is clamp": remap(Remap.SKIP, Remap.CLAMP),
    "clamp one short": capacity(Remap.CLAMP, -1),
    "wrap one short": capacity(Remap.WRAP, -1),
    "skip one early": capacity(Remap.SKIP, -1),
    "zero one early": capacity(Remap.ZERO, -1),
    "indices keep their sign": lambda: attribute(IndexReader, "widen", _signed),
    "table one column narrower": indices(_narrower_table),
    "rows for elements": indices(_other_unit),
    "one index for all": indices(_one_index),
    "index by columns": layouts("index", _transposed),
    "index rows closer": layouts("index", _closer_rows),
    "destination by columns": layouts("dst", _transposed),
    "destination rows closer": layouts("dst", _closer_rows),
    "source by columns": layouts("src", _transposed),
    "source rows closer": layouts("src", _closer_rows),
    "source is its first row": layouts("src", _first_row),
    "one column less": moves(_narrower),
    "one row less": moves(_fewer_rows),
    "columns first": moves(_by_columns),
    "nothing is zeroed": lambda: lowering(_no_fills),
    "destination is cleared": lambda: lowering(_filled_first),
    "add is store": combine(Combine.ADD, Combine.STORE),
    "max is min": combine(Combine.MAX, Combine.MIN),
    "min is max": combine(Combine.MIN, Combine.MAX),
    "store is add": combine(Combine.STORE, Combine.ADD),
    "sum is difference": operation("add", "sub"),
    "operands swapped": computes(_swapped),
    "first element is spread": computes(_first_element),
    "inputs by columns": computes(_input_transposed),
    "one computed column less": computes(_compute_narrower),
    "max takes NaN": operation("max", "min"),
    "root is reciprocal": operation("sqrt", "recip"),
    "counts one up": result("iota", lambda values: values + 1),
    "conversion one off": result("cvt", lambda values: values + np.ones_like(values)),
    "mask bits reversed": result("cmp", lambda bits: ~bits),
    "selection of zeroes": result("sel", lambda values: values * 0),
    "row sum one off": result("rowsum", lambda values: values + np.ones_like(values)),
    "column sum one off": result("colsum", lambda values: values + np.ones_like(values)),
    "factors one off": result("fixpipe", lambda values: values + np.ones_like(values)),
    "pairs of zeroes": result("sort32", lambda values: values * 0),
    "merge of zeroes": result("merge", lambda values: values * 0),
    "quantised one off": result("quant", lambda values: values + np.ones_like(values)),
    "multiples of zeroes": result("axpy", lambda values: values * 0),
    "sums of three of zeroes": results(("addc", "subc"), lambda values: values * 0),
    "rectified sums of zeroes": results(("addreluconv", "subreluconv", "adddeqrelu"), lambda values: values * 0),
    "histogram of zeroes": result("histogram", lambda values: values * 0),
    "triangle turned": result("tri", lambda values: 1 - values),
    "position one off": results(
        ("rowargmax", "rowargmin", "colargmax", "colargmin"), lambda values: values + np.ones_like(values)
    ),
    "copy of zeroes": result("copy", lambda values: values * 0),
    "window of zeroes": result("window", lambda values: values * 0),
    "product one off": result("matmul", lambda values: values + np.ones_like(values)),
    "scaled product one off": result("matmul_mx", lambda values: values + np.ones_like(values)),
    "tiles by columns": _property(TileSpec, "layout", _transposed),
    "tile rows closer": _property(TileSpec, "layout", _closer_rows),
    "tensors by columns": _property(TensorSpec, "layout", _transposed),
    "tensor rows closer": _property(TensorSpec, "layout", _closer_rows),
    "slices are copies": lambda: attribute(Tile, "__getitem__", _copied_slice),
    "threads by default": lambda: defaults("mgather", "executor", GatherExec.Simt),
    "one warp more": _property(Profile, "launch_shape", _more_threads),
    "handshakes reversed": _property(Profile, "handshakes", _reversed),
    "one operation more": _property(Profile, "operations", _more_work),
    "one kilobyte more": _property(Profile, "budget", _larger),
}
"""By name. Each is wrong for some clauses and right for all others."""
