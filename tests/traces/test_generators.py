"""Generated traces: the same bits everywhere, and the distribution that they state."""

from __future__ import annotations

from decimal import Decimal, getcontext
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.traces.draws import Draws, zipf_ends

GOLDEN = {
    "zipf:rows=1000,lanes=500,calls=3": "f69f5d8fa5116d3c",
    "zipf:rows=70000,skew=1.2,lanes=500,shuffled=false,seed=7": "ef649bc76a29b382",
    "moe_routing:tokens=50,steps=2": "112cb22837cbe410",
    "moe:model=deepseek-v3,tokens=20,skew=0.8": "23d039aacc920b39",
    "paged_kv:sequences=5,steps=40,prompt=10,output=12": "b9be4617811c9cb0",
}
"""The start of a hash of all indices: it holds on every machine and every version of NumPy."""


@pytest.mark.parametrize("text", GOLDEN)
def test_the_bits_are_the_same_everywhere(text: str) -> None:
    trace = pto.traces.generate(text)
    digest = sha256(b"".join(call.indices.astype("<i4").tobytes() for call in trace.calls)).hexdigest()
    assert digest[:16] == GOLDEN[text]


@pytest.mark.parametrize("text", GOLDEN)
def test_a_trace_names_the_parameters_that_make_it_again(text: str) -> None:
    trace = pto.traces.generate(text)
    again = pto.traces.generate(trace.source)
    assert trace.source == again.source
    assert all(np.array_equal(a.indices, b.indices) for a, b in zip(trace.calls, again.calls, strict=True))


def test_generators_have_their_names_in_python() -> None:
    assert all(pto.traces.GENERATORS[each.__name__] is each for each in pto.traces.GENERATORS.values())
    assert pto.traces.generate("moe:tokens=3").source == pto.traces.moe_routing(tokens=3).source


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 1.37, 4.0])
def test_weights_are_powers(skew: float) -> None:
    getcontext().prec = 40
    ends = zipf_ends(70_000, skew)
    assert ends[-1] < 1 << 63
    weights = np.diff(ends, prepend=0)
    for rank in (1, 2, 3, 10, 1023, 1024, 1025, 65_536, 65_537, 70_000):
        exact = weights[0] * Decimal(rank) ** -Decimal(skew)
        assert abs(int(weights[rank - 1]) - exact) <= 1 + exact * Decimal("1e-13")


def test_ranks_are_drawn_in_proportion_to_their_weights() -> None:
    trace = pto.traces.zipf(rows=50, skew=1.0, lanes=50_000, calls=1, shuffled=False)
    counts = np.bincount(trace.calls[0].indices, minlength=50)
    expected = 50_000 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum()
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


@pytest.mark.parametrize("rows", [1, 2, 7, 64, 1000])
def test_shuffled_names_are_a_permutation(rows: int) -> None:
    assert np.array_equal(np.sort(Draws(3).permutation(rows)(np.arange(rows))), np.arange(rows))


def test_numbers_below_an_end_are_even() -> None:
    counts = np.bincount(Draws(1).below(6, 60_000), minlength=6)
    assert counts.size == 6 and (np.abs(counts - 10_000) < 500).all()


@pytest.mark.parametrize(
    ("model", "experts", "top_k", "hidden"), [("mixtral", 8, 2, 4096), ("deepseek-v3", 256, 8, 7168)]
)
def test_a_token_goes_to_different_experts(model: str, experts: int, top_k: int, hidden: int) -> None:
    trace = pto.traces.moe_routing(model=model, tokens=30, steps=2)
    for out, back in zip(trace.calls[::2], trace.calls[1::2], strict=True):
        assert np.array_equal(out.indices, back.indices)
        assert np.bincount(out.indices).tolist() == [top_k] * 30
        runs = 1 + sum(b <= a for a, b in pairwise(out.indices.tolist()))  # within an expert, tokens ascend
        assert top_k <= runs <= experts
        assert (out.what.kind, out.what.entry_bytes, back.what.title) == ("gather", 2 * hidden, "scatter add")


def test_a_token_can_have_all_experts_whatever_the_skew() -> None:
    trace = pto.traces.moe_routing(tokens=9, steps=1, experts=12, top_k=12, skew=8.0)
    assert trace.calls[0].indices.tolist() == [*range(9)] * 12


def test_blocks_of_a_cache_belong_to_one_sequence() -> None:
    trace = pto.traces.paged_kv(sequences=6, steps=60, block_size=4, prompt=5, output=9)
    held: list[set[int]] = []
    for stored, read in zip(trace.calls[::2], trace.calls[1::2], strict=True):
        blocks = read.indices.tolist()
        assert len({*blocks}) == len(blocks)
        assert {slot // 4 for slot in stored.indices.tolist()} <= {*blocks}
        assert len({*stored.indices.tolist()}) == 6
        held.append({*blocks})
    assert len(set.union(*held)) > max(map(len, held))  # blocks of sequences that have ended are used again


def test_the_size_of_a_page_is_that_of_vllm_and_llama() -> None:
    pages = pto.traces.paged_kv(steps=1, sequences=1).calls[1].what
    assert pages.entry_bytes == 16 * 8 * 128 * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zip", "the generators are zipf, moe_routing, paged_kv, moe; found 'zip'; did you mean zipf"),
        ("zipf:rows", "zipf takes rows=, skew="),
        ("zipf:rows=x", "rows takes a whole number; found 'x'"),
        ("zipf:rows=0", "rows takes a number from 1 to"),
        ("zipf:rows=99999999999", "rows takes a number from 1 to"),
        ("zipf:skew=nan", "skew takes a number from 0 to 8; found nan"),
        ("zipf:skew=inf", "skew takes a number"),
        ("zipf:shuffled=maybe", "shuffled is true or false"),
        ("zipf:calls=100000,lanes=50000000", "the trace would have"),
        ("moe:model=gpt", "the models are mixtral, deepseek-v3"),
        ("moe:experts=2,top_k=3", "a token cannot have 3 of 2 experts"),
        ("paged_kv:sequences=65536,steps=100000", "the trace would have"),
        ("paged_kv:block_size=0", "block_size takes a number from 1"),
        ("zipf:dtype=object", "dtype takes an element type"),
    ],
)
def test_other_parameters_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as problem:
        pto.traces.generate(text)
    assert message in str(problem.value)


def test_parameters_of_other_types_are_refused() -> None:
    for given in ({"rows": 1.5}, {"rows": True}, {"seed": -1}):
        options: dict[str, Any] = dict(given)
        with pytest.raises(ValueError, match="takes a number from"):
            pto.traces.zipf(**options)
