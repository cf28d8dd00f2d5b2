"""Traces that are made up: Zipf lookups, MoE routing, a paged KV cache. The same parameters give the same bits."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np

from ptokit.brief import brief
from ptokit.finding import suggestion
from ptokit.isa.dtype import dtype as element_type
from ptokit.lang.faults import public
from ptokit.traces.draws import Draws, zipf_ends
from ptokit.traces.file import IndexTrace
from ptokit.traces.traced_calls import Array, LookupKind, TracedCall

MODELS = {
    "mixtral": {"experts": 8, "top_k": 2, "hidden": 4096},
    "deepseek-v3": {"experts": 256, "top_k": 8, "hidden": 7168},
}
"""Published shapes of MoE layers."""
MOST_LANES = 50_000_000
"""Indices of a generated trace."""
BOUNDS: dict[str, tuple[float, float]] = {
    "rows": (1, 1 << 26), "skew": (0, 8), "calls": (1, 100_000), "lanes": (1, MOST_LANES), "width": (1, 1 << 20),
    "tokens": (1, 1 << 22), "steps": (1, 100_000), "experts": (1, 1 << 16), "top_k": (1, 64), "hidden": (1, 1 << 20),
    "sequences": (1, 1 << 16), "block_size": (1, 4096), "kv_heads": (1, 1024), "head_dim": (1, 4096),
    "prompt": (1, 1 << 20), "output": (1, 1 << 20), "seed": (0, (1 << 63) - 1),
}  # fmt: skip
"""The least and the most of each number."""
REDRAWS = 64
"""Draws of another expert in place of one that a token has already, before the first free one is taken."""


@public
def zipf(
    *,
    rows: int = 1_000_000,
    skew: float = 1.0,
    calls: int = 16,
    lanes: int = 4096,
    width: int = 128,
    dtype: str = "float32",
    shuffled: bool = True,
    seed: int = 0,
) -> IndexTrace:
    """Gathers of rows whose popularity follows Zipf's law: the row of rank `k` is drawn in proportion to `k ** -skew`.

    Ranks are rows in a fixed random order, or in their own order without `shuffled`.
    """
    given = _checked(zipf, locals(), calls * lanes)
    draws, ends = Draws(seed), zipf_ends(rows, skew)
    named = draws.permutation(rows) if shuffled else np.positive
    what = LookupKind("gather", (rows, width), dtype, element_type(dtype).size, index="int32")
    made = [TracedCall(what, named(draws.weighted(ends, lanes)).astype(np.int32)) for _ in range(calls)]
    return _trace("zipf", given, made)


@public
def moe_routing(
    *,
    model: str = "mixtral",
    tokens: int = 512,
    steps: int = 4,
    experts: int = 0,
    top_k: int = 0,
    hidden: int = 0,
    skew: float = 0.0,
    dtype: str = "float16",
    seed: int = 0,
) -> IndexTrace:
    """Rows of tokens that go to experts and come back: for each step a gather in the order of the experts, and a
    scatter that adds the answers.

    `experts`, `top_k` and `hidden` are those of the `model` unless they are given. A token has `top_k` different
    experts, drawn evenly, or by Zipf's law with a `skew`.
    """
    if model not in MODELS:
        raise ValueError(f"the models are {', '.join(MODELS)}; found {brief(model)}{suggestion(model, MODELS)}")
    shape = MODELS[model]
    experts, top_k, hidden = experts or shape["experts"], top_k or shape["top_k"], hidden or shape["hidden"]
    given = _checked(moe_routing, locals(), 2 * tokens * top_k * steps)
    if top_k > experts:
        raise ValueError(f"a token cannot have {top_k} of {experts} experts")
    draws, ends = Draws(seed), zipf_ends(experts, skew)
    size = element_type(dtype).size
    out = LookupKind("gather", (tokens, hidden), dtype, size, index="int32")
    back = LookupKind("scatter", (tokens, hidden), dtype, size, table=1, atomic="add", index="int32")
    made: list[TracedCall] = []
    for _ in range(steps):
        chosen = _experts(draws, ends, tokens, top_k)
        order = np.argsort(chosen.reshape(-1), kind="stable") // top_k
        made += [TracedCall(what, order.astype(np.int32)) for what in (out, back)]
    return _trace("moe_routing", given, made)


def _experts(draws: Draws, ends: Array, tokens: int, top_k: int) -> Array:
    """Different experts for each token, in the order in which they are drawn."""
    chosen = np.full((tokens, top_k), -1, np.int64)
    for k in range(top_k):
        again = np.arange(tokens)
        for _ in range(REDRAWS):
            drawn = draws.weighted(ends, again.size)
            is_taken = (chosen[again, :k] == drawn[:, None]).any(axis=1)
            chosen[again[~is_taken], k] = drawn[~is_taken]
            again = again[is_taken]
            if not again.size:
                break
        for token in again.tolist():
            chosen[token, k] = next(e for e in range(len(ends)) if e not in chosen[token, :k])
    return chosen


@public
def paged_kv(
    *,
    sequences: int = 32,
    steps: int = 16,
    block_size: int = 16,
    kv_heads: int = 8,
    head_dim: int = 128,
    prompt: int = 161,
    output: int = 338,
    dtype: str = "float16",
    seed: int = 0,
) -> IndexTrace:
    """Steps of decoding with a paged KV cache: each stores the key of a new token of every sequence, and reads the
    blocks of all sequences.

    Lengths of prompts and outputs are drawn evenly from 1 to twice their means; those of ShareGPT are 161.31 and 337.99
    tokens (arXiv:2309.06180, figure 11). A sequence that ends is replaced by a
    new one, which gets the blocks that have been free for longest.
    """
    longest = 2 * (prompt + output)
    per_sequence = -(-longest // block_size) if block_size else longest  # which is refused
    given = _checked(paged_kv, locals(), sequences * steps * (per_sequence + 1))
    draws, blocks = Draws(seed), sequences * per_sequence
    size, row = element_type(dtype).size, (kv_heads, head_dim)
    slots = LookupKind("scatter", (blocks * block_size, *row), dtype, size, index="int32")
    pages = LookupKind("gather", (blocks, block_size, *row), dtype, size, table=1, index="int32")
    free = deque(draws.permutation(blocks)(np.arange(blocks)).tolist())
    ends, lengths, owned = [0] * sequences, [0] * sequences, [list[int]() for _ in range(sequences)]
    progress = draws.below(2 * output, sequences).tolist()
    made: list[TracedCall] = []
    for step in range(steps):
        for k in range(sequences):
            if lengths[k] >= ends[k]:
                free.extend(owned[k])
                length, more = 1 + int(draws.below(2 * prompt, 1)[0]), 1 + int(draws.below(2 * output, 1)[0])
                past = min(progress[k], more - 1) if step == 0 else 0  # the first ones are under way already
                lengths[k], ends[k] = length + past, length + more
                owned[k] = [free.popleft() for _ in range(-(-lengths[k] // block_size))]
            lengths[k] += 1
            if lengths[k] > len(owned[k]) * block_size:
                owned[k].append(free.popleft())
        last = [owned[k][-1] * block_size + (lengths[k] - 1) % block_size for k in range(sequences)]
        made.append(TracedCall(slots, np.array(last, np.int32)))
        made.append(TracedCall(pages, np.concatenate([np.array(each, np.int32) for each in owned])))
    return _trace("paged_kv", given, made)


GENERATORS: Mapping[str, Callable[..., IndexTrace]] = {
    "zipf": zipf, "moe_routing": moe_routing, "paged_kv": paged_kv, "moe": moe_routing,
}  # fmt: skip
"""Generators by their names on the command line: those of Python, and a short one."""


def generate(text: str) -> IndexTrace:
    """The trace of a text such as `zipf:rows=1000,skew=1.2`."""
    name, _, rest = text.partition(":")
    if name not in GENERATORS:
        raise ValueError(
            f"the generators are {', '.join(GENERATORS)}; found {brief(name)}{suggestion(name, GENERATORS)}"
        )
    known = inspect.signature(GENERATORS[name]).parameters
    given: dict[str, Any] = {}
    for word in filter(None, rest.split(",")):
        key, _, value = word.partition("=")
        if key not in known or not value:
            raise ValueError(f"{name} takes {', '.join(f'{each}=' for each in known)}; found {brief(word)}")
        given[key] = _value(key, value, type(known[key].default))
    return GENERATORS[name](**given)


def _value(name: str, text: str, kind: type) -> Any:
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(f"{name} is true or false; found {brief(text)}")
        return text == "true"
    try:
        return kind(text[:100])
    except ValueError:
        raise ValueError(
            f"{name} takes {'a whole number' if kind is int else 'a number'}; found {brief(text)}"
        ) from None


def _checked(function: Callable[..., IndexTrace], given: Mapping[str, Any], lanes: int) -> dict[str, Any]:
    """The parameters of a generator; numbers out of bounds are refused."""
    own = {name: given[name] for name in inspect.signature(function).parameters}
    for name, value in own.items():
        least, most = BOUNDS.get(name, (0, 0))
        is_number = type(value) is int or (name == "skew" and type(value) is float and isfinite(value))
        if name in BOUNDS and not (is_number and least <= value <= most):
            raise ValueError(f"{name} takes a number from {least:,} to {most:,}; found {brief(value)}")
    try:
        element_type(own["dtype"])
    except (TypeError, ValueError) as problem:
        raise ValueError(f"dtype takes an element type such as float32: {problem}") from None
    if lanes > MOST_LANES:
        raise ValueError(f"the trace would have {lanes:,} indices; {MOST_LANES:,} are the most")
    return own


def _trace(name: str, given: Mapping[str, Any], calls: list[TracedCall]) -> IndexTrace:
    words = ",".join(f"{key}={str(value).lower()}" for key, value in given.items())
    return IndexTrace(calls, source=f"{name}:{words}", seen=len(calls))
