"""The operators that PyTorch sees: schemas, kernels, shapes of results, gradients and batches.

`gather` and `scatter_zeros` are each other's gradient, as are `gather` and `scatter` with `atomic="add"`. A gradient
reads and writes with the policy of the call, but checks no index again. Sums of floats narrower than float32 that a
gradient needs are accumulated in float32. The gradient of a product needs, for each lane, the product of the other
factors of its cell. It is computed without a division, so that zeros are factors as all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from ptokit.engine.whole import ZEROS
from ptokit.isa.policy import ScatterAtomicOp
from ptokit.lang.gpu import new_tensor
from ptokit.lang.launch import check_threads, refuse_inside
from ptokit.ops.array_call import GATHER as GATHER_CALL
from ptokit.ops.array_call import SCATTER as SCATTER_CALL
from ptokit.ops.direct import HAS_ROWS, direct_gather, direct_scatter
from ptokit.ops.functions import gather, scatter
from ptokit.torch.dispatch import Batch, Context, TensorOperator, check_memory, is_plain, keep
from ptokit.torch.remap import OUTSIDE, READ_OF, ROW, WRITTEN_OF, as_whole, capacity_of, entry_of, quiet, resolved

HOW = 'str engine="auto", SymInt? threads=None'
WRITTEN = 'str coalesce="row", str oob="undefined", '
ENDS = f'str conflict="last", str? accumulate=None, {HOW}'
STORES = ("none", ScatterAtomicOp.NONE)
SCHEMAS = {
    "gather": f'(Tensor table, Tensor indices, str coalesce="row", str oob="undefined", {HOW}) -> Tensor',
    "scatter": f'(Tensor table, Tensor src, Tensor indices, {WRITTEN}str atomic="none", {ENDS}) -> Tensor',
    "scatter_": f'(Tensor(a!) table, Tensor src, Tensor indices, {WRITTEN}str atomic="none", {ENDS}) -> ()',
    "scatter_zeros": (
        '(Tensor src, Tensor indices, SymInt[] shape, str coalesce="row", str oob="undefined", '
        f"str? accumulate=None, {HOW}) -> Tensor"
    ),
}
"""`scatter_zeros` adds to zeros of a shape."""
OPTIONS = ("coalesce", "oob", "atomic", "conflict", "accumulate", "engine", "threads")
"""The options of `scatter`."""


def wide(kind: torch.dtype) -> str | None:
    """The type in which a gradient is accumulated, if it is not the table's."""
    return "float32" if kind.is_floating_point and kind.itemsize < 4 else None


# --- kernels ---------------------------------------------------------------------------------------------------------


def run_gather(table: Tensor, indices: Tensor, *how: Any) -> Tensor:
    """The kernel of `gather`; `how` are its policies, the engine and the threads."""
    made = planned_gather(table, indices, *how)
    if made is not None:
        return made
    coalesce, oob, engine, threads = how
    return gather(table, indices, coalesce=coalesce, oob=oob, engine=engine, threads=threads)


def planned_gather(
    table: Tensor, indices: Tensor, coalesce: str, oob: str, engine: str, threads: int | None
) -> Tensor | None:
    """A gather of a kind that was planned; None for others."""
    refuse_inside(GATHER_CALL.name, GATHER_CALL.instead)
    if threads is not None:
        threads = check_threads(threads)
    return direct_gather(table, indices, None, (GATHER_CALL.name, coalesce, oob, engine), threads)


def planned_scatter_(table: Tensor, src: Any, indices: Tensor, *how: Any) -> bool:
    """Whether a scatter was done, of a kind that was planned; `how` are the `OPTIONS`."""
    refuse_inside(SCATTER_CALL.name, SCATTER_CALL.instead)
    *policies, threads = how
    if threads is not None:
        threads = check_threads(threads)
    if policies[2] in STORES:
        policies[3] = "last"
    return direct_scatter(table, src, indices, (SCATTER_CALL.name, *policies), threads)


