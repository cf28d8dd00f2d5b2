"""Recorded calls that become statements of programs, or nothing."""

from __future__ import annotations

import pytest

from ptokit.cxx.recording import CoreName, RecordedCall, RecordedScalar, RecordedText
from ptokit.cxx.statements import CrossShape, is_idle, sync_shape
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Call
from ptokit.isa.opaque import opaque
from ptokit.isa.operand import TensorSpec, TileSpec, meet
from ptokit.isa.policy import TileType


def intra(action: str, event: int) -> RecordedCall:
    return RecordedCall(f"{action}_intra_block", (RecordedText("PIPE_FIX"), RecordedScalar("int64", event)), (), 0)


@pytest.mark.parametrize("action", ["set", "wait"])
@pytest.mark.parametrize(("core", "event", "idle"), [("cube", 3, False), ("cube", 19, True), ("vector", 3, False)])
def test_flags_of_the_second_vector_core_are_left_out(action: str, core: CoreName, event: int, idle: bool) -> None:
    call = intra(action, event)
    assert is_idle(call, core) is idle
    made = sync_shape(call, core)
    assert made is not None
    shape, numbers = made
    assert isinstance(shape, CrossShape)
    assert shape.action == action
    assert numbers == (event,)


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
