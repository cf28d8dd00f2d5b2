"""Arrays of CuPy, torch and others on a GPU: the bits and errors of the host, results of the table's library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cupy
import ml_dtypes
import numpy as np
import pytest
import torch

import ptokit as pto

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((1000, 64)).astype("f4")
INDICES = RNG.integers(0, 1000, 5000)
ROWS = RNG.integers(0, 1000, (40, 64)).astype("i4")


@pto.kernel
def take(out, table, indices):
    b = pto.block_idx()
    rows, lanes = pto.Tile("vec", table.dtype, 64, 64), pto.Tile("vec", "int32", 1, 64)
    pto.tload(lanes, indices[b : b + 1])
    pto.mgather(rows, table, lanes)
    pto.tstore(out[b * 64 : b * 64 + 64], rows)


@pytest.fixture(autouse=True)
def _no_sticky_error() -> Iterator[None]:
    yield
    cupy.cuda.runtime.deviceSynchronize()


def same(found: Any, expected: Any) -> None:
    found = found.get() if isinstance(found, cupy.ndarray) else found
    assert found.shape == expected.shape and found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that torch can compare, whatever its type."""
    return tensor if tensor.dtype is torch.bool else tensor.view(getattr(torch, f"int{8 * tensor.element_size()}"))


@pytest.mark.parametrize("kind", ["float32", "int8", "float16", "int64", "complex64", "bool", "bfloat16"])
def test_cupy_arrays(kind: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    table, indices = TABLE.astype(dtype), INDICES.astype("i4")
    there, lanes = cupy.asarray(table), cupy.asarray(indices)
    found = pto.gather(there, lanes)
    assert type(found) is cupy.ndarray and found.data.ptr % 64 == 0
    same(found, table[indices])
    same(pto.scatter(there.copy(), found, lanes, conflict="any"), table)
    source = TABLE[:500].astype(dtype)
    expected = pto.scatter(table.copy(), source, indices[:500], engine="reference")
    same(pto.scatter(there.copy(), cupy.asarray(source), lanes[:500]), expected)


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "float16", "bool"])
def test_torch_tensors(kind: str) -> None:
    table, lanes = torch.from_numpy(TABLE).to(getattr(torch, kind)).cuda(), torch.from_numpy(INDICES).cuda()
    found = pto.gather(table, lanes)
    assert type(found) is torch.Tensor and found.dtype == table.dtype and found.device == table.device
    assert torch.equal(bits(found), bits(table)[lanes])
    elements = pto.gather(table, lanes, coalesce="elem", oob="wrap")
    assert torch.equal(bits(elements), bits(table).reshape(-1)[lanes])
    version = table._version
    pto.scatter(table, 1, lanes[:3])
    assert table._version == version + 1


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_sums_have_the_bits_of_the_cpu(kind: str) -> None:
    dtype = getattr(torch, kind)
    table, lanes = torch.from_numpy(TABLE).to(dtype), torch.from_numpy(INDICES)
    source = torch.randn(5000, 64).to(dtype)
    there = pto.scatter(table.cuda(), source.cuda(), lanes.cuda(), atomic="add")
    here = pto.scatter(table.clone(), source, lanes, atomic="add")
    assert torch.equal(bits(there.cpu()), bits(here))


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16", "float8_e5m2", "int8", "int64"])
@pytest.mark.parametrize("reduce", ["add", "mul", "max", "mean"])
def test_reductions_have_the_bits_of_the_cpu(kind: str, reduce: str) -> None:
    dtype = getattr(torch, kind)
    table, source = ((torch.randn(n, 64) * 3).to(dtype) for n in (40, 3000))
    lanes = torch.randint(-2, 42, (3000,))
    for include_self in (True, False):
        options: dict[str, Any] = {"reduce": reduce, "include_self": include_self, "mode": "drop"}
        there = pto.scatter(table.cuda(), source.cuda(), lanes.cuda(), **options)
        here = pto.scatter(table.clone(), source, lanes, **options)
        assert torch.equal(bits(there.cpu()), bits(here))


