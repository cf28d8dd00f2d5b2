"""The oracle itself, compared with the vectors of the clause table."""

from __future__ import annotations

import pytest

from tests.property import naive


@pytest.mark.parametrize(
    ("dtype", "rows", "place", "offset"),
    [("float16", 32, (17, 20), 788), ("float32", 16, (3, 9), 153), ("int8", 16, (15, 31), 511)],
)
def test_nz_offsets(dtype: str, rows: int, place: tuple[int, int], offset: int) -> None:
    """MG-NZ-15."""
    assert naive.tile_offset("nz", rows, 64, 512, naive.SIZE[dtype], *place) == offset


@pytest.mark.parametrize(
    ("value", "policy", "lands"),
    [(12, "clamp", 9), (12, "wrap", 2), (-1, "clamp", 9), (-1, "wrap", 5), (-1, "zero", None)],
)
def test_remap(value: int, policy: str, lands: int | None) -> None:
    """MG-OOB-16: capacity 10."""
    assert naive.remap(naive.taken(value % 2**32, "int32"), 10, policy) == lands


def test_sixteen_bit_indices_are_sign_extended() -> None:
    """H-12: sign-extended, then cast to uint32."""
    assert naive.taken(0xFFFF, "int16") == 0xFFFFFFFF
    assert naive.taken(0xFFFF, "uint16") == 0xFFFF


def test_int64_keeps_its_width() -> None:
    """decisions.md, the host profile: Wrap is the mathematical modulus there."""
    assert naive.remap(naive.taken(2**64 - 1, "int64"), 10, "wrap") == 9
    assert naive.remap(naive.taken(2**64 - 1, "int64"), 10, "clamp") == 0


NAN, SIGNALLING, ONE, ZERO, MINUS_ZERO = 0xFFC00001, 0x7F800001, 0x3F800000, 0, 0x80000000


@pytest.mark.parametrize(
    ("cell", "source", "most", "least"),
    [
        (NAN, ONE, ONE, ONE),
        (ONE, SIGNALLING, ONE, ONE),
        (NAN, SIGNALLING, NAN, NAN),
        (ZERO, MINUS_ZERO, ZERO, MINUS_ZERO),
        (MINUS_ZERO, ZERO, ZERO, MINUS_ZERO),
        (ONE, ZERO, ONE, ZERO),
    ],
)
def test_max_and_min(cell: int, source: int, most: int, least: int) -> None:
    """A-16."""
    assert naive.combine(cell, source, "float32", "max") == most
    assert naive.combine(cell, source, "float32", "min") == least


@pytest.mark.parametrize(
    ("dtype", "infinity", "quiet"),
    [("float32", 0x7F800000, 0x7FC00000), ("float16", 0x7C00, 0x7E00), ("bfloat16", 0x7F80, 0x7FC0)],
)
def test_a_nan_made_by_an_add_is_canonical(dtype: str, infinity: int, quiet: int) -> None:
    """A-16."""
    negative = infinity | 1 << (8 * naive.SIZE[dtype] - 1)
    assert naive.combine(infinity, negative, dtype, "add") == quiet
    assert naive.combine(infinity + 1, infinity, dtype, "add") == quiet


def test_adds_wrap_and_round() -> None:
    """A-16: integers wrap; half rounds at every step (2048 + 1 is 2048)."""
    assert naive.combine(0x7FFFFFFF, 1, "int32", "add") == 0x80000000
    assert naive.combine(0x6800, 0x3C00, "float16", "add") == 0x6800
