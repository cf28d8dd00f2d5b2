"""Random whole numbers that are the same on every machine.

The stream of NumPy's PCG64 is fixed, that of `Generator` methods is not: only raw numbers are used. Powers are computed
by sums and products of float64, which IEEE 754 defines to the last bit; `pow` differs between C libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd

import numpy as np

from ptokit.traces.traced_calls import Array

WORD = 64
CHUNK = 1 << 16
"""Weights that are computed at a time."""
AT_A_TIME = 256
"""Single words that are drawn at a time."""
LOG_TERMS, EXP_TERMS = 13, 20
"""Terms of the series, after which nothing changes."""
TWO_OVER_LN2, LN2 = 2.8853900817779268, 0.6931471805599453
HALF_ROOT = 0.7071067811865476


class Draws:
    """A stream of random whole numbers."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def words(self) -> Iterator[int]:
        """Numbers of 64 bits, one after the other."""
        while True:
            yield from self._bits.random_raw(AT_A_TIME).tolist()

    def below(self, end: int, count: int) -> Array:
        """Numbers from 0 to `end` - 1, each as likely as the others."""
        shift = np.uint64(WORD - max(1, (end - 1).bit_length()))
        found = np.zeros(0, np.int64)
        while found.size < count:
            raw = self._bits.random_raw(count - found.size + 16) >> shift
            found = np.concatenate([found, raw[raw < np.uint64(end)].astype(np.int64)])
        return found[:count]

    def weighted(self, ends: Array, count: int) -> Array:
        """Places in a table of weights, which is given by its partial sums."""
        return np.searchsorted(ends, self.below(int(ends[-1]), count), side="right")

    def permutation(self, end: int) -> Callable[[Array], Array]:
        """Other names for numbers below `end`: a one-to-one map, `number * factor + first` modulo `end`."""
        factor, first = (int(each) for each in self.below(end, 2))
        while gcd(factor, end) != 1:
            factor += 1
        return lambda numbers: (numbers * factor + first) % end


def zipf_ends(rows: int, skew: float) -> Array:
    """Partial sums of weights in proportion to `rank ** -skew`, as whole numbers of 1 or more."""
    scale = WORD - 2 - rows.bit_length()
    ends = np.empty(rows, np.int64)
    total = 0
    for first in range(0, rows, CHUNK):
        ranks = np.arange(first + 1, min(first + CHUNK, rows) + 1, dtype=np.float64)
        weights = np.ldexp(_power(ranks, skew), scale).astype(np.int64)
        part = np.cumsum(np.maximum(weights, 1)) + total
        ends[first : first + part.size] = part
        total = int(part[-1])
    return ends


def _power(ranks: Array, skew: float) -> Array:
    """`ranks ** -skew`."""
    return _exp2(_log2(ranks) * -skew)


def _log2(values: Array) -> Array:
    """By the series of the area tangent, of a number between the roots of 1/2 and 2."""
    mantissa, exponent = np.frexp(values)
    is_low = mantissa < HALF_ROOT
    mantissa, exponent = np.where(is_low, mantissa * 2, mantissa), exponent - is_low
    t = (mantissa - 1) / (mantissa + 1)
    square, total = t * t, np.zeros_like(t)
    for k in range(2 * LOG_TERMS + 1, 0, -2):
        total = total * square + 1 / k
    return total * t * TWO_OVER_LN2 + exponent


def _exp2(values: Array) -> Array:
    """By the series of the exponential, of the fraction."""
    whole = np.floor(values)
    x, total = (values - whole) * LN2, np.ones_like(values)
    for k in range(EXP_TERMS, 0, -1):
        total = total * x / k + 1
    return np.ldexp(total, whole.astype(np.int64))
