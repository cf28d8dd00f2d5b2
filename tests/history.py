"""Whether the outcome of a call depends on what was called before: caches may make a call faster, and nothing else."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.property.strategies import FUZZ

Options = dict[str, Any]
Call = Callable[..., Any]
"""Makes its operands anew, and returns all that it has written."""

TABLES = {
    "ptokit.ops.direct": ("PLANS",),
    "ptokit.lang.dispatch": ("PREPARED",),
    "ptokit.torch.bag_kernel": ("PLANS",),
}
"""Caches of modules that are dicts."""
KEPT = ("ptokit.engine.native.jit", "ptokit.engine.native.host", "ptokit.engine.native.openmp", "ptokit.isa.catalog")
"""Modules whose caches depend on no call."""


Clear = Callable[[], object]


def caches() -> list[Clear]:
    """What empties each cache."""
    found: list[Clear] = []
    for name, module in [*sys.modules.items()]:
        if name.startswith("ptokit.") and name not in KEPT:
            found += (vars(module)[each].clear for each in TABLES.get(name, ()))
            found += (
                each.cache_clear
                for each in vars(module).values()
                if hasattr(each, "cache_clear") and getattr(each, "__module__", "") == name
            )
    return found


class Forgetting:
    """Empties all caches. They are looked for again when modules were loaded."""

    def __init__(self) -> None:
        self.modules, self.clears = 0, list[Clear]()

    def __call__(self) -> None:
        if len(sys.modules) != self.modules:
            self.modules, self.clears = len(sys.modules), caches()
        for clear in self.clears:
            clear()


def outcome(call: Call, options: Mapping[str, Any]) -> Any:
    """The bits of all results, or the type and the message of the error; and the warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found: Any = bits(call(**options))
        except Exception as problem:
            found = type(problem), str(problem)
    return found, [(each.category, str(each.message)) for each in warned]


def bits(made: Any) -> Any:
    """Results as values that can be compared."""
    if isinstance(made, tuple | list):
        return [bits(each) for each in made]
    if hasattr(made, "detach"):  # a torch tensor
        return str(made.dtype), str(made.device), tuple(made.shape), made.requires_grad, repr(made.detach().tolist())
    if isinstance(made, np.ndarray):
        return str(made.dtype), made.shape, made.tobytes()
    return repr(made)


PAIRS, SEEDS = (40, 2) if FUZZ else (10, 1)
"""Changes of two options, and random orders."""


def variants(base: Options, values: Mapping[str, Iterable[Any]], pairs: int = PAIRS) -> list[Options]:
    """The base, all changes of one option, and some of two."""
    single = [{**base, name: value} for name, given in values.items() for value in given]
    rng, given = random.Random(len(single)), {name: [*each] for name, each in values.items()}
    double: list[Options] = []
    for _ in range(pairs if len(given) > 1 else 0):
        first, second = rng.sample([*given], 2)
        double.append({**base, first: rng.choice(given[first]), second: rng.choice(given[second])})
    return [base, *single, *double]


def _named(options: Options) -> str:
    return ", ".join(
        f"{name}={type(given).__name__} {' '.join(repr(given).split())[:40]}" for name, given in options.items()
    )


def check(call: Call, every: Sequence[Options], seeds: int = SEEDS) -> int:
    """Make calls in several orders, some of them twice, and compare each outcome with that of the call alone. Returns
    how many of the outcomes are results."""
    alone: list[Any] = []
    forget = Forgetting()
    for options in every:
        forget()
        alone.append(outcome(call, options))
    numbers = range(len(every))
    orders = [[*numbers], [*reversed(numbers)]]
    for seed in range(seeds):
        orders.append(random.Random(seed).sample([*numbers] * 2, 2 * len(numbers)))
    for order in orders:
        forget()
        made: list[Options] = []
        for at in order:
            for _ in range(2):
                found = outcome(call, every[at])
                assert found == alone[at], f"{_named(every[at])} after {[*map(_named, made[-3:])]}"
            made.append(every[at])
    return sum(not (isinstance(found, tuple) and isinstance(found[0], type)) for found, _ in alone)