def test_axes_and_coordinates_are_computed_on_the_gpu() -> None:
    host = np.arange(120, dtype="float32").reshape(2, 3, 4, 5)
    table, random = cupy.asarray(host), np.random.default_rng(0)
    for axis in range(-4, 4):
        for mode in ("wrap", "clip", "fill", "negative"):
            for kind in ("int64", "int32", "int8"):
                indices = random.integers(-2, 2, (2, 3)).astype(kind)
                found = pto.gather(table, cupy.asarray(indices), axis=axis, mode=mode)
                assert np.array_equal(found.get(), pto.gather(host, indices, axis=axis, mode=mode))
        along = random.integers(-2, 2, host.shape)
        found = pto.gather_along(table, cupy.asarray(along), axis=axis, mode="negative")
        assert np.array_equal(found.get(), np.take_along_axis(host, along, axis))
    assert pto.gather_nd(table, [[0, -1], [1, 2]], mode="negative").get().tolist() == host[[0, 1], [-1, 2]].tolist()
    with pytest.raises(pto.OutOfBoundsError, match=r"gather_nd: indices\[0, 1\] = 3 is outside the capacity of 3"):
        pto.gather_nd(table, [[0, 3]])


class Lent:
    """An array that only DLPack describes."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Described:
    """An array that only the CUDA array interface describes, with changes."""

    def __init__(self, array: Any, **changes: Any) -> None:
        self.array, self.changes = array, changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__cuda_array_interface__, **self.changes}


def to_torch(array: Any) -> torch.Tensor:
    return torch.from_numpy(array).cuda()


@pytest.mark.parametrize("lend", [cupy.asarray, to_torch])
def test_dlpack(lend: Callable[[Any], Any]) -> None:
    found = pto.gather(Lent(lend(TABLE)), Lent(lend(INDICES)))
    assert type(found) is cupy.ndarray
    same(found, TABLE[INDICES])


def test_the_interface() -> None:
    there, lanes = cupy.asarray(TABLE), cupy.asarray(INDICES)
    same(pto.gather(Described(there), lanes), TABLE[INDICES])
    same(pto.gather(Described(to_torch(TABLE), stream=1), lanes), TABLE[INDICES])
    with pytest.raises(ValueError, match="read-only"):
        pto.scatter(Described(there, data=(there.data.ptr, True)), 1, lanes)


@pytest.mark.parametrize("changes", [{"data": (TABLE.ctypes.data, False)}, {"data": (64, False)}, {"mask": TABLE}])
def test_an_interface_that_is_not_true_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        pto.gather(Described(cupy.asarray(TABLE), **changes), cupy.asarray(INDICES))


def test_layouts() -> None:
    there, lanes = cupy.asarray(TABLE), cupy.asarray(INDICES)
    same(pto.gather(there[::-1, ::-2], lanes[::-1]), TABLE[::-1, ::-2][INDICES[::-1]])
    same(pto.gather(there.T, lanes[:50] % 64), TABLE.T[INDICES[:50] % 64])
    same(pto.gather(there.T, lanes, coalesce="elem"), TABLE.T.reshape(-1)[INDICES])
    same(pto.gather(there, cupy.asarray(5)), TABLE[5])
    same(pto.gather(there, cupy.broadcast_to(lanes[:1], (7,))), TABLE[[INDICES[0]] * 7])
    assert pto.gather(there, lanes[:0]).shape == pto.gather(there[:0], lanes[:0]).shape == (0, 64)
    for write in (lambda a: a[::-1], lambda a: a.T[:, :64]):
        given, expected = there.copy(), TABLE.copy()
        pto.scatter(write(given), 3, cupy.arange(9))
        write(expected)[np.arange(9)] = 3
        same(given, expected)


def test_out_may_overlap_the_table() -> None:
    expected = TABLE.copy()
    expected[250:750] = TABLE[:500]
    for given in (cupy.asarray(TABLE).copy(), to_torch(TABLE)):
        lanes = cupy.arange(500) if isinstance(given, cupy.ndarray) else torch.arange(500).cuda()
        pto.gather(given, lanes, out=given[250:750])
        same(cupy.asarray(given), expected)


def test_refusals() -> None:
    there, lanes, tensor = cupy.asarray(TABLE), cupy.asarray(INDICES), to_torch(TABLE)
    tile = pto.Tile("vec", "float32", 8, 8)
    refused: list[Callable[[], object]] = [
        lambda: pto.gather(there, INDICES),
        lambda: pto.gather(TABLE, lanes),
        lambda: pto.gather(there, lanes, engine="native"),
        lambda: pto.gather(tensor.clone().requires_grad_(), lanes),
        lambda: pto.gather(tensor.to_sparse(), lanes),
        lambda: pto.tload(tile, pto.GlobalTensor(there[:8, :8].copy())),
        lambda: pto.load_scalar(pto.GlobalTensor(lanes), 0),
        lambda: tile.write(there[:8, :8]),
    ]
    for call in refused:
        with pytest.raises(TypeError):
            call()


def test_a_list_is_copied_to_the_gpu() -> None:
    cells = pto.scatter(cupy.zeros(3, "float32"), [1, 2.5], [2, 0])
    assert cells.get().tolist() == [2.5, 0, 1]
    with pytest.raises(TypeError, match="a list of bfloat16 cannot be copied to a GPU"):
        pto.scatter(torch.zeros(3, dtype=torch.bfloat16, device="cuda"), [1, 2], [2, 0])


def test_a_bad_index_is_reported_before_anything_is_written() -> None:
    there, lanes = cupy.asarray(TABLE), cupy.asarray(INDICES)
    lanes[77], lanes[99] = 1000, -5
    with pytest.raises(pto.OutOfBoundsError, match=r"indices\[77\] = 1000 .*and 1 more"):
        pto.gather(there, lanes)
    with pytest.raises(pto.OutOfBoundsError, match=r"indices\[77\] = 1000 .*and 1 more"):
        pto.scatter(there, 0, lanes)
    same(there, TABLE)


def test_kernels() -> None:
    expected = TABLE[ROWS.ravel()]
    out, there, lanes = cupy.zeros((2560, 64), "f4"), cupy.asarray(TABLE), cupy.asarray(ROWS)
    for _ in range(3):  # the second and third are cached
        out[:] = 0
        assert take[40](out, there, lanes, target="a5").engine == "cuda"
        same(out, expected)
    tensor = torch.zeros(2560, 64).cuda()
    take[40](tensor, to_torch(TABLE), to_torch(ROWS), target="a5")
    assert tensor._version == 1
    same(tensor.cpu().numpy(), expected)
    take[40](tensor.zero_(), there, lanes, target="a5")  # torch and CuPy
    same(tensor.cpu().numpy(), expected)
    host = np.zeros((2560, 64), "f4")
    assert take[40](host, TABLE, ROWS, target="a5", engine="cuda").engine == "cuda"
    same(host, expected)


def test_a_kernel_reports_a_bad_index_and_can_be_launched_again() -> None:
    out, there = cupy.zeros((2560, 64), "f4"), cupy.asarray(TABLE)
    bad = ROWS.copy()
    bad[17, 5] = 1000
    with pytest.raises(pto.OutOfBoundsError, match=r"idx\[5\] = 1000 is outside the capacity of 1000, in block 17"):
        take[40](out, there, cupy.asarray(bad), target="a5")
    take[40](out, there, cupy.asarray(ROWS), target="a5")
    same(out, TABLE[ROWS.ravel()])


@pytest.fixture
def busy() -> Callable[[], None]:
    """Enqueues some milliseconds of work on torch's current stream."""
    matrix = torch.randn(6000, 6000, device="cuda")

    def enqueue() -> None:
        for _ in range(3):
            torch.matmul(matrix, matrix)

    return enqueue


