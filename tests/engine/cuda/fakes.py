"""CuPy and torch as far as ptokit uses them, with memory of the host in place of that of GPUs.

`FakeArray.host` is what an array holds. Streams only record what is asked of them.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.mixins import NDArrayOperatorsMixin

from ptokit import engines
from ptokit.engine.cuda import device
from ptokit.ops import direct
from tests.engine.cuda.emulated import EmulatedDevice

Host = np.ndarray[Any, np.dtype[Any]]


ALIGNED = 512
"""New tensors begin at multiples of so many bytes, as torch's do."""
METHODS = ("any", "argmax", "astype", "max", "min", "reshape", "sum", "view")
"""Methods of arrays that ptokit calls, as NumPy has them."""
FUNCTIONS = ("arange", "clip", "isnan", "minimum", "nonzero", "where", "zeros")
"""Functions of CuPy that ptokit calls, as NumPy has them."""


def host_of(given: Any) -> Any:
    """What an array holds; other things as they are."""
    return given.host if isinstance(given, FakeArray) else given


class FakeArray(NDArrayOperatorsMixin):
    """A CuPy array."""

    __hash__ = object.__hash__

    def __init__(self, host: Host, gpu: int = 0, keep: object = None) -> None:
        self.host, self.gpu, self.keep = host, gpu, keep

    shape = property(lambda self: self.host.shape)
    strides = property(lambda self: self.host.strides)
    dtype = property(lambda self: self.host.dtype)
    data = property(lambda self: SimpleNamespace(ptr=self.host.__array_interface__["data"][0], device_id=self.gpu))

    base: object = None
    flags = property(lambda self: self.host.flags)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.host.__array_interface__, "version": 3, "stream": None}

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> FakeArray:
        return FakeArray(np.asarray(getattr(ufunc, method)(*map(host_of, inputs), **options)), self.gpu)

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        return lambda *given, **options: FakeArray(np.asarray(getattr(self.host, name)(*given, **options)), self.gpu)

    size = property(lambda self: self.host.size)
    ndim = property(lambda self: self.host.ndim)

    def __int__(self) -> int:
        return int(self.host)

    def __bool__(self) -> bool:
        return bool(self.host)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("CuPy arrays need no DLPack")

    def __array__(self, *_: Any, **_options: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __getitem__(self, key: Any) -> FakeArray:
        return FakeArray(np.asarray(self.host[host_of(key)]), self.gpu)

    def __setitem__(self, key: Any, value: object) -> None:
        self.host[host_of(key)] = host_of(value)

    def copy(self) -> FakeArray:
        return FakeArray(self.host.copy(), self.gpu)

    def get(self) -> Host:
        return self.host.copy()


class FakeStorage:
    """The memory of torch tensors: one object for all that share it."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def data_ptr(self) -> int:
        return self.host.__array_interface__["data"][0]

    def resizable(self) -> bool:
        return True


class FakeTensor:
    """A torch tensor on a GPU."""

    def __init__(self, host: Host, gpu: int = 0, kind: str = "", storage: FakeStorage | None = None) -> None:
        self.host, self.gpu, self.version = host, gpu, 0
        self._storage = storage or FakeStorage(host)
        self.dtype = FakeTorchType(kind or host.dtype.name)
        self.is_cpu, self.is_cuda, self.requires_grad = False, True, False
        self.device = SimpleNamespace(type="cuda", index=gpu)
        self.shape = host.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.host.itemsize for step in self.host.strides)

    def is_contiguous(self) -> bool:
        return self.host.flags.c_contiguous

    def data_ptr(self) -> int:
        return self.host.__array_interface__["data"][0]

    def get_device(self) -> int:
        return self.gpu

    def untyped_storage(self) -> FakeStorage:
        return self._storage

    def is_conj(self) -> bool:
        return False

    is_neg = is_inference = is_conj

    def new_empty(self, *given: Any, dtype: None = None) -> FakeTensor:
        assert dtype is None
        shape = given[0] if len(given) == 1 and isinstance(given[0], tuple) else given
        count, memory = int(np.prod(shape)), np.zeros(self.host.itemsize * int(np.prod(shape)) + ALIGNED, np.uint8)
        first = -memory.ctypes.data % ALIGNED
        made = memory[first : first + count * self.host.itemsize].view(self.host.dtype).reshape(shape)
        made[...] = 7
        return FakeTensor(made, self.gpu, self.dtype.name)

    def __getitem__(self, key: Any) -> FakeTensor:
        return FakeTensor(self.host[key], self.gpu, self.dtype.name, self._storage)

    def clone(self, memory_format: str) -> FakeTensor:
        assert memory_format == "C"
        return FakeTensor(self.host.copy(), self.gpu, self.dtype.name)

    def expand(self, shape: tuple[int, ...]) -> FakeTensor:
        return FakeTensor(np.broadcast_to(self.host, shape), self.gpu, self.dtype.name)

    def copy_(self, other: FakeTensor) -> None:
        self.host[...] = other.host


class FakeTorchType:
    def __init__(self, name: str) -> None:
        self.name = name
        self.itemsize = np.dtype(getattr(ml_dtypes, name, name)).itemsize if name != "quint8" else 1

        self.is_complex = name.startswith("complex")

    def __str__(self) -> str:
        return f"torch.{self.name}"

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeTorchType) and self.name == other.name


class FakeGpus:
    """The GPUs of a machine, the fake `cupy` and `torch` modules, and what was asked of their streams."""

    def __init__(self) -> None:
        self.current, self.streams, self.log = 0, [0], []
        self.torch_stream = 0
        self.capabilities, self.driver = ["80", "90"], 12020
        self.used: set[int] = set()
        """The streams that were current when a device was used."""
        self.worked: set[int] = set()
        """The devices that were used."""
        self.captured: set[int] = set()
        """The streams that are captured."""
        self.is_implicit = False
        """Whether the legacy stream cannot be asked for its state: one that it waits for is captured."""
        self.memory: dict[int, int] = {}
        """Addresses that objects with an interface have, and their GPUs."""
        runtime = SimpleNamespace(
            getDevice=lambda: self.current,
            getDeviceCount=lambda: len(self.capabilities),
            driverGetVersion=lambda: self.driver,
            deviceGetAttribute=lambda which, _: {device.PROCESSORS: 3, device.SHARED: EmulatedDevice.shared}[which],
            pointerGetAttributes=self._attributes,
            streamIsCapturing=self._captures,
            CUDARuntimeError=RuntimeError,
        )
        self.cupy = ModuleType("cupy")
        self.cupy.__dict__.update(
            ndarray=FakeArray,
            empty=lambda shape, dtype: FakeArray(np.full(shape, 7).astype(dtype), self.current),
            asarray=self._asarray,
            broadcast_to=lambda array, shape: FakeArray(np.broadcast_to(array.host, shape), array.gpu),
            **{name: self._function(name) for name in FUNCTIONS},
            from_dlpack=lambda lent: FakeArray(lent.host, lent.gpu, keep=lent),
            cuda=SimpleNamespace(
                runtime=runtime,
                Device=self._device,
                get_current_stream=self._stream,
                ExternalStream=FakeStream,
                Stream=SimpleNamespace(from_external=lambda lent: FakeStream(lent.__cuda_stream__()[1])),
            ),
        )
        self.torch = ModuleType("torch")
        self.torch.__dict__.update(
            Tensor=FakeTensor,
            UntypedStorage=FakeStorage,
            contiguous_format="C",
            is_grad_enabled=lambda: True,
            are_deterministic_algorithms_enabled=lambda: False,
            cuda=SimpleNamespace(
                current_stream=lambda _: SimpleNamespace(cuda_stream=self.torch_stream),
                is_initialized=lambda: True,
                is_current_stream_capturing=lambda: self.torch_stream in self.captured,
            ),
            autograd=SimpleNamespace(graph=SimpleNamespace(increment_version=_increment)),
        )
        FakeStream.gpus = self

    def _captures(self, stream: int) -> bool:
        if self.is_implicit and not stream:
            raise RuntimeError("cudaErrorStreamCaptureImplicit")
        return stream in self.captured

    def _attributes(self, address: int) -> SimpleNamespace:
        return SimpleNamespace(type=2 if address in self.memory else 0, device=self.memory.get(address))

    def _asarray(self, given: Any) -> FakeArray:
        if isinstance(given, np.ndarray):
            return FakeArray(given.copy(), self.current)
        return given if isinstance(given, FakeArray) else FakeArray(given.host, given.gpu)

    def _function(self, name: str) -> Any:
        def call(*given: Any, **options: Any) -> Any:
            found = getattr(np, name)(*map(host_of, given), **options)
            if isinstance(found, tuple):
                return tuple(FakeArray(each, self.current) for each in found)
            return FakeArray(np.asarray(found), self.current)

        return call

    def _device(self, number: int) -> FakeDevice:
        return FakeDevice(self, number)

    def _stream(self) -> FakeStream:
        return FakeStream(self.streams[-1])


class FakeDevice:
    """A device of CuPy, current in a block."""

    def __init__(self, gpus: FakeGpus, number: int) -> None:
        self._gpus, self._number, self.compute_capability = gpus, number, gpus.capabilities[number]

    def __enter__(self) -> FakeDevice:
        self._before, self._gpus.current = self._gpus.current, self._number
        return self

    def __exit__(self, *_: object) -> None:
        self._gpus.current = self._before


class FakeStream:
    gpus: FakeGpus

    def __init__(self, ptr: int, _device: int = 0) -> None:
        self.ptr = ptr

    def __enter__(self) -> None:
        self.gpus.streams.append(self.ptr)

    def __exit__(self, *_: object) -> None:
        self.gpus.streams.pop()

    def record(self) -> int:
        return self.ptr

    def wait_event(self, event: int) -> None:
        self.gpus.log.append(f"{self.ptr} after {event}")


def _increment(tensor: FakeTensor) -> None:
    tensor.version += 1


class Described:
    """An object that only has `__cuda_array_interface__`."""

    def __init__(self, gpus: FakeGpus, host: Host, gpu: int = 0, **changed: Any) -> None:
        self.host, self.gpu = host, gpu
        own = host.__array_interface__
        gpus.memory[own["data"][0]] = gpu
        self.__cuda_array_interface__ = {**own, "version": 3, **changed}


class Lent:
    """An object that only has `__dlpack__`."""

    def __init__(self, host: Host, kind: int = 2, gpu: int = 0) -> None:
        self.host, self.gpu, self.kind = host, gpu, kind

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.gpu

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("only CuPy may ask")


class _Watched(EmulatedDevice):
    """An emulated GPU that notes the stream at each use."""

    def __init__(self, gpus: FakeGpus, number: int) -> None:
        self._gpus, self._number = gpus, number

    def __getattribute__(self, name: str) -> Any:
        gpus: FakeGpus = object.__getattribute__(self, "_gpus")
        gpus.used.add(gpus.streams[-1])
        number = object.__getattribute__(self, "_number")
        assert number == gpus.current, "CUDA works on its current device"
        gpus.worked.add(number)
        return object.__getattribute__(self, name)


def forget_choices() -> None:
    for each in (device.cuda, engines.is_installed, engines.chosen):
        each.cache_clear()
    direct.PLANS.clear()


def pretend(monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    """Two GPUs, emulated, for CuPy and torch."""
    gpus = FakeGpus()
    monkeypatch.setitem(sys.modules, "cupy", gpus.cupy)
    monkeypatch.setitem(sys.modules, "torch", gpus.torch)
    monkeypatch.setattr(device, "Device", lambda number: _Watched(gpus, number))
    monkeypatch.delenv(engines.VARIABLE, raising=False)
    forget_choices()
    return gpus
