"""Arrays on a GPU as arguments: what describes them, which engine takes them, and that the host never reads them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from ptokit import engines
from ptokit.engine.gpu import DeviceArray
from ptokit.engine.storage import Storage
from ptokit.isa.dtype import dtype
from ptokit.lang.arrays import as_array
from ptokit.lang.gpu import signature
from tests.engine.cuda.fakes import Described, FakeArray, FakeGpus, FakeTensor, Lent, forget_choices

TABLE = np.arange(32, dtype="float32").reshape(4, 8)


def device(array: np.ndarray[Any, Any]) -> DeviceArray:
    address = array.__array_interface__["data"][0]
    return DeviceArray(array, address, array.shape, array.strides, array.dtype, 0, writeable=array.flags.writeable)


def described(array: Any) -> tuple[Any, ...]:
    flags = array.flags
    address = array.address if isinstance(array, DeviceArray) else array.__array_interface__["data"][0]
    return (
        address, array.shape, array.strides, array.dtype, array.size, array.ndim, array.nbytes, array.itemsize,
        flags.c_contiguous, flags.writeable, flags.aligned,
    )  # fmt: skip


# --- The description -----------------------------------------------------------------------------------------------


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    array = np.zeros(shape, draw(st.sampled_from(["int8", "float16", "float32", "complex128", ml_dtypes.bfloat16])))
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = draw(st.lists(st.sampled_from([1, 2, -1]), min_size=array.ndim, max_size=array.ndim))
    array = array[(..., *(slice(None, None, step) for step in steps))]
    array.flags.writeable = draw(st.booleans())
    return array


@given(arrays())
def test_a_description_agrees_with_numpy(array: np.ndarray[Any, Any]) -> None:
    found = device(array)
    expected, own = described(array), described(found)
    assert own[:2] == expected[:2] and own[3:] == expected[3:]
    assert all(a == b for a, b, n in zip(found.strides, array.strides, array.shape, strict=True) if n > 1)
    if array.size:
        assert found.bounds == np.lib.array_utils.byte_bounds(array)
    if array.ndim:
        assert len(found) == len(array)


@given(arrays(), st.data())
def test_slices_and_broadcasts_agree_with_numpy(array: np.ndarray[Any, Any], data: st.DataObject) -> None:
    found = device(array)
    cuts = [data.draw(st.tuples(st.integers(0, n), st.integers(0, n)).map(sorted)) for n in array.shape]
    key = tuple(slice(*cut) for cut in cuts[: data.draw(st.integers(0, len(cuts)))])
    part = array[(*key, ...)]
    assert described(found[key])[1:] == described(part)[1:]
    if part.size:
        assert found[key].address == part.__array_interface__["data"][0]
    extents = [data.draw(st.integers(0, 3)) if n == 1 else n for n in array.shape]
    shape = (*data.draw(st.lists(st.integers(0, 3), max_size=2)), *extents)
    shape = data.draw(st.one_of(st.just(shape), st.lists(st.integers(0, 4), max_size=5).map(tuple)))
    try:
        spread = np.broadcast_to(array, shape)
    except ValueError:
        with pytest.raises(ValueError, match="broadcast"):
            found.broadcast_to(shape)
        return
    moving = [at for at, n in enumerate(shape) if n > 1]
    assert found.broadcast_to(shape).shape == shape
    assert [found.broadcast_to(shape).strides[at] for at in moving] == [spread.strides[at] for at in moving]


def test_no_number_of_flags_is_that_of_a_numpy_array() -> None:
    arrays = [np.zeros(3), np.zeros((2, 2)).T, np.zeros(4)[::-2], np.zeros(9, "u1")[1:].view("f8")]
    numbers = [device(array).flags.num for array in arrays]
    other = DeviceArray(None, 64, (3,), (8,), np.dtype("f8"), 1)
    assert all(number < 0 for number in numbers) and other.num not in numbers
    assert len({device(arrays[0]).num, device(arrays[3]).num}) == 2, "alignment counts"


READS: dict[str, Callable[[DeviceArray], Any]] = {
    "asarray": lambda array: np.asarray(array),
    "array function": lambda array: np.add(array, 1),
    "iteration": lambda array: list(array),  # type: ignore[call-overload]
    "element": lambda array: array[0],
    "fancy": lambda array: array[np.array([0])],
    "mask": lambda array: array[...],
    "store": lambda array: array.__setitem__(slice(0, 1), 1),
    "view": lambda array: array.view("u4"),
    "window": lambda array: Storage(array.run(np.dtype("u4"), 8), dtype("float32"), array).window(_region()),  # type: ignore[arg-type]
}


def _region() -> Any:
    from ptokit.engine.storage import region
    from ptokit.isa.layout import Layout, flattened

    return region(Layout(flattened((1,), (8,)), flattened((8,), (1,))), 1, 8)


@pytest.mark.parametrize("name", READS)
def test_nothing_reads_an_element(name: str) -> None:
    with pytest.raises(TypeError, match=r"in the memory of GPU 0; copy it to the host first \(\.get\(\) in CuPy"):
        READS[name](device(np.zeros(8, "float32")))


def test_a_storage_knows_its_gpu() -> None:
    array = np.arange(12, dtype="float32")
    own = device(array)
    storage = Storage(own.run(np.dtype("u4"), 12), dtype("float32"), own)  # type: ignore[arg-type]
    other = storage.part(4, 4)
    assert storage.gpu == 0 and Storage(array, dtype("float32")).gpu is None
    assert len(storage.span) == 48 and storage.address == own.address == other.address - 16
    assert storage.overlaps(other) and not other.overlaps(storage.part(8, 4)) and storage.writable
    assert storage.bits.size == 12 and storage.root is None


# --- Objects of other libraries ------------------------------------------------------------------------------------


def test_cupy_arrays_and_tensors_are_described(emulated: FakeGpus) -> None:
    emulated.torch_stream = 77
    for array in (TABLE, TABLE[::-1, ::2], TABLE[:0], TABLE.astype(ml_dtypes.float8_e5m2)):
        found: Any = as_array(FakeArray(array, 1))
        assert described(found) == described(array)
        assert (found.gpu, found.stream, found.writeable) == (1, None, True)
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "uint8", "float32", "complex64", "bool"):
        array = np.zeros((3, 5), getattr(ml_dtypes, name, name)).T
        tensor = FakeTensor(array, 1)
        found = as_array(tensor)
        assert described(found) == described(array)
        assert (found.gpu, found.stream, found.owner) == (1, 77, tensor)


@pytest.mark.parametrize("wrap", [FakeArray, FakeTensor])
def test_signatures_tell_apart_what_descriptions_do(emulated: FakeGpus, wrap: Any) -> None:
    memory = np.zeros(64 * 8, np.uint8)
    table = memory[-memory.ctypes.data % 16 :][:256].view("float32").reshape(8, 8)
    same = [table, table[:4, ::2], table.T, table.view("int32"), table.ravel()[4:60], table.ravel()[1:57]]
    arrays = [wrap(each, gpu) for each in same for gpu in (0, 1)]
    found = [signature(each) for each in arrays]
    assert [each and each[0] for each in found] == [cast("Any", as_array(each)).address for each in arrays]
    assert len({each and each[1] for each in found}) == len(arrays)
    again = signature(wrap(np.zeros((8, 8), "float32")))
    assert again and found[0] and again[1][:-1] == found[0][1][:-1]
    assert signature(TABLE) is None and signature("text") is None and signature(Lent(TABLE)) is None


def test_the_stream_of_a_tensor_is_that_of_its_use(emulated: FakeGpus) -> None:
    emulated.torch_stream = 77
    found: Any = as_array(FakeTensor(TABLE))
    for stream in (5, 0):
        emulated.torch_stream = stream
        assert found.stream == found[1:3].stream == stream
    emulated.torch._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda gpu: 70 + gpu)
    assert (found.stream, cast("Any", as_array(FakeTensor(TABLE, 1))).stream) == (70, 71)


def test_tensors_that_share_no_memory_are_refused(emulated: FakeGpus) -> None:
    changes: dict[str, Any] = {"requires_grad": True, "is_conj": lambda: True, "is_neg": lambda: True}
    for (name, value), words in zip(changes.items(), ("detach", "resolve_conj", "resolve_neg"), strict=True):
        tensor = FakeTensor(TABLE.astype("complex64"))
        setattr(tensor, name, value)
        assert signature(tensor) is None
        with pytest.raises(TypeError, match=words):
            pto.GlobalTensor(tensor)
    with pytest.raises(TypeError, match="NumPy and ml_dtypes have no type quint8"):
        pto.GlobalTensor(FakeTensor(TABLE, kind="quint8"))
    freed = FakeTensor(TABLE)
    freed.data_ptr = lambda: 0  # type: ignore[method-assign]
    assert signature(freed) is None
    with pytest.raises(TypeError, match="it has no memory"):
        pto.GlobalTensor(freed)
    for number in (-1, 0):  # of a device that has numbers, too
        elsewhere = FakeTensor(TABLE)
        elsewhere.is_cuda, elsewhere.gpu = False, number
        assert signature(elsewhere) is None
        with pytest.raises(TypeError, match=r"call \.cpu\(\) first"):
            pto.GlobalTensor(elsewhere)


def test_interfaces_are_described(emulated: FakeGpus) -> None:
    found: Any = as_array(Described(emulated, TABLE.T, 1, stream=5))
    assert described(found) == described(TABLE.T) and (found.gpu, found.stream) == (1, 5)
    found = as_array(Described(emulated, TABLE, strides=None))
    assert found.strides == TABLE.strides and found.stream is None
    found = as_array(Described(emulated, TABLE, data=(TABLE.__array_interface__["data"][0], True)))
    assert not found.flags.writeable
    empty = Described(emulated, TABLE[:0], data=(0, False))
    assert as_array(empty).size == 0 and as_array(empty).gpu == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mask": TABLE}, "mask"),
        ({"data": (8, False)}, "address 0x8 is not in the memory of a GPU"),
        ({"shape": (4,), "strides": (1, 2)}, "make no array"),
        ({"shape": (-4,)}, "make no array"),
        ({"shape": (4.5, 8)}, "float"),
        ({"typestr": "text"}, "text"),
        ({"data": None}, "cannot"),
    ],
)
def test_interfaces_that_describe_nothing_are_refused(emulated: FakeGpus, changed: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"cannot share the memory of this Described: .*{words}.*; pass a NumPy"):
        as_array(Described(emulated, TABLE, **changed))


def test_dlpack_goes_through_cupy(emulated: FakeGpus) -> None:
    lent = Lent(TABLE, gpu=1)
    found: Any = as_array(lent)
    assert described(found) == described(TABLE) and found.gpu == 1 and found.owner.keep is lent
    with pytest.raises(TypeError, match="not in host memory"):
        as_array(Lent(TABLE, kind=7))


def test_without_cupy_the_refusal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    for source in (Lent(TABLE), Described(FakeGpus(), TABLE)):
        with pytest.raises(TypeError, match=r"needs CuPy: pip install 'ptokit\[cuda\]'"):
            as_array(source)


# --- The choice of the engine --------------------------------------------------------------------------------------


@pto.kernel
def copy(out: Any, table: Any, scale: int = 1) -> None:
    tile = pto.Tile("vec", table.dtype, 4, 8)
    pto.tload(tile, table)
    pto.tstore(out, tile)


def test_auto_follows_the_arrays(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engines.chosen("auto", on_gpu=True) == "cuda" and engines.chosen("cuda") == "cuda"
    assert engines.chosen("auto") != "cuda"
    for engine in ("reference", "native"):
        with pytest.raises(TypeError, match=f"engine={engine} runs on the host, these arrays are on a GPU; use engine"):
            engines.chosen(engine, on_gpu=True)
    monkeypatch.setenv(engines.VARIABLE, "reference")
    forget_choices()
    with pytest.raises(TypeError, match="PTOKIT_ENGINE=reference runs on the host"):
        engines.chosen("auto", on_gpu=True)


@pytest.mark.parametrize("module", ["cupy", "llvmlite.binding"])
def test_what_is_missing_is_named(emulated: FakeGpus, module: str) -> None:
    words = rf"the cuda engine needs {module.partition('.')[0]}: pip install 'ptokit\[cuda\]'"
    calls: list[Callable[[], Any]] = [
        lambda: pto.gather(FakeTensor(TABLE), FakeTensor(np.array([1]))),
        lambda: copy[1](FakeTensor(TABLE), FakeTensor(TABLE.copy()), target="cpu"),
        lambda: pto.gather(TABLE, np.array([1]), engine="cuda"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "is_installed", lambda asked: asked != module)
        for call in calls:
            with pytest.raises(ImportError, match=words):
                call()


def test_a_machine_without_a_gpu_is_named(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated.cupy.cuda.runtime, "getDeviceCount", lambda: 0)
    with pytest.raises(ImportError, match="the cuda engine needs a GPU of NVIDIA; CUDA finds none"):
        engines.chosen("cuda")

    def broken() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver: too old")

    monkeypatch.setattr(emulated.cupy.cuda.runtime, "getDeviceCount", broken)
    with pytest.raises(ImportError, match="and its driver; CUDA says: cudaErrorInsufficientDriver"):
        engines.chosen("cuda")


def test_arrays_in_several_memories_are_refused_by_name(emulated: FakeGpus) -> None:
    here, there, indices = FakeArray(TABLE), FakeArray(TABLE.copy(), 1), FakeArray(np.array([1]))
    calls: dict[str, Callable[[], Any]] = {
        "table on GPU 0, indices on the host": lambda: pto.gather(here, np.array([1])),
        "table on the host, indices on GPU 0": lambda: pto.gather(TABLE, indices),
        "table on GPU 1, indices on GPU 0": lambda: pto.gather(there, indices),
        "indices on GPU 0, out on the host": lambda: pto.gather(here, indices, out=np.zeros((1, 8), "float32")),
        "indices on GPU 0, src on GPU 1": lambda: pto.scatter(here, there[:1], indices),
        "indices on GPU 0, src on the host": lambda: pto.scatter(here, TABLE[:1], indices, engine="cuda"),
        "`out` on GPU 0, `table` on the host": lambda: copy[1](here, TABLE),
        "`out` on GPU 0, `table` on GPU 1": lambda: copy[1](here, table=there),
        "`table` on GPU 1": lambda: copy[1](pto.GlobalTensor(TABLE), pto.GlobalTensor(there)),
    }
    for words, call in calls.items():
        with pytest.raises(TypeError, match=f"different memories, .*{words}") as stopped:
            call()
        assert "pass all of them on one GPU" in str(stopped.value)


def check_that_the_host_reads_nothing(table: FakeArray, out: FakeArray, indices: FakeArray) -> None:
    tile, tensor = pto.Tile("vec", "float32", 4, 8).write(0), pto.GlobalTensor(table)
    refused: list[Callable[[], Any]] = [
        lambda: pto.gather(table, indices, engine="native"),
        lambda: pto.gather(table, indices, out=out[:1], engine="reference"),
        lambda: pto.gather(table[::-1], indices, engine="reference"),
        lambda: pto.scatter(table, 1, indices, engine="reference"),
        lambda: pto.scatter(table, table[:1], indices, engine="native"),
        lambda: copy[1](out, table, engine="native"),
        lambda: copy[1](out, table, engine="reference"),
        lambda: copy[1](out, table, engine="machine", target="a5"),
        lambda: copy[1](out, table, debug=True),
        lambda: pto.tload(tile, tensor),
        lambda: pto.tload(tile, pto.GlobalTensor(table[:, ::-1][:, ::-1])),
        lambda: pto.tstore(tensor, tile),
        lambda: pto.mgather(tile, tensor, pto.Tile("vec", "int32", 1, 8, valid=(1, 4)).write(0)),
        lambda: pto.mscatter(tensor, tile, pto.Tile("vec", "int32", 4, 1).write(0), atomic="add"),
        lambda: pto.load_scalar(pto.GlobalTensor(indices), 0),
        lambda: tile.write(table),
        lambda: tile.write(FakeTensor(table.host)),
    ]
    for call in refused:
        with pytest.raises(TypeError, match=r"\bGPU\b.*\.get\(\) in CuPy, \.cpu\(\) in torch"):
            call()
    assert not tile.read().any()
    assert pto.check(copy, out, table, grid=1).ok
    pto.show(copy, out, table, target="a5")
    assert "float32" in repr(tensor) and "float32" in repr(tensor.array) and "GPU 0" in repr(tensor.storage.bits)
    part = tensor[1:3, 2:]
    assert part.shape == (2, 6) and part.storage.address == table.data.ptr + 40
    with pytest.raises(TypeError):
        pto.tadds(tile, tile, table)


def test_engines_of_the_host_refuse_arrays_on_a_gpu(emulated: FakeGpus) -> None:
    table, out = TABLE.copy(), np.zeros_like(TABLE)
    check_that_the_host_reads_nothing(FakeArray(table), FakeArray(out), FakeArray(np.array([1])))
    assert not out.any() and (table == TABLE).all()


UNREADABLE = """
import ctypes, mmap
import numpy as np, pytest
from tests.engine.cuda.fakes import FakeArray, pretend
from tests.engine.cuda.test_arrays import check_that_the_host_reads_nothing

memory = mmap.mmap(-1, 1 << 16, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), 1 << 16, 0) == 0
table, out = (FakeArray(np.ndarray((4, 8), "float32", memory, 512 * k)) for k in range(2))
with pytest.MonkeyPatch.context() as patch:
    pretend(patch)
    check_that_the_host_reads_nothing(table, out, FakeArray(np.ndarray(1, "int64", memory, 4096)))
print("nothing was read", flush=True)
memory[0]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="protects memory by mprotect")
def test_memory_that_cannot_be_read_is_not() -> None:
    here = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", UNREADABLE], capture_output=True, text=True, check=False, cwd=here)
    assert done.stdout.endswith("nothing was read\n"), done.stdout + done.stderr
    assert done.returncode == -signal.SIGSEGV, "a read would have been noticed"
