"""Auto addresses: disjoint if all tiles fit, else shared by tiles with disjoint live ranges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptokit.isa.policy import Coalesce, TileType
from ptokit.program.ir import Assign, Branch, Program
from ptokit.program.place import LiveRange, live_ranges, place, unbound
from ptokit.target import Profile
from ptokit.target.a2a3 import A2A3
from ptokit.target.a5 import A5
from ptokit.target.cpu import CPU
from ptokit.target.profile import KB, Memory
from tests.program.building import COND, I, J, N, exp, gather, load, loop, program, store, tile, tiles

TILE = 1 * KB
"""Bytes of the tiles here."""


def small(size: int) -> Profile:
    """A target with a UB of `size` bytes."""
    return replace(A2A3, ub=None, memories={**A2A3.memories, TileType.Vec: Memory("UB", size)})


def addresses(source: Program, profile: Profile) -> dict[str, tuple[object, ...]]:
    return {name: decl.addresses for name, decl in place(source, profile).program.tiles.items()}


CHAIN = program(*tiles("a b c"), load("a", "x"), exp("b", "a"), exp("c", "b"), store("y", "c"))


def test_tiles_are_disjoint_if_all_fit() -> None:
    result = place(CHAIN, A2A3)
    assert {name: decl.addresses for name, decl in result.program.tiles.items()} == {
        "a": (0,),
        "b": (TILE,),
        "c": (2 * TILE,),
    }
    assert result.used == {TileType.Vec: 3 * TILE}


def test_tiles_fit_a_target_without_limits() -> None:
    assert place(CHAIN, CPU).used == {TileType.Vec: 3 * TILE}


def test_tiles_share_where_there_is_not() -> None:
    assert addresses(CHAIN, small(2 * TILE)) == {"a": (0,), "b": (TILE,), "c": (0,)}


def test_tiles_that_never_fit_are_not_reported_here() -> None:
    assert place(CHAIN, small(TILE)).used == {TileType.Vec: 2 * TILE}


def test_a5_shares_before_it_asks_for_dynamic_memory() -> None:
    big = [tile(name, rows=64, cols=256) for name in "abc"]  # 64 KB each: three are more than 128, less than 216
    source = program(*big, *CHAIN.body[3:])
    assert place(source, A2A3).used == {TileType.Vec: 192 * KB}
    assert place(source, A5).used == {TileType.Vec: 192 * KB}  # nothing starts threads, so there is no data cache
    threads = program(*big, *CHAIN.body[3:], *tiles("i g"), load("i", "x"), gather("g", "x", "i", Coalesce.Elem))
    assert place(threads, A5).used == {TileType.Vec: 128 * KB}
    for dyn_ub, used in ((16 * KB, 192 * KB), (64 * KB, 128 * KB)):  # what the launch asks for lies beside the tiles
        assert place(source, A5, dyn_ub).used == {TileType.Vec: used}
    assert place(source, A5, 192 * KB, bound=True).used == {TileType.Vec: 192 * KB}


def test_tiles_begin_at_blocks_and_fractals() -> None:
    odd = [tile("a", rows=1, cols=3), tile("b"), tile("m", "mat", rows=1, cols=3), tile("n", "mat")]
    assert addresses(program(*odd), A2A3) == {"a": (0,), "b": (32,), "m": (0,), "n": (512,)}


def test_every_copy_has_an_address() -> None:
    body = loop(tile("a", buffers=3), tile("b"), load("a", "x"), buffers=3)
    assert addresses(program(body), A2A3) == {"a": (0, TILE, 2 * TILE), "b": (3 * TILE,)}


def test_given_addresses_stay_and_others_keep_away() -> None:
    fixed = tile("b", addresses=(512,))
    source = program(tile("a"), fixed, tile("c"), *CHAIN.body[3:])
    assert addresses(source, A2A3) == {"a": (512 + TILE,), "b": (512,), "c": (512 + 2 * TILE,)}
    assert addresses(source, small(2 * TILE)) == {"a": (512 + TILE,), "b": (512,), "c": (512 + TILE,)}


def test_addresses_of_manual_programs_stay_as_they_are() -> None:
    source = program(tile("a", addresses=(64,)), tile("b"), Assign("b", 4096), mode="manual")
    assert place(source, A2A3).program == source
    assert place(source, A2A3).used == {TileType.Vec: 4096 + TILE}


def test_tiles_that_a_manual_program_does_not_bind_are_placed_beside_the_others() -> None:
    source = program(tile("a", addresses=(64,)), tile("b"), tile("c"), Assign("c", 2 * TILE + 64), mode="manual")
    placed = place(source, A2A3).program.tiles
    assert (placed["a"].addresses, placed["b"].addresses, placed["c"].addresses) == ((64,), (64 + TILE,), ())


def test_nothing_is_placed_beside_an_address_that_is_known_at_run_time() -> None:
    source = program(tile("a", addresses=(N,)), tile("b"), mode="manual")
    assert unbound(source) == [] and place(source, A2A3).program == source


# --- lives ---


def test_a_life_goes_from_the_first_use_to_the_last() -> None:
    assert live_ranges(CHAIN) == {"a": LiveRange(3, 4), "b": LiveRange(4, 5), "c": LiveRange(5, 6)}


def test_a_tile_from_outside_lives_all_through_a_loop() -> None:
    lives = live_ranges(program(*tiles("a b"), loop(load("a", "x"), exp("b", "a"), tile("c"), exp("c", "b"))))
    assert lives == {"a": LiveRange(2, 6), "b": LiveRange(2, 6), "c": LiveRange(6, 6)}


def test_a_tile_of_an_iteration_is_live_in_the_whole_inner_loop() -> None:
    inner = loop(load("a", "x"), exp("a", "a"), var=J)
    found = live_ranges(program(loop(tile("a"), inner, tile("b"), load("b", "x"))))
    assert found == {"a": LiveRange(2, 4), "b": LiveRange(6, 6)}


@pytest.mark.parametrize("buffers", [1, 2])
def test_iterations_with_copies_run_in_parallel(buffers: int) -> None:
    inner = loop(tile("c"), load("c", "x"), var=J)
    body = (tile("a", buffers=buffers), tile("b", buffers=buffers), load("a", "x"), load("b", "x"), inner)
    together = LiveRange(0, 7)
    alone = {"a": LiveRange(3, 3), "b": LiveRange(4, 4), "c": LiveRange(7, 7)}
    assert live_ranges(program(loop(*body, var=I, buffers=buffers))) == (
        alone if buffers == 1 else dict.fromkeys("abc", together)
    )


def test_arms_of_a_branch_share() -> None:
    source = program(*tiles("a b"), Branch(COND, (load("a", "x"), store("y", "a")), (load("b", "x"), store("y", "b"))))
    assert addresses(source, small(TILE)) == {"a": (0,), "b": (0,)}


def test_a_tile_that_nothing_uses_has_an_address_too() -> None:
    assert addresses(program(*tiles("a b")), small(TILE)) == {"a": (0,), "b": (0,)}