def run_scatter_(table: Tensor, src: Tensor, indices: Tensor, *how: Any) -> None:
    """The kernel of `scatter_`."""
    if not planned_scatter_(table, src, indices, *how):
        options = dict(zip(OPTIONS, how, strict=True))
        if options["atomic"] in STORES:
            options["conflict"] = "last"
        scatter(table, src, indices, **options)


def _write_new(
    made: Tensor, src: Tensor, indices: Tensor, how: Sequence[Any], threads: int | None, before: Tensor | None
) -> Tensor:
    """Scatter into new memory, which has the values of a tensor before, or zeros; `how` are policies and the engine."""
    refuse_inside(SCATTER_CALL.name, SCATTER_CALL.instead)
    threads = check_threads(threads)
    known_by = SCATTER_CALL.name, *how
    if made.is_cuda and (before is None or (before.is_contiguous() and not before.is_neg())):
        initial = ZEROS if before is None else before.data_ptr()  # the check of the indices does not wait for the copy
        if direct_scatter(made, src, indices, known_by, threads, initial):
            return made
    if before is None:
        made.zero_()
    else:
        made.copy_(before.detach())
    if not direct_scatter(made, src, indices, known_by, threads, HAS_ROWS):
        run_scatter_(made, src, indices, *how, threads)
    return made


def run_scatter(table: Tensor, src: Tensor, indices: Tensor, *given: Any) -> Tensor:
    """The kernel of `scatter`."""
    *how, threads = given
    if how[2] in STORES:
        how[3] = "last"
    check_memory(table)
    return _write_new(new_tensor(table), src, indices, how, threads, table)


def run_scatter_zeros(src: Tensor, indices: Tensor, shape: Sequence[int], *given: Any) -> Tensor:
    """The kernel of `scatter_zeros`."""
    coalesce, oob, accumulate, engine, threads = given
    how = coalesce, oob, "add", "last", accumulate, engine
    return _write_new(new_tensor(src, shape), src, indices, how, threads, None)


def _gathered_shape(table: Tensor, indices: Tensor, coalesce: str = ROW, *_given: Any, **_named: Any) -> Tensor:
    return table.new_empty([*indices.shape, *entry_of(table.shape, coalesce)])


def scattered_shape(table: Tensor, *_given: Any, **_named: Any) -> Tensor:
    """The shape of a table that was scattered into."""
    return table.new_empty(table.shape)


def _zeros_shape(src: Tensor, _indices: Tensor, shape: Sequence[int], *_given: Any, **_named: Any) -> Tensor:
    return src.new_empty(shape)


def nothing(*_given: Any, **_named: Any) -> None:
    """The result of an operator that writes in place."""
    return None


GATHER = TensorOperator("gather", SCHEMAS["gather"], run_gather, _gathered_shape, slice(2))
SCATTER = TensorOperator("scatter", SCHEMAS["scatter"], run_scatter, scattered_shape, slice(3))
SCATTER_IN_PLACE = TensorOperator("scatter_", SCHEMAS["scatter_"], run_scatter_, nothing, slice(3))
SCATTER_ZEROS = TensorOperator("scatter_zeros", SCHEMAS["scatter_zeros"], run_scatter_zeros, _zeros_shape, slice(2))


# --- gradients -------------------------------------------------------------------------------------------------------


