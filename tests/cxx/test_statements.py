"""Recorded calls that become statements of programs, or nothing."""

from __future__ import annotations

import pytest

from ptokit.cxx.operands import Unexpressible
from ptokit.cxx.recording import CoreName, RecordedCall, RecordedScalar, RecordedText
from ptokit.cxx.statements import (
    CrossShape,
    FlagShape,
    SyncShape,
    TokenFlags,
    TokenShape,
    group_flags,
    is_idle,
    sync_shape,
    without_groups,
)
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Call
from ptokit.isa.opaque import opaque
from ptokit.isa.operand import TensorSpec, TileSpec, meet
from ptokit.isa.policy import TileType
from ptokit.machine.access_checks import GridBarriers


def intra(action: str, event: int) -> RecordedCall:
    return RecordedCall(f"{action}_intra_block", (RecordedText("PIPE_FIX"), RecordedScalar("int64", event)), (), 0)


@pytest.mark.parametrize("action", ["set", "wait"])
@pytest.mark.parametrize(("core", "event"), [("cube", 3), ("cube", 19), ("vector", 3)])
def test_sets_for_a_second_vector_core_are_left_out_without_it(action: str, core: CoreName, event: int) -> None:
    """A wait for it is a fault of the program, and stays."""
    call = intra(action, event)
    assert is_idle(call, core) is (action == "set" and event == 19)
    assert not is_idle(call, core, vector_cores=2)
    made = sync_shape(call, core)
    assert made is not None
    shape, numbers = made
    assert isinstance(shape, CrossShape)
    assert shape.action == action
    assert numbers == (event,)


def cross_set(mode: int, event: int) -> RecordedCall:
    message = RecordedScalar("int64", 1 | mode << 4 | event << 8)
    return RecordedCall("ffts_cross_core_sync", (RecordedText("PIPE_MTE3"), message), (), 1)


def cross_wait(event: int) -> RecordedCall:
    return RecordedCall("wait_flag_dev", (RecordedScalar("int64", event),), (), 2)


def test_flags_that_all_blocks_wait_for_are_barriers_of_all_blocks() -> None:
    calls = [cross_set(0, 11), cross_set(1, 5), cross_set(2, 3), cross_set(0, 4), cross_set(2, 4)]
    groups = group_flags(calls)
    assert groups == {11: 0, 5: 1}
    assert [without_groups(call, groups) for call in calls[:2]] == [None, None]
    assert without_groups(calls[2], groups) is calls[2]
    met = without_groups(cross_wait(11), groups)
    assert met is not None and (met.name, met.site) == ("syncall", 2)
    assert without_groups(cross_wait(5), groups) is None
    assert without_groups(cross_wait(3), groups) == cross_wait(3)
    with pytest.raises(Unexpressible, match="flag 4"):
        sync_shape(calls[3], "vector")


def token(action: str, pipe: str) -> TokenShape:
    return TokenShape(action, "AIV", pipe, 0)


def as_flags(used: TokenFlags, *calls: tuple[str, str, int]) -> list[tuple[str, str, str, int]]:
    """The flags of tokens that pipes take (`wait`) and give back (`set`)."""
    shapes: list[SyncShape] = [token(action, pipe) for action, pipe, _ in calls]

    def number(shape: SyncShape) -> int:
        shapes.append(shape)
        return len(shapes) - 1

    made = used.flags([(k, (buffer,)) for k, (_, _, buffer) in enumerate(calls)], shapes, number)
    found = [(shapes[shape], event) for shape, (event,) in made]
    return [(flag.action, flag.src, flag.dst, event) for flag, event in found if isinstance(flag, FlagShape)]


def test_tokens_are_flags_from_one_holder_to_the_next() -> None:
    used = TokenFlags([(("MTE2", "V"), 0)])
    calls = ("wait", "MTE2", 7), ("set", "MTE2", 7), ("wait", "V", 7), ("set", "V", 7), ("wait", "V", 7)
    assert as_flags(used, *calls) == [("set", "MTE2", "V", 1), ("wait", "MTE2", "V", 1)]


def test_tokens_of_other_buffers_have_other_events() -> None:
    calls = [(action, pipe, k) for k in range(8) for action, pipe in (("set", "MTE2"), ("wait", "V"))]
    assert as_flags(TokenFlags(()), *calls) == [(action, "MTE2", "V", k) for action, _, k in calls]
    with pytest.raises(Unexpressible, match="MTE2 to V"):
        as_flags(TokenFlags(()), *calls, ("set", "MTE2", 8), ("wait", "V", 8))


def test_barriers_of_all_blocks_separate_accesses() -> None:
    barriers = GridBarriers()
    barriers.note(0, 1, item=0)
    barriers.pass_one(1)
    barriers.note(0, 2, item=2)
    barriers.begin()
    assert [barriers.separate(0, 0, time) for time in (1, 2)] == [False, True]
    barriers.pass_one(1)
    assert [barriers.separate(2, 0, time) for time in (1, 2)] == [True, False]


@pytest.mark.parametrize(("loc", "pipe"), [(TileType.Vec, "V"), (TileType.Mat, "MTE2")])
def test_an_opaque_fill_uses_the_pipe_of_its_memory(loc: TileType, pipe: str) -> None:
    tile = TileSpec(dtype("int64"), loc, 16, 64, 16, 64)
    found = opaque("tfillpad", "wr")
    assert found.route(Call(found, {"dst": tile, "src": tile}, (), "a5")) == f"tfillpad.{pipe}"


@pytest.mark.parametrize(("loc", "pipe"), [(TileType.Vec, "MTE3"), (TileType.Acc, "FIX")])
@pytest.mark.parametrize("form", ["wr", "ur"])
def test_an_opaque_store_uses_the_pipe_of_its_source(loc: TileType, pipe: str, form: str) -> None:
    array = TensorSpec(dtype("float32"), (1, 1, 1, 16, 16), (256, 256, 256, 16, 1))
    tile = TileSpec(dtype("float32"), loc, 16, 16, 16, 16)
    found = opaque("tstore", form)
    assert found.route(Call(found, {"dst": array, "src0": tile}, (), "a5")) == f"tstore.{pipe}"


def test_calls_that_set_registers_are_left_out() -> None:
    assert is_idle(RecordedCall("setfmatrix", (), (), 0), "cube")


def test_tiles_that_share_no_valid_bytes_lie_apart() -> None:
    large = TileSpec(dtype("float32"), TileType.Vec, 20, 512, 16, 200)
    small = TileSpec(dtype("float32"), TileType.Vec, 16, 200, 16, 200)
    end = (15 * 512 + 200) * 4
    assert not meet(large, 0, small, end)
    assert meet(large, 0, small, end - 4)
    assert not meet(small, 16 * 200 * 4, small, 0)
