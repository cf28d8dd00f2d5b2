"""The same indexed move as calls of every library.

A library may have several calls (forms) for a move; `pick` finds the fastest correct one. Forms write into existing
arrays, use the arrays unchanged, and skip unnecessary work (NumPy's buffering under `mode="clip"`, the element type if
only bits move). A library that cannot do a move has no forms.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
from _cases import Work, Works, bits
from _lengths import BOUNDS, SHORT, in_turn
from _machine import empty
from _measure import LIMIT, OURS, Call, Who, interleaved, median

import ptokit as pto

# Set before the libraries are loaded: threads that spin while they wait would occupy the cores of the next contender.
os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": "0"}

Forms = dict[str, Call]
MOVED = ("gather", "store")
"""Operations that move bits and do no arithmetic."""


def nothing() -> None:
    """The default preparation of a call."""


@dataclass(frozen=True)
class Library:
    """A library that can be measured."""

    name: str
    forms: Callable[[Work, int], Forms]
    set_threads: Callable[[int], object] = lambda threads: None
    threaded: bool = True
    ordered: bool = True
    """Whether the last of several stores into one cell is guaranteed to win on several threads."""


def _ptokit(work: Work, threads: int) -> Forms:
    how: dict[str, Any] = {} if work.table.ndim > 1 else {"coalesce": "elem"}
    if len(work.indices) > BOUNDS[SHORT][1]:  # short calls are made as most users make them; they have one thread
        how["threads"] = threads
    if work.op == "gather":
        return {"gather": partial(pto.gather, work.table, work.indices, out=work.values, **how)}
    atomic = "none" if work.op == "store" else work.op
    return {"scatter": partial(pto.scatter, work.table, work.values, work.indices, atomic=atomic, **how)}


def _numpy(work: Work, threads: int) -> Forms:
    table, indices, values = work.table, work.indices, work.values
    if work.op in MOVED:
        table, values = bits(table), bits(values)
    forms: dict[str, Forms] = {
        "gather": {"np.take": partial(np.take, table, indices, axis=0, out=values, mode="clip")},
        "store": {"table[i] = src": partial(table.__setitem__, indices, values)},
        "add": {"np.add.at": partial(np.add.at, table, indices, values)},
        "max": {"np.maximum.at": partial(np.maximum.at, table, indices, values)},
    }
    if work.table.ndim == 1:
        forms["store"]["np.put"] = partial(np.put, table, indices, values, mode="clip")
    return forms[work.op]


def _tensor(array: np.ndarray[Any, Any]) -> Any:
    """A torch tensor on the same memory."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(bits(array)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _torch(work: Work, threads: int) -> Forms:
    import torch

    table, indices, values = map(_tensor, (work.table, work.indices, work.values))
    if work.table.ndim > 1:
        spread = indices[:, None].expand(values.shape)
        return {
            "gather": {"index_select": partial(torch.index_select, table, 0, indices, out=values)},
            "store": {
                "index_copy_": partial(table.index_copy_, 0, indices, values),
                "index_put_": partial(table.index_put_, (indices,), values),
            },
            "add": {
                "index_add_": partial(table.index_add_, 0, indices, values),
                "scatter_add_": partial(table.scatter_add_, 0, spread, values),
            },
        }[work.op]
    forms: dict[str, Forms] = {
        "gather": {"index_select": partial(torch.index_select, table, 0, indices, out=values)},
        "store": {
            "index_copy_": partial(table.index_copy_, 0, indices, values),
            "index_put_": partial(table.index_put_, (indices,), values),
            "scatter_": partial(table.scatter_, 0, indices, values),
        },
        "add": {
            "index_add_": partial(table.index_add_, 0, indices, values),
            "scatter_add_": partial(table.scatter_add_, 0, indices, values),
            "index_put_": partial(table.index_put_, (indices,), values, accumulate=True),
        },
        "max": {
            "index_reduce_": partial(table.index_reduce_, 0, indices, values, "amax"),
            "scatter_reduce_": partial(table.scatter_reduce_, 0, indices, values, "amax"),
        },
    }
    if indices.dtype == torch.int64:
        forms["gather"]["take"] = partial(torch.take, table, indices, out=values)
    return forms[work.op]


def _torch_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


