"""Arrays of the host on an emulated device."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit.engine.cuda.resident import HostCopies, resident
from ptokit.engine.storage import Storage
from ptokit.isa.dtype import dtype
from tests.engine.cuda.emulated import EmulatedDevice


def test_arrays_are_copied_there_and_written_ones_back() -> None:
    device, numbers = EmulatedDevice(), np.arange(20, dtype=np.int32)
    other, empty = np.arange(5, dtype=np.int32), np.empty(0, np.int32)
    parts = {"all": numbers, "tail": numbers[10:], "other": other, "empty": empty}
    storages = {name: Storage(part, dtype("int32")) for name, part in parts.items()}
    with resident(device, storages, {"tail", "empty"}) as addresses:
        assert addresses["tail"] - addresses["all"] == 40
        assert addresses["other"] != storages["other"].address
        for name, part in parts.items():
            found = device.download(addresses[name], part.nbytes).view(np.int32)
            assert np.array_equal(found, part), name
        device.fill(addresses["all"], 0, 80)
        device.fill(addresses["other"], 0, 20)
    assert numbers.tolist() == [*range(10), *[0] * 10]  # `all` is read, `tail` is written
    assert other.tolist() == [*range(5)]


def test_arrays_are_copied_back_after_an_error() -> None:
    device, numbers = EmulatedDevice(), np.arange(5, dtype=np.int32)
    kept = resident(device, {"numbers": Storage(numbers, dtype("int32"))}, {"numbers"})
    device.fill(kept.__enter__()["numbers"], 0, 20)
    problem = KeyError()
    assert not kept.__exit__(KeyError, problem, None)
    assert not numbers.any()


def test_arrays_of_the_device_stay_where_they_are() -> None:
    class OnDevice(Storage):
        gpu = 0

    numbers = np.arange(5, dtype=np.int32)
    storage = OnDevice(numbers, dtype("int32"))
    with resident(EmulatedDevice(), {"numbers": storage}, {"numbers"}) as addresses:
        assert addresses == {"numbers": numbers.ctypes.data}


def test_copies_on_the_host_share_what_their_arrays_share() -> None:
    device, numbers = EmulatedDevice(), np.arange(20, dtype=np.int32)
    parts = {"all": numbers, "part": numbers[4:9], "other": np.arange(5, dtype=np.int32), "empty": numbers[:0]}
    storages = {name: Storage(part, dtype("int32")) for name, part in parts.items()}
    with resident(device, storages, ()) as addresses:
        copies = HostCopies(device, storages, addresses)
        assert {name: copies[name].bits.tolist() for name in copies} == {name: [*part] for name, part in parts.items()}
    copies["all"].bits[4] = 99
    assert copies["part"].bits[0] == 99 and copies["other"].bits[4] == numbers[4] == 4


def test_copies_are_aligned_as_their_arrays() -> None:
    room = np.zeros(256, np.uint8)
    first = -room.ctypes.data % 64
    parts = {"bytes": room[first + 3 : first + 90], "numbers": room[first + 16 : first + 80].view(np.int32)}
    storages = {name: Storage(part.view(f"u{part.itemsize}"), dtype(part.dtype)) for name, part in parts.items()}
    with resident(EmulatedDevice(), storages, ()) as addresses:
        assert [addresses[name] % 64 for name in parts] == [3, 16]
