"""Writes into torch tensors and autograd: every write increases the tensor's version, and reading does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.loaded import from_text

torch: Any = pytest.importorskip("torch")

ROWS, COLS = 8, 16
ENGINES = ({"engine": "reference"}, {"engine": "native"}, {"engine": "machine"}, {"debug": True})
Write = Callable[[Any], object]
"""Writes into a tensor of 8 x 16 float32 values, from zeros."""


@pto.kernel
def copy(source, out):
    """`out = source`, half of the rows for each of two blocks."""
    rows = source.shape[0] // 2
    first = pto.block_idx() * rows
    tile = pto.Tile("vec", source.dtype, rows, source.shape[1])
    pto.tload(tile, source[first : first + rows])
    pto.tstore(out[first : first + rows], tile)


@pto.kernel
def add_rows(source, ids, out):
    """`out[ids] += source`."""
    rows = pto.Tile("vec", "float32", ROWS, COLS)
    lanes = pto.Tile("vec", "int32", 1, ROWS)
    pto.tload(rows, source)
    pto.tload(lanes, ids)
    pto.mscatter(out, rows, lanes, coalesce="row", atomic="add")


TEXT = """
module attributes {"pto.target_arch" = "a5"} {
  func.func @fill(%p: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %view = pto.make_tensor_view %p, shape = [%c8, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
    %part = pto.partition_view %view, offsets = [%c0, %c0], sizes = [%c8, %c16]
      : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x16xf32>
    %tile = pto.alloc_tile : !pto.tile_buf<vec, 8x16xf32>
    %one = arith.constant 1.0 : f32
    pto.texpands ins(%one : f32) outs(%tile : !pto.tile_buf<vec, 8x16xf32>)
    pto.tstore ins(%tile : !pto.tile_buf<vec, 8x16xf32>) outs(%part : !pto.partition_tensor_view<8x16xf32>)
    return
  }
}
"""


def ones(*shape: int) -> Any:
    return np.ones(shape, "float32")


def rows_of(value: float = 1) -> pto.Tile:
    tile = pto.Tile("vec", "float32", ROWS, COLS)
    tile.buffer[:] = value
    return tile


def lanes() -> pto.Tile:
    return pto.Tile("vec", "int32", ROWS, 1).write(np.arange(ROWS)[:, None])


WRITES: dict[str, Write] = {
    "gather(out=)": lambda t: pto.gather(ones(ROWS, COLS), np.arange(ROWS), out=t),
    "gather(out=), reference": lambda t: pto.gather(ones(ROWS, COLS), np.arange(ROWS), out=t, engine="reference"),
    "gather into itself": lambda t: pto.gather(t.fill_(1), np.arange(ROWS), out=t),
    "scatter": lambda t: pto.scatter(t, 1.0, np.arange(ROWS)),
    "scatter, reference": lambda t: pto.scatter(t, 1.0, np.arange(ROWS), engine="reference", atomic="max"),
    "scatter of itself": lambda t: pto.scatter(t.fill_(1), t, np.arange(ROWS)),
    "scatter, backwards indices": lambda t: pto.scatter(t, 1.0, np.arange(ROWS)[::-1]),
    "tstore": lambda t: pto.tstore(pto.GlobalTensor(t), rows_of()),
    "tstore into slices": lambda t: [
        pto.tstore(pto.GlobalTensor(t)[k : k + 1][:, :], pto.Tile("vec", "float32", 1, COLS).write(ones(1, COLS)))
        for k in range(ROWS)
    ],
    "mscatter": lambda t: pto.mscatter(pto.GlobalTensor(t), rows_of(), lanes()),
    "mscatter, other shape": lambda t: pto.mscatter(pto.GlobalTensor(t, shape=(ROWS, COLS)), rows_of(), lanes()),
    "text": lambda t: from_text(TEXT)[1](t, target="a5"),
    **{f"kernel, {options}": lambda t, options=options: copy[2](ones(ROWS, COLS), t, **options) for options in ENGINES},
    **{
        f"atomic kernel, {options}": lambda t, options=options: add_rows[1](
            ones(ROWS, COLS), np.arange(ROWS, dtype="int32"), t, **options
        )
        for options in ENGINES
    },
    "kernel by name": lambda t: copy[2](source=ones(ROWS, COLS), out=t),
    "kernel, threads": lambda t: copy[2](ones(ROWS, COLS), t, threads=2),
    "kernel, GlobalTensor": lambda t: copy[2](ones(ROWS, COLS), pto.GlobalTensor(t)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_autograd_hears_of_every_write(write: Write) -> None:
    weight = torch.ones(ROWS, COLS, requires_grad=True)
    saved = weight * 0
    loss = (saved * saved).sum()
    write(saved.detach())
    assert (saved == 1).all()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_launches_that_are_made_again_are_heard_of_again(write: Write) -> None:
    tensor = torch.zeros(ROWS, COLS)
    for _ in range(3):
        before = tensor.zero_()._version
        write(tensor)
        assert tensor._version > before


def test_of_a_parameter() -> None:
    weight = torch.nn.Parameter(torch.ones(ROWS, COLS))
    loss = (weight * weight).sum()
    pto.scatter(weight.detach(), 2.0, np.array([1]))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


NEEDED: dict[str, Callable[[Any], object]] = {
    "gather": lambda t: pto.gather(t, np.array([1])),
    "gather, tensors": lambda t: pto.gather(t, torch.tensor([1])),
    "scatter": lambda t: pto.scatter(t, 1.0, np.arange(ROWS)),
    "scatter of it": lambda t: pto.scatter(np.zeros((ROWS, COLS), "float32"), t, np.arange(ROWS)),
    "out=": lambda t: pto.gather(ones(ROWS, COLS), np.arange(ROWS), out=t),
    "kernel, read": lambda t: copy[2](t, np.zeros((ROWS, COLS), "float32")),
    "kernel, written": lambda t: copy[2](ones(ROWS, COLS), t),
    "tstore": lambda t: pto.tstore(pto.GlobalTensor(t), rows_of()),
}


@pytest.mark.parametrize("use", NEEDED.values(), ids=NEEDED)
def test_tensors_that_autograd_needs_are_refused_unless_it_is_off(use: Callable[[Any], object]) -> None:
    weight = torch.nn.Parameter(torch.zeros(ROWS, COLS))
    for tensor in (weight, weight * 2):
        for _ in range(2):
            with pytest.raises(TypeError, match=r"requires grad.*ptokit\.torch.*no_grad"):
                use(tensor)
        assert tensor._version == 0
        with torch.no_grad():
            use(tensor)
            use(tensor)
        with pytest.raises(TypeError, match="requires grad"):
            use(tensor)
    is_written = weight.detach().any()
    assert bool(is_written) == (weight._version > 0)


def test_a_write_under_no_grad_is_heard_of() -> None:
    weight = torch.nn.Parameter(torch.ones(ROWS, COLS))
    loss = (weight * weight).sum()
    with torch.no_grad():
        pto.scatter(weight, 2.0, torch.tensor([1]))
    assert weight[1, 0] == 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_write_through_a_view_of_what_was_detached_is_heard_of() -> None:
    saved = torch.ones(ROWS, COLS, requires_grad=True) * 2
    loss = (saved * saved).sum()
    pto.scatter(saved.detach()[2:].view(-1), 2.0, torch.tensor([1]))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_repeated_calls_over_tensors_see_new_values_and_report_bad_indices() -> None:
    table, lanes, out = torch.zeros(ROWS, COLS), torch.arange(ROWS), torch.zeros(ROWS, COLS)
    for value in range(4):
        table.fill_(value)
        assert (pto.gather(table, lanes) == value).all()
        assert (pto.gather(table, lanes, out=out) == value).all()
        pto.scatter(table, out, lanes, atomic="add")
        assert (table == 2 * value).all()
    versions = table._version, out._version
    lanes[3] = 99
    for _ in range(2):
        with pytest.raises(pto.OutOfBoundsError, match=r"indices\[3\] = 99"):
            pto.gather(table, lanes, out=out)
        with pytest.raises(pto.OutOfBoundsError, match=r"indices\[3\] = 99"):
            pto.scatter(table, out, lanes)
    assert versions == (table._version, out._version)
    assert (pto.gather(out, torch.arange(ROWS).flip(0), out=out[:]) == 3).all()  # shared memory


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float16", "int32", "bool"])
def test_of_every_element_type(name: str) -> None:
    tensor = torch.zeros(ROWS, COLS, dtype=getattr(torch, name))
    with pto.target("host"):
        pto.scatter(tensor, 1, np.array([1]))
        first = tensor._version
        pto.tstore(pto.GlobalTensor(tensor), pto.Tile("vec", pto.GlobalTensor(tensor).dtype, ROWS, COLS))
    assert 0 < first < tensor._version


@pytest.mark.parametrize("options", ENGINES, ids=str)
def test_what_is_read_keeps_its_version(options: dict[str, Any]) -> None:
    source, ids, out = torch.ones(ROWS, COLS), torch.arange(ROWS, dtype=torch.int32), torch.zeros(ROWS, COLS)
    versions = source._version, ids._version
    add_rows[1](source, ids, out, **options)
    assert (source._version, ids._version) == versions
    assert out._version > 0
    weight = torch.ones(ROWS, COLS, requires_grad=True)
    kept = weight * 2
    loss = (kept * kept).sum()
    copy[2](kept.detach(), out, **options)
    loss.backward()
    assert (weight.grad == 8).all()


def test_whole_array_and_eager_calls_leave_what_they_read() -> None:
    source, ids = torch.ones(ROWS, COLS), torch.arange(ROWS)
    versions = source._version, ids._version
    out = pto.gather(source, ids)
    pto.gather(source, ids, out=out)
    pto.scatter(out, source, ids)
    pto.tload(rows_of(), pto.GlobalTensor(source))
    pto.mgather(rows_of(), pto.GlobalTensor(source), lanes())
    rows_of().write(source)
    assert (source._version, ids._version) == versions


def test_a_check_and_a_refused_call_write_nothing() -> None:
    tensor = torch.zeros(ROWS, COLS)
    table = pto.GlobalTensor(tensor)
    bad = pto.Tile("vec", "int32", ROWS, 1).write(np.full((ROWS, 1), 99))
    pto.check(copy, ones(ROWS, COLS), tensor)
    calls: list[Callable[[], object]] = [
        lambda: pto.scatter(tensor, 1.0, np.array([99])),
        lambda: pto.gather(ones(ROWS, COLS), np.full(ROWS, 99), out=tensor),
        lambda: pto.mscatter(table, rows_of(), bad),
        lambda: copy[2](ones(ROWS, 2 * COLS), tensor),
    ]
    for call in calls:
        with pytest.raises((ValueError, IndexError)):
            call()
    assert tensor._version == 0
    assert not tensor.any()


@pto.kernel
def bad_after_one_block(source, ids, out):
    """`out[ids[block]] = source`."""
    tile, lane = pto.Tile("vec", "float32", 1, COLS), pto.Tile("vec", "int32", 1, 8, valid=(1, 1))
    block = pto.block_idx()
    pto.tload(tile, source[0:1])
    pto.tload(lane, ids[block : block + 1])
    pto.mscatter(out, tile, lane, coalesce="row")


@pytest.mark.parametrize("options", [*ENGINES[:2], ENGINES[3]], ids=str)
def test_a_launch_that_fails_half_way_has_written(options: dict[str, Any]) -> None:
    tensor = torch.zeros(ROWS, COLS)
    with pytest.raises(pto.OutOfBoundsError):
        bad_after_one_block[2](ones(1, COLS), np.array([0, 99], "int32"), tensor, **options)
    assert tensor[0].tolist() == [1] * COLS
    assert tensor._version > 0


INTERRUPTED: dict[str, Write] = {
    "scatter": lambda t: pto.scatter(t, 1.0, np.array([1]), engine="reference"),
    "tstore": lambda t: pto.tstore(pto.GlobalTensor(t), rows_of()),
}


@pytest.mark.parametrize("write", INTERRUPTED.values(), ids=INTERRUPTED)
def test_a_call_that_is_interrupted_may_have_written(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    tensor = torch.zeros(ROWS, COLS)
    monkeypatch.setattr("ptokit.engine.reference.ScatterStep.run", interrupted)
    monkeypatch.setattr("ptokit.engine.reference.Plan.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tensor)
    assert tensor._version > 0


def test_a_text_that_takes_the_bytes_of_a_tensor_as_another_type() -> None:
    lines = [line for line in TEXT.splitlines() if "%one =" not in line]
    text = "\n".join(lines).replace("xf32", "x!pto.hif8").replace("ptr<f32>", "ptr<!pto.hif8>")
    text = text.replace("8x16x", "8x32x").replace("constant 16", "constant 32")
    text = text.replace("texpands ins(%one : f32)", "tload ins(%part : !pto.partition_tensor_view<8x32x!pto.hif8>)")
    tensor = torch.ones(ROWS, 32, dtype=torch.uint8)
    from_text(text)[1](tensor, target="a5")
    assert (tensor == 1).all()
    assert tensor._version > 0


def test_empty_writes_are_writes() -> None:
    tensor = torch.zeros(ROWS, COLS)
    pto.scatter(tensor, 1.0, np.zeros(0, "int64"))
    first = tensor._version
    copy[0](ones(ROWS, COLS), tensor)
    assert 0 < first < tensor._version


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_tensors_of_inference_mode_have_no_version(write: Write) -> None:
    with torch.inference_mode():
        tensor = torch.zeros(ROWS, COLS)
        write(tensor)
        tensor.zero_()
    if "itself" not in next(name for name, each in WRITES.items() if each is write):  # torch itself refuses fill_
        write(tensor)
        assert (tensor == 1).all()


def test_ordinary_tensors_are_counted_in_inference_mode() -> None:
    tensor = torch.zeros(ROWS, COLS)
    with torch.inference_mode():
        pto.scatter(tensor, 1.0, np.array([1]))
    assert tensor._version > 0


def test_ptokit_does_not_import_torch() -> None:
    code = (
        "import sys, numpy as np, ptokit as pto\n"
        "pto.scatter(np.zeros((4, 8), 'float32'), 1.0, np.array([1]))\n"
        "pto.tstore(pto.GlobalTensor(np.zeros((1, 8), 'float32')), pto.Tile('vec', 'float32', 1, 8))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
