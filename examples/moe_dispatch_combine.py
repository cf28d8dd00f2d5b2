"""Mixture of experts: token rows go out to their experts' buffers, and the weighted sum of the answers comes back.

The router gives every token `top_k` choices: a slot in the experts' buffer and a gate. Both kernels iterate over
tokens, never slots. `dispatch` loads a row once and scatters it to each of its slots: that reads `top_k` times less
than a gather by slots would. `combine` gathers the answers of one choice at a time and adds them in a tile, so the sum
needs no atomics, and its order is fixed. A choice whose expert was full has a slot outside the buffer: the scatter
skips it and the gather gives zeros, so dropped choices need no branch. `slots` is `[top_k, tokens]`, because an index
tile loads a contiguous run.
"""

from __future__ import annotations

import numpy as np
from _run import Array, Case, run_everywhere

import ptokit as pto

DROPPED = -1
"""The slot of a choice whose expert was full."""


@pto.kernel
def dispatch(tokens, slots, out, rows: pto.const = 32, oob: pto.const = "skip"):
    """`out[slots[k, t]] = tokens[t]` for every choice `k` that has a slot."""
    count, width = tokens.shape
    cols = pto.cdiv(width, 16) * 16  # tile rows are whole 32-byte blocks
    tiles = pto.cdiv(count, rows)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks, buffers=2):
        first = tile * rows
        n = pto.min(rows, count - first)
        vectors = pto.Tile("vec", tokens.dtype, rows, cols, valid=(n, width))
        pto.tload(vectors, tokens[first : first + n])
        for k in pto.range(slots.shape[0], buffers=2):
            chosen = pto.Tile("vec", slots.dtype, 1, rows, valid=(1, n))
            pto.tload(chosen, slots[k : k + 1, first : first + n])
            pto.mscatter(out, vectors, chosen, coalesce="row", oob=oob)


@pto.kernel
def combine(answers, slots, gates, out, rows: pto.const = 32, oob: pto.const = "zero"):
    """`out[t] = sum over k of gates[t, k] * answers[slots[k, t]]`; a dropped choice adds nothing."""
    count, width = out.shape
    cols = pto.cdiv(width, 16) * 16
    tiles = pto.cdiv(count, rows)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks):
        first = tile * rows
        n = pto.min(rows, count - first)
        total = pto.Tile("vec", out.dtype, rows, cols, valid=(n, width))
        pto.texpands(total, 0)
        for k in pto.range(slots.shape[0], buffers=2):
            chosen = pto.Tile("vec", slots.dtype, 1, rows, valid=(1, n))
            answer = pto.Tile("vec", out.dtype, rows, cols, valid=(n, width))
            pto.tload(chosen, slots[k : k + 1, first : first + n])
            pto.mgather(answer, answers, chosen, oob=oob)
            weight = column(gates[first : first + n, k : k + 1], rows, n)
            pto.trowexpandmul(answer, answer, weight)
            pto.tadd(total, total, answer)
        pto.tstore(out[first : first + n], total)


def column(numbers, rows, n):
    """A ColMajor tile with one number for each row, as the row expansions take it.

    Memory loads row-major; the sum over a single column changes the layout.
    """
    loaded = pto.Tile("vec", numbers.dtype, rows, 16, valid=(n, 1))
    upright = pto.Tile("vec", numbers.dtype, rows, 1, valid=(n, 1), blayout="col_major")
    pto.tload(loaded, numbers)
    pto.trowsum(upright, loaded)
    return upright


def dispatch_reference(tokens: Array, slots: Array, out: Array) -> Array:
    """The same as `dispatch` in NumPy."""
    filled = out.copy()
    for chosen in slots:
        kept = (chosen >= 0) & (chosen < len(out))
        filled[chosen[kept]] = tokens[kept]
    return filled


def combine_reference(answers: Array, slots: Array, gates: Array, out: Array) -> Array:
    """The same as `combine` in NumPy, choice after choice."""
    total = np.zeros_like(out)
    for chosen, gate in zip(slots, gates.T, strict=True):
        kept = (chosen >= 0) & (chosen < len(answers))
        answer = np.where(kept[:, None], answers[np.where(kept, chosen, 0)], out.dtype.type(0))
        total += answer * gate[:, None]
    return total


def route(rng: np.random.Generator, count: int, experts: int, capacity: int, top_k: int) -> Array:
    """Slots `[top_k, tokens]` of a random router: each expert has `capacity` of them, first come, first served."""
    choices = rng.permuted(np.tile(np.arange(experts), (count, 1)), axis=1)[:, :top_k]
    slots = np.full((count, top_k), DROPPED, "int32")
    for expert in range(experts):
        at = np.argwhere(choices == expert)[:capacity]
        slots[at[:, 0], at[:, 1]] = expert * capacity + np.arange(len(at))
    return np.ascontiguousarray(slots.T)


def make_dispatch_case(
    rng: np.random.Generator,
    *,
    count: int = 500,
    width: int = 256,
    experts: int = 8,
    capacity: int = 120,
    top_k: int = 2,
    dtype: str = "float32",
) -> Case:
    """A batch of tokens for experts that cannot take all of it."""
    return {
        "tokens": rng.standard_normal((count, width), dtype="float32").astype(dtype),
        "slots": route(rng, count, experts, capacity, top_k),
        "out": np.zeros((experts * capacity, width), dtype),
    }


def make_combine_case(rng: np.random.Generator, slots: Array, answers: Array) -> Case:
    """The answers of the experts, and gates that sum to one for each token."""
    top_k, count = slots.shape
    gates = rng.random((count, top_k), dtype="float32").astype(answers.dtype)
    return {
        "answers": answers,
        "slots": slots,
        "gates": gates / gates.sum(axis=1, keepdims=True),
        "out": np.full((count, answers.shape[1]), np.nan, answers.dtype),
    }


def main() -> None:
    """Dispatch a batch, let every expert double its rows, and combine."""
    rng = np.random.default_rng(0)
    outward = make_dispatch_case(rng)
    buffer = dispatch_reference(**outward)
    run_everywhere(dispatch, outward, buffer, grid=16)
    back = make_combine_case(rng, outward["slots"], 2 * buffer)
    run_everywhere(combine, back, combine_reference(**back), grid=16)


if __name__ == "__main__":
    main()