def _save_gather(ctx: Context, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    """What the gradient of `gather` needs."""
    table, indices, *ctx.how = inputs
    keep(ctx, indices)
    ctx.shape = table.shape


def _gather_backward(ctx: Context, grad: Tensor) -> tuple[Any, ...]:
    """Add what was gathered to the entries that it was read from, in the order of the indices."""
    (indices,) = ctx.saved_tensors
    coalesce, oob, engine, threads = ctx.how
    where = list(ctx.shape), coalesce, WRITTEN_OF[oob], wide(grad.dtype), engine, threads
    return SCATTER_ZEROS(grad, quiet(indices, oob), *where), None, None, None, None, None


def _gather_tangent(ctx: Context, of_table: Tensor | None, _indices: Any) -> Tensor | None:
    """What is gathered of the table's tangent."""
    (indices,) = ctx.saved_tensors
    coalesce, oob, *how = ctx.how
    read = READ_OF.get(oob, oob)
    return None if of_table is None else GATHER(of_table, quiet(indices, oob), coalesce, read, *how)


def _zeros_tangent(ctx: Context, of_src: Tensor | None, _indices: Any) -> Tensor | None:
    (indices,) = ctx.saved_tensors
    shape, coalesce, oob, *how = ctx.options
    written = WRITTEN_OF.get(oob, oob)
    return None if of_src is None else SCATTER_ZEROS(of_src, quiet(indices, oob), shape, coalesce, written, *how)


def _scatter_tangent(ctx: Context, of_table: Tensor | None, of_src: Tensor | None, _indices: Any) -> Tensor | None:
    """Stores and sums of tangents; the greatest and least have none."""
    indices, *_ = ctx.saved_tensors
    coalesce, oob, atomic, *options = ctx.options
    if atomic not in LINEAR:
        raise NotImplementedError(f'scatter with atomic="{atomic}" has no forward-mode derivative; use reverse mode')
    known = of_table if of_table is not None else of_src
    if known is None:
        return None
    of_table = known.new_zeros(ctx.shape) if of_table is None else of_table
    of_src = known.new_zeros(()) if of_src is None else of_src
    return SCATTER(of_table, of_src, quiet(indices, oob), coalesce, WRITTEN_OF.get(oob, oob), atomic, *options)


def _save_zeros(ctx: Context, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    src, indices, *options = inputs
    _, coalesce, oob, _, *how = ctx.options = options
    keep(ctx, indices)
    ctx.how, ctx.src = (coalesce, READ_OF[oob], *how), src.shape


def _zeros_backward(ctx: Context, grad: Tensor) -> tuple[Any, ...]:
    (indices,) = ctx.saved_tensors
    return sum_to(GATHER(grad, quiet(indices, ctx.how[1]), *ctx.how), ctx.src), *[None] * 7


def _save_scatter(ctx: Context, inputs: tuple[Any, ...], output: Tensor) -> None:
    """What the gradient of `scatter` needs."""
    table, src, indices, *ctx.options = inputs
    coalesce, oob, ctx.atomic, _, _, *how = ctx.options
    ordered = (table, src, output) if ctx.atomic in ("max", "min") else ()
    keep(ctx, indices, *ordered)
    keep_policies(ctx, table, src, coalesce, oob, how)


def keep_policies(ctx: Context, table: Tensor, src: Tensor, coalesce: str, oob: str, how: Sequence[Any]) -> None:
    """Keep shapes, and the policies with which a gradient of a scatter reads and writes."""
    ctx.read, ctx.written = (coalesce, READ_OF[oob], *how), (coalesce, "skip" if oob == "undefined" else oob)
    ctx.how, ctx.shape, ctx.src, ctx.include_self = how, table.shape, src.shape, True


def _scatter_backward(ctx: Context, grad: Tensor) -> tuple[Any, ...]:
    """Pass a gradient to the table and to `src`: to each cell's own value or to the lane that gave it."""
    indices, *kept = ctx.saved_tensors
    return *GRADIENTS[ctx.atomic](ctx, grad, quiet(indices, ctx.written[1]), *kept), *[None] * 8


Gradients = tuple[Tensor | None, Tensor | None]
"""Those of the table and of `src`."""


def added(ctx: Context, grad: Tensor, indices: Tensor) -> Gradients:
    """Every lane has the gradient of its cell."""
    of_table = of_src = None
    if ctx.needs_input_grad[0]:
        of_table = grad if ctx.include_self else cleared(ctx, grad, indices)
    if ctx.needs_input_grad[1]:
        of_src = sum_to(GATHER(grad, indices, *ctx.read), ctx.src)
    return of_table, of_src


def _stored(ctx: Context, grad: Tensor, indices: Tensor) -> Gradients:
    """A cell that was stored to has the gradient of its last lane."""
    of_table = of_src = None
    if ctx.needs_input_grad[0]:
        of_table = cleared(ctx, grad, indices)
    if ctx.needs_input_grad[1]:
        coalesce, oob, *_ = ctx.read
        count, capacity = indices.numel(), capacity_of(ctx.shape, coalesce)
        numbers = torch.arange(count, device=grad.device).view(indices.shape)
        last = numbers.new_full((capacity,), OUTSIDE)
        last = SCATTER(last, numbers, indices, ROW, ctx.written[1], "none", "last", None, *ctx.how)
        wins = GATHER(last, indices, ROW, oob, *ctx.how) == numbers
        mine = GATHER(grad, indices, *ctx.read)
        wins = wins.view([*wins.shape, *[1] * (mine.dim() - wins.dim())])
        of_src = sum_to(torch.where(wins, mine, 0), ctx.src)
    return of_table, of_src


def cleared(ctx: Context, grad: Tensor, indices: Tensor) -> Tensor:
    """A gradient with zeros in the cells that a lane wrote."""
    return SCATTER(grad, grad.new_zeros(()), indices, *ctx.written, "none", "last", None, *ctx.how)


def _ordered(ctx: Context, grad: Tensor, indices: Tensor, table: Tensor, src: Tensor, output: Tensor) -> Gradients:
    """A cell has the gradient of its own value if that remained, else that of the first lane with the value."""
    kept = same_bits(table, output) if ctx.include_self else cleared(ctx, torch.ones_like(table), indices) == 1
    of_table = torch.where(kept, grad, 0) if ctx.needs_input_grad[0] else None
    return of_table, _to_first(ctx, grad, indices, kept, src, output) if ctx.needs_input_grad[1] else None


def _to_first(ctx: Context, grad: Tensor, indices: Tensor, kept: Tensor, src: Tensor, output: Tensor) -> Tensor:
    """The gradient of `src`: of each cell that is not kept, to the first lane that has its value."""
    count = indices.numel()
    numbers = torch.arange(count, device=grad.device)
    mine = GATHER(grad, indices, *ctx.read)
    lanes = numbers.view([*indices.shape, *[1] * (mine.dim() - indices.dim())]).expand(mine.shape)
    attains = same_bits(src.expand(mine.shape), GATHER(output, indices, *ctx.read))
    first = torch.where(kept, OUTSIDE, count)
    tried = torch.where(attains, lanes, count)
    first = SCATTER(first, tried, indices, *ctx.written, "min", "last", None, *ctx.how)
    wins = attains & (GATHER(first, indices, *ctx.read) == lanes)
    return sum_to(torch.where(wins, mine, 0), ctx.src)


def same_bits(a: Tensor, b: Tensor) -> Tensor:
    """Where values have the same bits, or are NaNs."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return (a.contiguous().view(bits) == b.contiguous().view(bits)) | (a.isnan() & b.isnan())


LINEAR = ("none", "add")
"""Reductions whose tangents are reduced in the same way."""
GRADIENTS: dict[str, Callable[..., Gradients]] = {"add": added, "none": _stored, "max": _ordered, "min": _ordered}


# --- sums in a fixed order; PyTorch's own depend on the device, and some on the number of threads --------------------


def sum_to(values: Tensor, shape: Sequence[int]) -> Tensor:
    """The sum over the dims that broadcasting from a shape has added or repeated, in C order."""
    if list(values.shape) == list(shape):
        return values
    added = values.dim() - len(shape)
    repeated = [at for at in range(values.dim()) if at < added or shape[at - added] != values.shape[at]]
    kept = [at for at in range(values.dim()) if at not in repeated]
    count = prod(values.shape[at] for at in repeated)  # a -1 would be ambiguous where nothing is kept
    rows = values.permute(*repeated, *kept).reshape(count, *[values.shape[at] for at in kept])
    return sum_first(rows).reshape(list(shape))


def sum_first(rows: Tensor) -> Tensor:
    """The sum over the first dim, in order."""
    zeros = torch.zeros(rows.shape[0], dtype=torch.int32, device=rows.device)
    made = SCATTER_ZEROS(rows, zeros, [1, *rows.shape[1:]], ROW, "skip", wide(rows.dtype), "auto", None)
    return made.view(rows.shape[1:])


# --- batches ---------------------------------------------------------------------------------------------------------
# A batch of tables is one table with the entries of all of them, one after the other.


def _first(tensor: Tensor, at: int | None, size: int) -> Tensor:
    """A tensor with its batch as the first dim."""
    return tensor.expand(size, *tensor.shape) if at is None else tensor.movedim(at, 0)


def _joined(indices: Tensor, shape: Sequence[int], coalesce: str, oob: str) -> tuple[Tensor, str]:
    """Indices of a batch into the entries of all its tables, and the policy for them."""
    capacity, size = capacity_of(shape, coalesce), indices.shape[0]
    found = resolved(indices, capacity, oob)
    starts = (torch.arange(size, device=indices.device) * capacity).view(-1, *[1] * (indices.dim() - 1))
    outside = as_whole(indices) if oob == "undefined" else found  # what is refused stays outside of all tables
    far = torch.where(outside < 0, outside, outside + size * capacity)
    return torch.where(found == OUTSIDE, far if oob == "undefined" else found, found + starts), oob


def _flat(tables: Tensor, coalesce: str) -> Tensor:
    return tables.reshape(-1, *tables.shape[2:]) if coalesce == ROW else tables.reshape(-1)


def _gather_batch(call: Any, info: Any, dims: Batch, table: Tensor, indices: Tensor, *given: Any) -> tuple[Tensor, int]:
    at_table, at_indices, *_ = dims
    if at_table is None and at_indices is not None:
        return call(table, indices.movedim(at_indices, 0), *given), 0
    coalesce, oob, *how = given
    tables, lanes = _first(table, at_table, info.batch_size), _first(indices, at_indices, info.batch_size)
    lanes, oob = _joined(lanes, tables.shape[1:], coalesce, oob)
    return call(_flat(tables, coalesce), lanes, coalesce, oob, *how), 0


def scatter_batch(
    call: Any, info: Any, dims: Batch, table: Tensor, src: Tensor, indices: Tensor, *given: Any
) -> tuple[Tensor, int]:
    """What `vmap` does for an operator that makes a new table."""
    coalesce, oob, *rest = given
    at_table, at_src, at_indices, *_ = dims
    tables, lanes = _first(table, at_table, info.batch_size), _first(indices, at_indices, info.batch_size)
    entries = [*lanes.shape[1:], *entry_of(tables.shape[1:], coalesce)]
    values = src if at_src is None else _padded(src.movedim(at_src, 0), len(entries) + 1)
    lanes, oob = _joined(lanes, tables.shape[1:], coalesce, oob)
    return call(_flat(tables, coalesce), values, lanes, coalesce, oob, *rest).view(tables.shape), 0


def _padded(values: Tensor, dims: int) -> Tensor:
    """A batch of values that broadcast, with dims of one behind the first."""
    return values.view(values.shape[0], *[1] * (dims - values.dim()), *values.shape[1:])


def _zeros_batch(
    call: Any, info: Any, dims: Batch, src: Tensor, indices: Tensor, shape: Sequence[int], *given: Any
) -> tuple[Tensor, int]:
    coalesce, oob, *rest = given
    at_src, at_indices, *_ = dims
    lanes = _first(indices, at_indices, info.batch_size)
    entries = [*lanes.shape[1:], *entry_of(shape, coalesce)]
    values = src if at_src is None else _padded(src.movedim(at_src, 0), len(entries) + 1)
    lanes, oob = _joined(lanes, shape, coalesce, oob)
    joined = [lanes.shape[0] * shape[0], *shape[1:]] if coalesce == ROW else [lanes.shape[0] * capacity_of(shape, "")]
    return call(values, lanes, joined, coalesce, oob, *rest).view(lanes.shape[0], *shape), 0


def in_place_batch(makes: TensorOperator) -> Callable[..., Any]:
    """The rule of `vmap` for an operator that writes in place; it calls the operator that makes new tables."""

    def batched(
        _call: Any, info: Any, dims: Batch, table: Tensor, src: Tensor, indices: Tensor, *given: Any
    ) -> tuple[None, None]:
        if dims[0] is None:
            raise RuntimeError(
                "vmap: scatter_ writes into one table for all elements of the batch; use scatter, which makes new ones"
            )
        made, _ = scatter_batch(makes.overload, info, dims, table, src, indices, *given)
        table.copy_(made.movedim(0, dims[0]))
        return None, None

    return batched


GATHER.differentiate(_save_gather, _gather_backward, _gather_batch, _gather_tangent)
SCATTER.differentiate(_save_scatter, _scatter_backward, scatter_batch, _scatter_tangent)
SCATTER_ZEROS.differentiate(_save_zeros, _zeros_backward, _zeros_batch, _zeros_tangent)
SCATTER_IN_PLACE.batch(in_place_batch(SCATTER))


# --- products and means, and scatters without the values that cells had ----------------------------------------------


_GIVEN = f'{WRITTEN}str reduce="add", {ENDS}, bool include_self=True'
REDUCE_OPTIONS = (*("reduce" if name == "atomic" else name for name in OPTIONS), "include_self")


def _run_(table: Tensor, src: Tensor, indices: Tensor, *given: Any) -> None:
    """The kernel of `scatter_reduce_`."""
    scatter(table, src, indices, **dict(zip(REDUCE_OPTIONS, given, strict=True)))


def _run(table: Tensor, src: Tensor, indices: Tensor, *given: Any) -> Tensor:
    """The kernel of `scatter_reduce`."""
    made = table.detach().clone(memory_format=torch.contiguous_format)
    _run_(made, src, indices, *given)
    return made


REDUCE = TensorOperator(
    "scatter_reduce", f"(Tensor table, Tensor src, Tensor indices, {_GIVEN}) -> Tensor", _run, scattered_shape, slice(3)
)
REDUCE_IN_PLACE = TensorOperator(
    "scatter_reduce_", f"(Tensor(a!) table, Tensor src, Tensor indices, {_GIVEN}) -> ()", _run_, nothing, slice(3)
)


# --- gradients -------------------------------------------------------------------------------------------------------


def _save(ctx: Context, inputs: tuple[Any, ...], output: Tensor) -> None:
    table, src, indices, coalesce, oob, ctx.reduce, _, _, *how, include_self = inputs
    kept = {"mul": (table, src), "max": (table, src, output), "min": (table, src, output)}.get(ctx.reduce, ())
    ctx.save_for_backward(indices, *kept)
    keep_policies(ctx, table, src, coalesce, oob, how)
    ctx.include_self = include_self


def _backward(ctx: Context, grad: Tensor) -> tuple[Any, ...]:
    indices, *kept = ctx.saved_tensors
    return *REDUCED[ctx.reduce](ctx, grad, quiet(indices, ctx.written[1]), *kept), *[None] * 9


def _mean(ctx: Context, grad: Tensor, indices: Tensor) -> Gradients:
    """That of a sum, divided by the number of values."""
    coalesce, oob = ctx.written
    counts = torch.zeros(capacity_of(ctx.shape, coalesce), dtype=torch.int64, device=grad.device)
    counts = SCATTER(counts, counts.new_ones(()), indices, ROW, oob, "add", "last", None, *ctx.how)
    counts = counts + 1 if ctx.include_self else counts.clamp(min=1)
    shape = [ctx.shape[0], *[1] * (len(ctx.shape) - 1)] if coalesce == ROW else ctx.shape
    whole = _wider(grad)
    return added(ctx, (whole / counts.view(shape).to(whole.dtype)).to(grad.dtype), indices)


def _multiplied(ctx: Context, grad: Tensor, indices: Tensor, table: Tensor, src: Tensor) -> Gradients:
    """Every factor of a cell has the gradient of the cell, multiplied by the other factors."""
    of_table = of_src = None
    if ctx.needs_input_grad[0] and not ctx.include_self:
        of_table = cleared(ctx, grad, indices)
    elif ctx.needs_input_grad[0]:
        ones = torch.ones_like(_wider(table))
        factors = REDUCE(ones, _wider(src), indices, *ctx.written, "mul", "last", None, *ctx.how, True)
        of_table = (_wider(grad) * factors).to(grad.dtype)
    if ctx.needs_input_grad[1]:
        above = _wider(grad) * _wider(table) if ctx.include_self else _wider(grad)
        of_src = sum_to(_times_others(ctx, above, indices, _wider(src)), ctx.src).to(grad.dtype)
    return of_table, of_src


REDUCED = {**GRADIENTS, "mean": _mean, "mul": _multiplied}


def _wider(values: Tensor) -> Tensor:
    """Floats narrower than float32 as float32."""
    return values.float() if wide(values.dtype) else values


def _times_others(ctx: Context, above: Tensor, indices: Tensor, src: Tensor) -> Tensor:
    """What each lane reads of a table, multiplied by the other lanes of its cell; 0 for lanes outside."""
    coalesce, oob = ctx.written
    entry, count = entry_of(ctx.shape, coalesce), indices.numel()
    cells = resolved(indices.reshape(count), capacity_of(ctx.shape, coalesce), oob)
    alone = OUTSIDE - torch.arange(count, device=cells.device)
    cells = torch.where(cells == OUTSIDE, alone, cells)  # lanes outside share no cell
    order = torch.argsort(cells, stable=True)
    lanes = GATHER(_spread(src, [*indices.shape, *entry]).reshape(count, *entry), order, ROW, "zero", *ctx.how)
    cells = cells.gather(0, order)
    others = _before(lanes, cells) * _before(lanes.flip(0), cells.flip(0)).flip(0)
    is_inside = (cells >= 0).view(count, *[1] * len(entry))
    read = GATHER(above, indices, *ctx.read).reshape(count, *entry)
    made = torch.where(is_inside, GATHER(read, order, ROW, "zero", *ctx.how) * others, 0)
    return GATHER(made, torch.argsort(order), ROW, "zero", *ctx.how).reshape([*indices.shape, *entry])


def _spread(src: Tensor, shape: list[int]) -> Tensor:
    """A source broadcast to a shape by a gather, whose gradient is summed in order."""
    if list(src.shape) == shape:
        return src
    numbers = torch.arange(src.numel(), device=src.device).view(src.shape).expand(shape)
    return GATHER(src, numbers, "elem", "zero", "auto", None)


def _before(values: Tensor, cells: Tensor) -> Tensor:
    """For each lane, the product of the lanes before it that have its cell; lanes are sorted by cell.

    In round k, a lane is multiplied by the one 2**k before it: products double their length.
    """
    count, step, is_first = values.shape[0], 1, True
    made = torch.ones_like(values)
    while step < count:
        shared = cells[step:] == cells[:-step]
        if is_plain(values) and not shared.any():
            break
        shared = shared.view(count - step, *[1] * (values.dim() - 1))
        if is_first:
            made, is_first = torch.cat([made[:1], torch.where(shared, values[:-1], 1)]), False
            continue
        made = torch.cat([made[:step], torch.where(shared, made[:-step] * made[step:], made[step:])])
        step *= 2
    return made


REDUCE.differentiate(_save, _backward, scatter_batch)
REDUCE_IN_PLACE.batch(in_place_batch(REDUCE))
