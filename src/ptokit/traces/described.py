"""Calls of ptokit and of torch as a trace has them: their kind, their table, and their indices on the host."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ptokit.engine.gpu import on_gpu
from ptokit.engines import download
from ptokit.isa.move import Remap
from ptokit.lang.arrays import as_array, is_foreign
from ptokit.ops.array_call import FROM_END, GATHER_ND, MODES, REDUCES, OutsidePolicy
from ptokit.ops.library_words import along, coordinates
from ptokit.traces.table_memory import TableMemory
from ptokit.traces.traced_calls import Array, LookupKind

Described = tuple[LookupKind, TableMemory, Any]
"""The kind of a call, its table, and its indices on the host."""
OPERATORS = "ptokit."
"""How the names of the operators of `ptokit.torch` begin."""


def array_call(name: str, signature: inspect.Signature, args: tuple[Any, ...], options: dict[str, Any]) -> Described:
    """A call of `pto.gather` or `pto.scatter`, or of one of their other forms."""
    bound = signature.bind(*args, **options)
    bound.apply_defaults()
    given = bound.arguments
    table, indices = _array(given["table"]), _array(given["indices"])
    indices = download(indices) if on_gpu(indices) else indices
    name, _, form = name.partition("_")
    mode = given.get("mode")
    oob = _word(given["oob"]) if mode is None else MODES[mode][name == "scatter"].text
    atomic = REDUCES[_word(given.get("reduce"), given.get("atomic"))].text
    shape, unit, axis = tuple(table.shape), "elem", 0
    if form:
        select, option = FORMS[form]
        policy = OutsidePolicy(MOVED.get(oob, Remap.SKIP), signed=mode is not None, from_end=mode == FROM_END)
        lanes = indices.view(np.uint32) if indices.dtype == np.int32 and mode is None else indices
        found = select(given[option], GATHER_ND, lanes, table, policy)
        indices = found.lanes
        if form == "nd":
            shape, unit = (prod(shape[: found.dims]), *shape[found.dims :]), "row"
    else:
        if (dim := given.get("axis", 0)) is not None:
            unit, axis = _word(given["coalesce"]), dim % max(1, table.ndim)
        if mode is not None:
            entries = table.size if unit == "elem" else table.shape[axis]
            indices = np.where((indices < 0) & (mode == FROM_END), indices + entries, indices).astype(np.int64)
    kind = table.dtype
    what = LookupKind(name, shape, kind.name, kind.itemsize, unit=unit, axis=axis, oob=oob, atomic=atomic)
    return what, TableMemory.of_array(given["table"], table), indices


FORMS = {"along": (along, "axis"), "nd": (coordinates, "batch_dims")}
"""The other forms: as elements in C order, and as rows of a table in which the dims of the coordinates are one."""
MOVED = {"clamp": Remap.CLAMP, "wrap": Remap.WRAP}


def _word(*given: object) -> str:
    """The first value that is given, as the word for a policy."""
    value = next((each for each in given if each is not None), "none")
    return str(getattr(value, "text", value))


def _array(given: object) -> Any:
    return as_array(given) if is_foreign(given) else np.asarray(given)


# --- calls of torch


def operator(func: Any, args: Sequence[Any]) -> Callable[..., Described] | None:
    """How a call of an operator of `ptokit.torch` is described; None for others, and for segments: bags without
    indices."""
    name = str(func) if type(func).__module__ == "torch._ops" else ""
    if not name.startswith(OPERATORS) or (len(args) > 1 and args[1] is None):
        return None
    return IN_TORCH.get(name.removeprefix(OPERATORS).partition(".")[0])


def _gather(table: Any, indices: Any, unit: str = "row", oob: str = "undefined", *_: Any) -> Described:
    return _lookup("gather", table, indices, unit=unit, oob=oob)


def _scatter(
    table: Any, _src: Any, indices: Any, unit: str = "row", oob: str = "undefined", atomic: str = "none", *_: Any
) -> Described:
    return _lookup("scatter", table, indices, unit=unit, oob=oob, atomic=atomic)


IN_TORCH = {
    "gather": _gather,
    "bag": lambda table, indices, *_: _lookup("embedding_bag", table, indices),
    **dict.fromkeys(("scatter", "scatter_", "scatter_reduce", "scatter_reduce_"), _scatter),
}
"""The operators of `ptokit.torch` that are recorded."""


def _embedding_bag(input: Any, weight: Any, *_: Any, **__: Any) -> Described:
    return _lookup("embedding_bag", *((input, weight) if input.dtype.is_floating_point else (weight, input)))


def _index_select(input: Any, dim: int, index: Any, **_: Any) -> Described:
    return _lookup("index_select", input, index, dim)


def _lookup(kind: str, table: Any, indices: Any, axis: int = 0, **policies: Any) -> Described:
    shape = tuple(table.shape)
    name = str(table.dtype).rpartition(".")[2]
    what = LookupKind(kind, shape, name, table.element_size(), axis=axis % max(1, len(shape)), **policies)
    host: Array = indices.detach().cpu().numpy()
    return what, TableMemory.of_tensor(table), host


def functions(torch: Any) -> dict[Any, Callable[..., Described]]:
    """The functions of torch that are recorded."""
    functional = torch.nn.functional
    return {
        functional.embedding: lambda input, weight, *_, **__: _lookup("embedding", weight, input),
        functional.embedding_bag: _embedding_bag,
        torch.embedding: lambda weight, indices, *_, **__: _lookup("embedding", weight, indices),
        torch.index_select: _index_select,
        torch.Tensor.index_select: _index_select,
    }