@cache
def _loops() -> dict[tuple[str, int], Callable[..., None]]:
    """Loops for Numba, by operation and dimensions; `prange` is `range` if not parallel."""
    from numba import prange

    def gather_rows(table, indices, out):
        for lane in prange(len(indices)):
            cell = indices[lane]
            for column in range(table.shape[1]):
                out[lane, column] = table[cell, column]

    def store_rows(table, indices, source):
        for lane in prange(len(indices)):
            cell = indices[lane]
            for column in range(table.shape[1]):
                table[cell, column] = source[lane, column]

    def add_rows(table, indices, source):
        for lane in prange(len(indices)):
            cell = indices[lane]
            for column in range(table.shape[1]):
                table[cell, column] += source[lane, column]

    def gather_elements(table, indices, out):
        for lane in prange(len(indices)):
            out[lane] = table[indices[lane]]

    def store_elements(table, indices, source):
        for lane in prange(len(indices)):
            table[indices[lane]] = source[lane]

    def add_elements(table, indices, source):
        for lane in prange(len(indices)):
            table[indices[lane]] += source[lane]

    def max_elements(table, indices, source):
        for lane in prange(len(indices)):
            cell = indices[lane]
            table[cell] = max(table[cell], source[lane])

    return {
        ("gather", 2): gather_rows, ("store", 2): store_rows, ("add", 2): add_rows,
        ("gather", 1): gather_elements, ("store", 1): store_elements, ("add", 1): add_elements,
        ("max", 1): max_elements,
    }  # fmt: skip


@cache
def _compiled(op: str, dims: int) -> dict[str, Callable[..., None]]:
    """A loop on one thread, one over all lanes in parallel, and one in parallel over one part per thread."""
    from numba import get_num_threads, njit, prange

    loop = njit(_loops()[op, dims])

    def parts(table, indices, values):
        threads, lanes = get_num_threads(), len(indices)
        for part in prange(threads):
            begin, end = lanes * part // threads, lanes * (part + 1) // threads
            loop(table, indices[begin:end], values[begin:end])

    return {
        "loop": loop,
        "prange": njit(parallel=True)(_loops()[op, dims]),
        "prange of parts": njit(parallel=True)(parts),
    }


def _numba(work: Work, threads: int) -> Forms:
    """Loops on all threads, or on one if repeated cells would make threads race."""
    table, values = work.table, work.values
    if work.op in MOVED:
        table, values = bits(table), bits(values)
    elif table.dtype.name in ("float16", "bfloat16"):  # it has no arithmetic for these on a CPU
        return {}
    parallel = threads > 1 and (work.op == "gather" or not work.repeats)
    forms = _compiled(work.op, work.table.ndim)
    return {form: partial(forms[form], table, work.indices, values) for form in forms if form == "loop" or parallel}


def _numba_threads(threads: int) -> None:
    import numba

    numba.set_num_threads(threads)


LIBRARIES = tuple(
    library
    for needs, library in (
        ("ptokit", Library(OURS, _ptokit)),
        ("numpy", Library("NumPy", _numpy, threaded=False)),
        ("torch", Library("PyTorch", _torch, _torch_threads, ordered=False)),
        ("numba", Library("Numba", _numba, _numba_threads)),
    )
    if find_spec(needs)
)
"""The installed libraries."""


@dataclass(frozen=True)
class Contender:
    """A library's form of a move, ready to be called."""

    who: Who
    form: str
    call: Call
    payload: int
    """Bytes that a call moves, counted once."""
    before: Call = nothing
    right: bool = True


def forms_of(library: Library, works: Works, threads: int) -> Forms:
    """A library's calls of all parts: the first form of each, the second one, and so on."""
    each = [list(library.forms(part, threads).items()) for part in works.parts]
    found: Forms = {}
    for number in range(max(map(len, each)) if all(each) else 0):
        chosen = [forms[min(number, len(forms) - 1)] for forms in each]
        found[", ".join(dict.fromkeys(form for form, _ in chosen))] = in_turn([call for _, call in chosen])
    return found


def pick(library: Library, works: Works, threads: int) -> Contender | str:
    """The fastest correct form of a library, or the fastest wrong one; or an error message, empty without forms."""
    found: list[tuple[bool, float, Contender]] = []
    problem = ""
    library.set_threads(threads)

    def before() -> None:
        library.set_threads(threads)
        works.reset()

    forms = forms_of(library, works, threads)
    lucky = works.needs_order and threads > 1 and not library.ordered
    for form, call in forms.items():
        try:
            right = works.is_right(call) and not lucky
        except Exception as error:  # the library does not support the form
            problem = f"{form}: {error}"
            continue
        seconds = 0.0 if len(forms) == 1 else median(interleaved({form: call}, 2, before={form: before})[form])
        found.append(
            (not right, seconds, Contender(Who(library.name, threads), form, call, works.payload, before, right))
        )
    return min(found, key=lambda entry: entry[:2])[2] if found else problem


COPIED = 64 << 20


@cache
def _copied(side: str) -> np.ndarray[Any, Any]:
    found = empty(COPIED)
    found.fill(len(side))
    return found


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def limit(threads: int) -> Contender:
    """A copy of memory, split among threads: the upper limit of any move."""
    source, target = _copied("source"), _copied("target")
    ends = [COPIED * part // threads for part in range(threads + 1)]
    parts = [(target[a:b], source[a:b]) for a, b in pairwise(ends)]

    def copy() -> None:
        others = [_pool(threads).submit(np.copyto, *part) for part in parts[1:]]
        np.copyto(*parts[0])
        for other in others:
            other.result()

    return Contender(Who(LIMIT, threads), "copy", copy, COPIED)