@pytest.mark.parametrize("k", range(3))
def test_work_is_ordered_on_the_streams_of_its_arrays(k: int, busy: Callable[[], None]) -> None:
    lanes, cupy_lanes = torch.from_numpy(INDICES).cuda(), cupy.asarray(INDICES)
    table, other = torch.zeros(1000, 64, device="cuda"), cupy.zeros((1000, 64), "f4")
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        busy()
        table += k + 1
        found = pto.gather(table, lanes, oob="clamp") + 1
    side.synchronize()
    assert bool((found == k + 2).all())
    own = cupy.cuda.Stream(non_blocking=True)
    with torch.cuda.stream(torch.cuda.ExternalStream(own.ptr)):
        busy()
    with own:
        other += k + 1
        seen = pto.gather(other, cupy_lanes, oob="clamp") + 1
    own.synchronize()
    assert bool((seen == k + 2).all())


def test_arrays_of_two_streams(busy: Callable[[], None]) -> None:
    table, lanes, out = torch.zeros(1000, 64, device="cuda"), cupy.asarray(INDICES), cupy.zeros((5000, 64), "f4")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        busy()
        table += 3
        pto.gather(table, lanes, oob="clamp", out=out)
    assert bool((out + 1 == 4).all().get())  # on CuPy's own stream, ordered behind
    assert cupy.cuda.get_current_stream().ptr == 0
