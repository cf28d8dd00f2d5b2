"""Faults that are seeded into clean kernels in the vendor's style: each is found at its line, by its rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cxx.building import COMPILER
from tests.cxx.seeds import Array, Seeded, kernels, launches, misses, shown
from tests.loops import FULL

pytestmark = [
    pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler"),
    pytest.mark.filterwarnings("ignore::ptokit.HazardWarning", "ignore::ptokit.UnmodelledWarning"),
]
PART = 8
"""Without FULL, one of so many faults is tried, and each kernel on one target."""


def cases(*, all_targets: bool) -> list[Any]:
    """Kernels and targets."""
    return [
        pytest.param(seeded, target, id=f"{seeded.name}-{target}")
        for number, seeded in enumerate(kernels().values())
        for target in (seeded.targets if all_targets else seeded.targets[number % len(seeded.targets) :][:1])
    ]


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _layernorm(x: Array, gain: Array, bias: Array) -> Array:
    apart = x - x.mean(axis=1, keepdims=True)
    return apart / np.sqrt((apart**2).mean(axis=1, keepdims=True) + 0.25) * gain + bias


def _scales(x: Array) -> Array:
    return np.abs(x).max(axis=1) / 64


def _quantise(x: Array) -> Array:
    return np.rint((x / _scales(x)[:, None]).astype("float16"))


def _segments(out: Array, table: Array, ids: Array, segment: Array) -> Array:
    result = out.copy()
    np.add.at(result, segment, 2 * table[ids])
    return result


def _back(x: Array, ids: Array) -> Array:
    result = np.zeros_like(x)
    result.flat[ids.ravel()] = 2 * x.flat[ids.ravel()]
    return result


def _padded(x: Array) -> Array:
    return np.pad(x.sum(axis=0), (0, 64 - x.shape[1]))


def _attention(q: Array, k: Array, v: Array) -> Array:
    powers = [np.exp(q.astype("float32") @ part.astype("float32")) for part in k]
    sums = sum(part.sum(axis=1, keepdims=True) for part in powers)
    return sum(np.float32(np.float16(p)) @ w.astype("float32") for p, w in zip(powers, v, strict=True)) / sums


def _columns(a: Array, b: Array) -> Array:
    return a.astype("float32") @ b.astype("float32")


def _plain(a: Array) -> Array:
    """A matrix that lies in NZ layout: blocks of 16 x 16, column by column."""
    return a.transpose(1, 2, 0, 3).reshape(32, 64)


REFERENCES: dict[str, dict[str, Callable[[dict[str, Array]], Array]]] = {
    "axpy": {"out": lambda g: 3 * g["x"] + g["y"]},
    "softmax": {"out": lambda g: _softmax(g["x"])},
    "layernorm": {"out": lambda g: _layernorm(g["x"], g["gain"], g["bias"])},
    "quantise": {"out": lambda g: _quantise(g["x"]), "scales": lambda g: _scales(g["x"])},
    "column_sums": {"out": lambda g: g["out"] + g["x"].sum(axis=0)},
    "pages": {"out": lambda g: g["cache"][g["table"][:, :5].ravel()]},
    "segments": {"out": lambda g: _segments(g["out"], g["table"], g["ids"], g["segment"])},
    "local": {
        "out": lambda g: 2 * g["x"].flat[g["ids"]],
        "back": lambda g: _back(g["x"], g["ids"]),
        "even": lambda g: g["x"][:, ::2],
    },
    "topk": {
        "out": lambda g: -np.sort(-g["x"], axis=1)[:, :32],
        "places": lambda g: np.argsort(-g["x"], axis=1, kind="stable")[:, :32],
    },
    "transpose": {"out": lambda g: g["x"].T},
    "padded": {"out": lambda g: _padded(g["x"]), "copy": lambda g: g["x"]},
    "select": {"out": lambda g: np.maximum(g["x"], g["y"]) + np.tile(g["bias"], 2)[:, None]},
    "scalars": {"out": lambda g: np.maximum.accumulate(g["x"].reshape(6, 16), axis=1).ravel()},
    "matmul": {"out": lambda g: _columns(g["a"], g["b"])},
    "projection": {"out": lambda g: _columns(_plain(g["a"]), g["b"]) + g["bias"]},
    "attention": {"out": lambda g: _attention(g["q"], g["k"], g["v"])},
    "scaled": {"out": lambda g: 2 * _columns(g["a"], g["b"])},
    "pushed": {"out": lambda g: _columns(g["a"], g["b"]) + 1},
    "halves": {"out": lambda g: g["x"] + 1},
    "split": {"out": lambda g: _columns(g["a"], g["b"]) + 1},
    "tokens": {"out": lambda g: 2 * g["x"]},
}
"""By kernel and result: what it is, of the arguments before the launch."""


@pytest.mark.parametrize(("seeded", "target"), cases(all_targets=FULL))
def test_kernels_without_a_fault_are_clean_and_right(seeded: Seeded, target: str) -> None:
    (launch,) = launches(seeded, target, [None])
    assert not [each for each in launch.found if each.level != "unmodelled"], shown(launch)
    before = seeded.values()
    for name, reference in REFERENCES[seeded.name].items() if not launch.found else ():
        expected = reference(before).astype("float64")
        np.testing.assert_allclose(launch.given[name].astype("float64"), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("seeded", "target"), cases(all_targets=FULL))
def test_faults_are_found_at_their_lines(seeded: Seeded, target: str) -> None:
    faults = seeded.faults_of(target)
    found = list(misses(seeded, target, faults if FULL else faults[len(seeded.name) % min(PART, len(faults)) :: PART]))
    assert not found, "\n".join(what for _, what in found)


def test_the_corpus_has_faults_of_every_class() -> None:
    """And every kernel is without them on all of its targets."""
    faults = [fault for seeded in kernels().values() for target in seeded.targets for fault in seeded.faults_of(target)]
    kinds = {fault.kind for fault in faults}
    assert kinds >= {"flags", "loop flags", "cores", "barriers", "vector cores", "workspaces", "bounds", "budget"}
    assert len({(fault.before, fault.after, fault.line) for fault in faults}) >= 200
    assert set(REFERENCES) == set(kernels())
