"""Extents of functions of vector registers against loops over lanes, rows and elements."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptokit.witness.extents import CoreRegisters, Issued
from ptokit.witness.registers import REGISTER_TABLE
from ptokit.witness.vectors import ALL, IS_MASK, IS_PAIR, IS_REGISTER, LOADED, MOVES, WORDS

UB, GM = 1 << 20, 1 << 30
B32 = IS_REGISTER + 2
"""A register of words."""


def touched(name: str, given: list[int], sizes: list[int], core: CoreRegisters | None = None) -> dict[str, set[int]]:
    """The bytes that a call touches, by how."""
    found: dict[str, set[int]] = {}
    sizes = sizes + [0] * (len(given) - len(sizes))
    for access in REGISTER_TABLE[name].extent(Issued(core or CoreRegisters(), given, sizes)):
        assert np.all(access.ranges[1:, 0] > access.ranges[:-1, 1]), "ranges are sorted and apart"
        found.setdefault(access.how, set()).update(byte for a, b in access.ranges for byte in range(a, b))
    return found


def masked(name: str, made: int, masks: list[tuple[int, int]], word: str = "") -> list[tuple[int, int]]:
    """What a function makes of masks."""
    core = CoreRegisters(masks=dict(enumerate(masks, 100)))
    given = [*range(made), *range(100, 100 + len(masks))]
    touched(name, [*given, *map(WORDS.index, word.split())], [IS_MASK] * len(given), core)
    return [core.masks[number] for number in range(made)]


def known(bits: int) -> tuple[int, int]:
    return bits, bits


def lanes_of(bits: int, width: int) -> list[int]:
    return [lane for lane in range(256 // width) if bits >> lane * width & 1]


# --- masks


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize(
    ("word", "lanes"),
    [("ALL", lambda n: range(n)), ("ALLF", lambda n: ()), ("VL1", lambda n: range(1)), ("VL16", lambda n: range(16)),
     ("H", lambda n: range(n // 2)), ("Q", lambda n: range(n // 4)), ("M3", lambda n: range(0, n, 3)),
     ("M4", lambda n: range(0, n, 4))],
)  # fmt: skip
def test_a_pattern_names_lanes(width: int, word: str, lanes) -> None:
    core = CoreRegisters()
    touched(f"pset_b{8 * width}", [7, WORDS.index(f"PAT_{word}")], [IS_MASK], core)
    assert lanes_of(core.masks[7][0], width) == [*lanes(256 // width)] and core.masks[7] == known(core.masks[7][0])


@pytest.mark.parametrize(("width", "count"), [(1, 300), (2, 5), (4, 64), (4, 0)])
def test_a_count_makes_a_mask_of_the_first_lanes(width: int, count: int) -> None:
    core = CoreRegisters()
    touched(f"plt_b{8 * width}", [3, count], [IS_MASK], core)
    assert lanes_of(core.masks[3][0], width) == [*range(min(count, 256 // width))]


@pytest.mark.parametrize("seed", range(20))
def test_masks_are_combined_lane_by_lane(seed: int) -> None:
    """Masks that are not known are compared with all masks that they may be."""
    rng = random.Random(seed)
    rules = {
        "pand": lambda a, b, g: a & b & g, "por": lambda a, b, g: (a | b) & g, "pxor": lambda a, b, g: (a ^ b) & g,
        "psel": lambda a, b, g: a if g else b,
    }  # fmt: skip
    pairs = [(1, 0), (1, 1), (0, 0)]
    chosen = [[rng.choice(pairs) for _ in range(256)] for _ in range(3)]
    masks = [(sum(may << k for k, (may, _) in enumerate(row)), sum(must << k for k, (_, must) in enumerate(row)))
             for row in chosen]  # fmt: skip
    for name, rule in rules.items():
        ((may, must),) = masked(name, 1, masks)
        for lane in range(256):
            options = [range(row[lane][1], row[lane][0] + 1) for row in chosen]
            values = {rule(a, b, g) for a in options[0] for b in options[1] for g in options[2]}
            assert (may >> lane & 1, must >> lane & 1) == (max(values), min(values)), name
    ((may, must),) = masked("pnot", 1, [masks[0], known(ALL)])
    assert (may, must) == (~masks[0][1] & ALL, ~masks[0][0] & ALL)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_lanes_by_turns_and_back(width: int) -> None:
    rng = random.Random(width)
    halves = [sum((1 << width) - 1 << lane * width for lane in range(256 // width) if rng.random() < 0.5) for _ in "ab"]
    mixed = masked(f"pintlv_b{8 * width}", 2, [known(half) for half in halves])
    turns = [lane for pair in zip(*(_flags(half, width) for half in halves), strict=True) for lane in pair]
    assert [flag for may, _ in mixed for flag in _flags(may, width)] == turns
    assert masked(f"pdintlv_b{8 * width}", 2, mixed) == [known(half) for half in halves]


def _flags(bits: int, width: int) -> list[int]:
    return [bits >> lane * width & 1 for lane in range(256 // width)]


@pytest.mark.parametrize(("word", "first"), [("LOWER", 0), ("HIGHER", 128)])
def test_a_half_of_a_mask_becomes_wider_and_narrower(word: str, first: int) -> None:
    bits = random.Random(first).getrandbits(256)
    ((may, _),) = masked("punpack", 1, [known(bits)], word)
    assert [may >> k & 1 for k in range(256)] == [bits >> first + k // 2 & 1 and k % 2 == 0 for k in range(256)]
    ((may, _),) = masked("ppack", 1, [known(bits)], word)
    assert may == sum((bits >> 2 * k & 1) << first + k for k in range(128))


def test_a_comparison_may_be_true_for_each_lane_that_takes_part() -> None:
    core = CoreRegisters(masks={5: known(0x1111)})
    touched("vcmps_gt", [6, 0, 3, 5], [IS_MASK, B32, 0, IS_MASK], core)
    assert core.masks[6] == (0x1111, 0)


# --- loads and stores


@pytest.mark.parametrize(
    ("word", "count"), [("NORM", 256), ("UNPK_B16", 128), ("UNPK4_B8", 64), ("E2B_B16", 16), ("BRC_B32", 4)]
)
def test_a_load_reads_what_its_distribution_takes(word: str, count: int) -> None:
    found = touched("vlds", [0, UB, 3, WORDS.index(word)], [B32, 4])
    assert found == {"load": {*range(UB + 12, UB + 12 + count)}}


def test_a_load_of_two_registers_takes_twice_as_much() -> None:
    found = touched("vlds", [0, 0, UB, 2, WORDS.index("DINTLV_B16"), MOVES], [10, 10, 2])
    assert found == {"load": {*range(UB, UB + 512)}}, "a load that moves its pointer begins at it"


@pytest.mark.parametrize(
    ("word", "width", "kept"),
    [
        *[("NORM_B32", 4, 4), ("PK_B32", 4, 2), ("PK4_B32", 4, 1)],
        *[("NORM_B8", 1, 1), ("PK_B16", 2, 1), ("NORM_B16", 2, 2)],
    ],
)
def test_a_store_writes_active_lanes(word: str, width: int, kept: int) -> None:
    bits = random.Random(word).getrandbits(256)
    core = CoreRegisters(masks={1: (bits, 0)})
    found = touched("vsts", [0, UB, 8, WORDS.index(word), 1], [B32, kept, 0, 0, IS_MASK], core)
    wanted = {UB + 8 * kept + lane * kept + byte for lane in lanes_of(bits, width) for byte in range(kept)}
    assert found["write"] == wanted


def test_a_store_of_one_lane_takes_no_mask() -> None:
    core = CoreRegisters(masks={1: known(0)})
    one = touched("vsts", [0, UB, 1, WORDS.index("ONEPT_B16"), 1], [10, 2, 0, 0, IS_MASK], core)
    assert one["write"] == {UB + 2, UB + 3}


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_store_by_turns_writes_the_active_lanes_of_both_registers(width: int) -> None:
    bits = random.Random(width).getrandbits(256)
    core = CoreRegisters(masks={1: (bits, 0)})
    given = [0, 0, UB, 3, WORDS.index(f"INTLV_B{8 * width}"), 1]
    two = touched("vsts", given, [B32, B32, width, 0, 0, IS_MASK], core)
    lanes = lanes_of(bits, width)
    wanted = {UB + 3 * width + (2 * lane + k) * width + byte for lane in lanes for k in (0, 1) for byte in range(width)}
    assert two["write"] == wanted


def test_unaligned_accesses() -> None:
    assert touched("vstus", [0, 5, 0, UB + 3, MOVES], [0, 0, 10, 2])["write"] == {*range(UB + 3, UB + 13)}
    assert touched("vldas", [0, UB + 37], [0, 4])["load"] == {*range(UB + 32, UB + 64)}
    assert touched("vldus", [0, 0, UB + 37], [B32, 0, 4])["load"] == {*range(UB + 37, UB + 293)}


def test_blocks_at_a_stride() -> None:
    core = CoreRegisters(masks={1: known(sum(1 << 4 * lane for lane in range(20)))})
    found = touched("vsstb", [0, UB, 3 << 16 | 1, 1], [B32, 4, 0, IS_MASK], core)
    assert found["write"] == {UB + lane // 8 * 96 + lane % 8 * 4 + byte for lane in range(20) for byte in range(4)}


def test_squeezed_lanes_follow_each_other_until_their_number_is_not_known() -> None:
    core = CoreRegisters(masks={1: known(0x101), 2: (0x111, 0)})
    for start in (0, 8):
        touched("vsqz", [0, 0, 1], [B32, B32, IS_MASK], core)
        assert touched("vstur", [0, 0, UB, MOVES], [0, B32, 4], core) == {"write": {*range(UB + start, UB + start + 8)}}
    touched("vsqz", [0, 0, 2], [B32, B32, IS_MASK], core)
    assert [*touched("vstur", [0, 0, UB, MOVES], [0, B32, 4], core)] == ["scatter"]
    touched("sprclr", [74], [0], core)
    touched("vsqz", [0, 0, 1], [B32, B32, IS_MASK], core)
    assert touched("vstur", [0, 0, UB, MOVES], [0, B32, 4], core)["write"] == {*range(UB, UB + 8)}


def test_masks_in_memory() -> None:
    core = CoreRegisters()
    assert touched("plds", [9, UB, 16, WORDS.index("US")], [IS_MASK, 4], core)["load"] == {*range(UB + 16, UB + 32)}
    assert core.masks[9] == (ALL, 0)
    assert touched("psts", [9, UB, 0, WORDS.index("PK")], [IS_MASK, 4])["write"] == {*range(UB, UB + 16)}
    assert touched("psts", [9, UB, 8, WORDS.index("NORM")], [IS_MASK, 4])["write"] == {*range(UB + 8, UB + 40)}


def test_every_distribution_of_a_load_is_at_most_two_registers() -> None:
    assert {LOADED[word] for word in LOADED if word.startswith("DINTLV")} == {512} and max(LOADED.values()) == 512


# --- copies


def loops(way: str, inner: tuple[int, int, int], outer: tuple[int, int, int]) -> CoreRegisters:
    """Two outer loops: counts, and strides on the chip and in global memory."""
    core = CoreRegisters()
    touched(f"set_loop_size_{way}", [outer[0] << 21 | inner[0]], [0], core)
    touched(f"set_loop1_stride_{way}", [inner[1] << 40 | inner[2]], [0], core)
    touched(f"set_loop2_stride_{way}", [outer[1] << 40 | outer[2]], [0], core)
    return core


@pytest.mark.parametrize("name", ["copy_gm_to_ubuf_align_v2", "copy_gm_to_cbuf_align_v2", "copy_ubuf_to_gm_align_v2"])
def test_bursts_in_two_outer_loops(name: str) -> None:
    is_load = "gm_to" in name
    core = loops(
        "ubtoout" if not is_load else "outtol1" if "cbuf" in name else "outtoub", (2, 256, 1000), (3, 512, 5000)
    )
    given = [UB, GM, 0, 3, 20, 0, 6, 0, 0, 100, 64] if is_load else [GM, UB, 0, 3, 20, 0, 100, 64]
    found = touched(name, given, [2, 2], core)
    rows = [(k, j, i) for k in range(3) for j in range(2) for i in range(3)]
    here = {UB + k * 512 + j * 256 + i * 64 + b for k, j, i in rows for b in range(32 if is_load else 20)}
    there = {GM + k * 5000 + j * 1000 + i * 100 + b for k, j, i in rows for b in range(20)}
    assert found == ({"read": there, "write": here} if is_load else {"read": here, "write": there})


@pytest.mark.parametrize(("name", "end"), [("copy_gm_to_ubuf_align_v2", 32), ("copy_gm_to_cbuf_align_v2", 22)])
def test_rows_in_ub_are_padded_to_whole_blocks(name: str, end: int) -> None:
    found = touched(name, [UB, GM, 0, 2, 20, 0, 1, 1, 0, 100, 64], [2, 2])
    assert found["write"] == {UB + i * 64 + b for i in range(2) for b in range(end)}
    assert found["read"] == {GM + i * 100 + b for i in range(2) for b in range(20)}


@pytest.mark.parametrize("by_columns", [False, True])
def test_matrices_become_fractals(by_columns: bool) -> None:
    core, (n, d, width) = CoreRegisters(), (5, 20, 2)
    touched("set_mte2_nz_para", [64 << 48 | 16 << 32 | 1 << 16 | 2], [0], core)
    name = "copy_gm_to_cbuf_multi_dn2nz" if by_columns else "copy_gm_to_cbuf_multi_nd2nz"
    found = touched(name, [UB, GM, 0, 200, 0, n, d, 8000, 0], [width, width], core)
    cells = [(matrix, i, j) for matrix in range(2) for i in range(n) for j in range(d)]
    place = (lambda i, j: j * 200 + i * width) if by_columns else (lambda i, j: i * 200 + j * width)
    assert found["read"] == {GM + m * 8000 + place(i, j) + b for m, i, j in cells for b in range(width)}
    whole = [(m, i, j // 16) for m, i, j in cells]
    assert found["write"] == {UB + (m * 64 + i + c * 16) * 32 + b for m, i, c in whole for b in range(32)}


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("is_transposed", [0, 1])
def test_fractals_of_l1(width: int, is_transposed: int) -> None:
    """Element by element: the source has rows of fractals of sixteen rows by 32 bytes."""
    side, rows, columns = 32 // width, 2, 4
    found = touched("load_cbuf_to_ca", [0, UB, 1, 2, rows, columns, 6, 9, is_transposed], [width, width])
    cells = [(i, j) for i in range(rows * 16) for j in range(columns * side)]

    def at(i: int, j: int, stride: int) -> int:
        return (i // 16 + j // side * stride) * 512 + (i % 16 * side + j % side) * width

    assert found["read"] == {UB + at(i + 16, j + 2 * side, 6) + b for i, j in cells for b in range(width)}
    turned = [(j, i) if is_transposed else (i, j) for i, j in cells]
    assert found["write"] == {at(i, j, 9) + b for i, j in turned for b in range(width)}


def test_a_transpose_of_pairs_of_four_bits() -> None:
    found = touched("load_cbuf_to_ca_s4", [0, UB, 0, 0, 4, 1, 4, 4, 1], [IS_PAIR, IS_PAIR])
    assert found["write"] == {*range(4 * 512)} and found["read"] == {*range(UB, UB + 4 * 512)}


def test_scales() -> None:
    found = touched("load_cbuf_to_ca_mx", [0, UB, 1, 1, 2, 3, 8, 4], [0, 1])
    assert found["read"] == {UB + (x * 8 + y) * 32 + b for x in (1, 2) for y in (1, 2, 3) for b in range(32)}
    assert found["write"] == {(x * 4 + y) * 32 + b for x in (0, 1) for y in (0, 1, 2) for b in range(32)}


@pytest.mark.parametrize("layout", ["rows", "columns", "fractals", "split", "bytes"])
def test_results_of_the_cube_core(layout: str) -> None:
    n, m, width = (32 if layout == "bytes" else 24), 10, {"bytes": 1, "rows": 2}.get(layout, 4)
    flags = [int(layout == "split"), int(layout == "rows")] + [0] * 11 + [int(layout == "columns")]
    core = CoreRegisters()
    touched("set_loop3_para", [1000 << 32 | 7 << 16 | 1], [0], core)
    given = [UB, GM, 0, n, m, 40, 16, 0, 0, 0, 0, 0, *flags[:2], *flags[2:]]
    found = touched("copy_matrix_cc_to_cbuf", given, [width, 4], core)
    side = {"split": 8, "bytes": 32}.get(layout, 16)
    cells = [(i, j) for i in range(m) for j in range(n)]
    at = {"rows": lambda i, j: i * 40 + j, "columns": lambda i, j: j * 40 + i}.get(
        layout, lambda i, j: j // side * 40 + i * side + j % side
    )
    whole = cells if layout in ("rows", "columns") else [(i, j) for i in range(m) for j in range(-(-n // side) * side)]
    assert found["write"] == {UB + at(i, j) * width + b for i, j in whole for b in range(width)}
    assert found["read"] == {GM + (j // 16 * 16 + i) * 64 + b for i, j in cells for b in range(64)}


def test_results_to_both_cores_are_halves() -> None:
    given = [UB, GM, 0, 32, 8, 32, 16, 1, 0, 0, 0, 0, 0, 0, 1, *[0] * 12]
    rows = touched("copy_matrix_cc_to_ub", given, [4, 4])
    assert rows["write"] == {UB + i * 128 + b for i in range(4) for b in range(128)}
    columns = touched("copy_matrix_cc_to_ub", [*given[:7], 2, *given[8:]], [4, 4])
    assert columns["write"] == {UB + i * 128 + b for i in range(8) for b in range(64)}


def test_a_conversion_to_the_bias_table_doubles_the_bytes() -> None:
    found = touched("copy_cbuf_to_bt", [UB, GM, 1, 1, 2, 0, 0], [0, 2])
    assert found == {"read": {*range(GM, GM + 64)}, "write": {*range(UB, UB + 128)}}


@pytest.mark.parametrize(("is_off", "left"), [(0, 1024), (1, 16 * 608)])
def test_a_product_with_a_row_reads_it_in_one_piece(is_off: int, left: int) -> None:
    """Unless that mode is off: 300 half floats are 600 bytes, in blocks of 32 or in pieces of 512."""
    bases = [k << 20 for k in range(10)]
    given = [bases[4], bases[2], bases[3], 1, 300, 16, 0, is_off, 0, 1]
    found = touched("mad", given, [4, 2, 2], CoreRegisters(bases=bases))
    assert found["read"] == {*range(bases[2], bases[2] + left), *range(bases[3], bases[3] + 16 * 608)}


def test_a_product_with_scales() -> None:
    bases = [k << 20 for k in range(10)]
    given = [bases[4], bases[2] + 512, bases[3], 16, 128, 32, 0, 0, 0, 1]
    found = touched("mad_mx", given, [4, IS_PAIR, 1], CoreRegisters(bases=bases))
    assert found["write"] == {*range(bases[4], bases[4] + 16 * 32 * 4)}
    scales = {*range(bases[7] + 32, bases[7] + 32 + 64), *range(bases[8], bases[8] + 128)}
    assert found["read"] == scales | {*range(bases[2] + 512, bases[2] + 512 + 1024), *range(bases[3], bases[3] + 4096)}
