"""Extents of intrinsics against loops over steps, blocks and lanes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptokit.witness.extents import CoreRegisters, Issued, in_order, without
from ptokit.witness.intrinsics import TABLE

UB = 1 << 20


def touched(name: str, given: list[int], sizes: list[int], core: CoreRegisters | None = None) -> dict[str, set[int]]:
    """The bytes that a call reads and writes."""
    found: dict[str, set[int]] = {"read": set(), "write": set()}
    sizes += [0] * (len(given) - len(sizes))
    for access in TABLE[name].extent(Issued(core or CoreRegisters(), given, sizes)):
        assert np.all(access.ranges[1:, 0] > access.ranges[:-1, 1]), "ranges are sorted and apart"
        found[access.how] |= {byte for start, end in access.ranges for byte in range(start, end)}
    return found


def of_lanes(at: int, size: int, lanes: list[tuple[int, int]], block: int, repeat: int) -> set[int]:
    """The bytes of lanes of steps, one after the other."""
    found: set[int] = set()
    for step, lane in lanes:
        start = at + step * repeat * 32 + lane * size // 32 * block * 32 + lane * size % 32
        found |= {*range(start, start + size)}
    return found


@pytest.mark.parametrize("seed", range(20))
def test_two_sources_and_a_destination(seed: int) -> None:
    rng = random.Random(seed)
    size, repeats = rng.choice([2, 4]), rng.randint(0, 4)
    width = 256 // size
    core = CoreRegisters(mask=(rng.getrandbits(64), rng.getrandbits(64)))
    strides = [rng.randint(0, 3) for _ in range(3)], [rng.randint(0, 9) for _ in range(3)]
    bits = core.mask[0] << 64 | core.mask[1]
    lanes = [(step, lane) for step in range(repeats) for lane in range(width) if bits >> lane & 1]
    if core_counts := rng.random() < 0.5:
        core.counts, core.mask = core_counts, (0, rng.randint(0, 300))
        lanes = [(number // width, number % width) for number in range(core.mask[1])]
    places = [UB, 2 * UB, 3 * UB]
    found = touched("vadd", [*places, repeats, *strides[0], *strides[1]], [size] * 3, core)
    parts = [of_lanes(places[k], size, lanes, strides[0][k], strides[1][k]) for k in range(3)]
    assert found == {"write": parts[0], "read": parts[1] | parts[2]}


def test_a_conversion_walks_by_the_wider_type() -> None:
    found = touched("vconv_f322f16", [0, UB, 2, 1, 1, 4, 8], [2, 4])
    assert found == {"write": {*range(256)}, "read": {*range(UB, UB + 512)}}


def test_four_bits_are_half_a_byte() -> None:
    core = CoreRegisters(mask=(0, 2**64 - 1))
    narrowed = touched("vconv_f162s4r", [0, UB, 2, 1, 1, 4, 8], [1, 2], core)
    assert narrowed == {
        "write": {*range(32), *range(128, 160)},
        "read": {*range(UB, UB + 128), *range(UB + 256, UB + 384)},
    }
    widened = touched("vconv_s42f16", [UB, 0, 1, 1, 1, 8, 2], [2, 1])
    assert widened == {"read": {*range(64)}, "write": {*range(UB, UB + 256)}}


@pytest.mark.parametrize("counts", [False, True])
def test_a_counter_is_that_of_each_step_of_a_copy(counts: bool) -> None:
    core = CoreRegisters(counts=counts, mask=(0, 100))
    bits = [lane for lane in range(64) if 100 >> lane & 1]
    lanes = [(step, lane) for step in range(3) for lane in (range(100) if counts else bits)]
    found = touched("vcopy", [0, UB, 3, 1, 2, 20, 30], [4, 4], core)
    assert found == {"write": of_lanes(0, 4, lanes, 1, 20), "read": of_lanes(UB, 4, lanes, 2, 30)}


@pytest.mark.parametrize(("mode", "kept"), [(1, (0, 2)), (2, (1, 3)), (4, (1,)), (7, (0, 1, 2, 3))])
@pytest.mark.parametrize("count", [0, 70])
def test_a_pattern_keeps_lanes_of_each_step(mode: int, kept: tuple[int, ...], count: int) -> None:
    core = CoreRegisters(counts=count > 0, mask=(0, count))
    lanes = [(step, lane) for step in range(3) for lane in range(count or 128)]
    found = touched("vreducev2", [0, UB, UB, 3, 1, mode, 10, 0], [2, 2, 2], core)
    left = sum(lane % 4 in kept for _, lane in lanes)
    assert found == {"read": of_lanes(UB, 2, lanes, 1, 10), "write": {*range(2 * left)}}


def test_a_pattern_of_memory_keeps_an_unknown_number() -> None:
    found = touched("vreducev2", [0, UB, 2 * UB, 2, 1, 0, 8, 1], [4, 4, 4])
    assert found["write"] == {*range(512)}
    assert found["read"] == {*range(UB, UB + 512), *range(2 * UB, 2 * UB + 8), *range(2 * UB + 32, 2 * UB + 40)}


@pytest.mark.parametrize(("size", "fractals"), [(1, 2), (2, 1)])
def test_transposed_squares_of_bytes_are_two_fractals(size: int, fractals: int) -> None:
    found = touched("load_cbuf_to_cb_transpose", [0, UB, 1, 3, 4, 7, 0, 2], [size, size])
    read = {UB + (1 + 4 * step) * 512 * fractals + byte for step in range(3) for byte in range(512 * fractals)}
    places = [8 * step + 3 * fractal for step in range(3) for fractal in range(fractals)]
    assert found == {"read": read, "write": {512 * place + byte for place in places for byte in range(512)}}


@pytest.mark.parametrize(("size", "split", "side"), [(2, 0, 16), (1, 0, 32), (4, 1, 8), (4, 0, 16)])
def test_results_become_columns_of_fractals_in_l1(size: int, split: int, side: int) -> None:
    found = touched("copy_matrix_cc_to_cbuf", [0, UB, 0, 32, 20, 64, 48, 0, 0, 0, split, 0], [size, 4])
    rows = [(column, line) for column in range(2) for line in range(20)]
    assert found["read"] == {UB + (column * 48 + line) * 64 + byte for column, line in rows for byte in range(64)}
    rows = [(column, line) for column in range(32 // side) for line in range(20)]
    written = {column * 64 * 32 + line * side * size + byte for column, line in rows for byte in range(side * size)}
    assert found["write"] == written


def test_accumulation_reads_its_destination() -> None:
    found = touched("vmla", [0, UB, 2 * UB, 1, 1, 1, 1, 8, 8, 8], [4, 4, 4])
    assert {*range(256)} == found["write"] < found["read"]


@pytest.mark.parametrize(("order", "values"), [(0, 2), (1, 2), (2, 1), (3, 1)])
def test_a_maximum_with_its_position_takes_two_places(order: int, values: int) -> None:
    found = touched("vcmax", [0, UB, 3, 4, 1, 8, order], [4, 4])
    assert found["write"] == {16 * values * step + byte for step in range(3) for byte in range(4 * values)}
    assert found["read"] == {*range(UB, UB + 768)}


def test_a_sum_of_each_step() -> None:
    assert touched("vcadd", [0, UB, 3, 1, 1, 8, 0], [2, 2])["write"] == {*range(6)}


def test_a_result_for_each_block() -> None:
    found = touched("vcgadd", [0, UB, 2, 1, 1, 8], [4, 4])
    assert found["write"] == {*range(64)} and found["read"] == {*range(UB, UB + 512)}


def test_bursts_in_blocks() -> None:
    found = touched("copy_ubuf_to_ubuf", [0, UB, 0, 3, 2, 1, 4], [4, 4])
    assert found["read"] == {UB + 96 * row + byte for row in range(3) for byte in range(64)}
    assert found["write"] == {192 * row + byte for row in range(3) for byte in range(64)}


def test_a_load_has_rows_in_whole_blocks() -> None:
    found = touched("copy_gm_to_ubuf_align_b16", [0, UB, 0, 3, 40, 0, 12, 8, 1], [2, 2])
    assert found["read"] == {UB + 48 * row + byte for row in range(3) for byte in range(40)}
    assert found["write"] == {96 * row + byte for row in range(3) for byte in range(64)}


def test_a_store_has_gaps_in_bytes_there_and_in_blocks_here() -> None:
    found = touched("copy_ubuf_to_gm_align_b32", [0, UB, 0, 3, 40, 0, 0, 1, 8], [4, 4])
    assert found["read"] == {UB + 96 * row + byte for row in range(3) for byte in range(40)}
    assert found["write"] == {48 * row + byte for row in range(3) for byte in range(40)}


@pytest.mark.parametrize("seed", range(50))
def test_what_is_left_of_ranges(seed: int) -> None:
    rng = random.Random(seed)

    def ranges() -> np.ndarray:
        places = sorted(rng.sample(range(60), 2 * rng.randint(0, 6)))
        return np.array(places, np.int64).reshape(-1, 2)

    some, others = ranges(), ranges()
    left = {byte for start, end in without(some, others) for byte in range(start, end)}
    bytes_of = [{byte for start, end in each for byte in range(start, end)} for each in (some, others)]
    assert left == bytes_of[0] - bytes_of[1]


@pytest.mark.parametrize("biased", [False, True])
def test_a_product_reads_its_bias_once(biased: bool) -> None:
    core = CoreRegisters()
    if biased:
        touched("bias_address", [7 * UB], [], core)
    given = [UB, 2 * UB, 3 * UB, 16, 16, 20, 0, 0, 0, 1]
    bias = {*range(7 * UB, 7 * UB + 32 * 4)} if biased else set()
    parts = {*range(2 * UB, 2 * UB + 512), *range(3 * UB, 3 * UB + 1024)}
    assert touched("mad", given, [4, 2, 2], core) == {"read": parts | bias, "write": {*range(UB, UB + 2048)}}
    assert touched("mad", given, [4, 2, 2], core)["read"] == parts


@pytest.mark.parametrize(("source", "zero"), [(0, 0), (1, 0), (0, 1)])
def test_a_product_reads_its_accumulator_if_nothing_takes_its_place(source: int, zero: int) -> None:
    found = touched("mad", [UB, 2 * UB, 3 * UB, 16, 16, 16, 0, 0, source, zero], [4, 2, 2])
    assert (UB in found["read"]) == (not source and not zero)


def test_a_product_with_a_row_reads_it_in_one_piece() -> None:
    given = [UB, 2 * UB, 3 * UB, 1, 200, 16, 0, 0, 0, 1]
    right = {*range(3 * UB, 3 * UB + 208 * 16 * 2)}
    assert touched("mad", given, [4, 2, 2])["read"] == {*range(2 * UB, 2 * UB + 512)} | right


@pytest.mark.parametrize("seed", range(20))
def test_loads_and_stores_in_order(seed: int) -> None:
    rng = random.Random(seed)
    accesses = [(rng.random() < 0.4, rng.randint(0, 60), rng.choice([1, 2, 4, 8])) for _ in range(rng.randint(1, 30))]
    loaded, stored = set[int](), set[int]()
    for is_store, at, size in accesses:
        if is_store:
            stored |= {*range(at, at + size)}
        else:
            loaded |= {*range(at, at + size)} - stored
    found = [{byte for start, end in ranges for byte in range(start, end)} for ranges in in_order(accesses)]
    assert found == [loaded, stored]
