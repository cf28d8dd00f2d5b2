"""CUDA graphs: work that cannot be captured is refused before anything is launched. What is captured here is only what
the libraries say; `tests/gpu/test_graphs.py` captures."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.engine.cuda.device import cuda
from tests.engine.cuda.fakes import FakeArray, FakeGpus, FakeTensor

ROWS = np.arange(48, dtype="float32").reshape(6, 8)
INSIDE, OUTSIDE = np.array([3, 0, 5]), np.array([3, -1, 9])
Call = Callable[[], Any]


@pytest.fixture
def launched(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What devices were asked to do."""
    asked: list[str] = []
    kind = type(cuda(0))

    def noted(name: str) -> Callable[..., Any]:
        own = getattr(kind, name)
        return lambda self, *given, **named: (asked.append(name), own(self, *given, **named))[1]

    for name in ("module", "empty", "pinned", "upload", "download", "fill", "copy", "wait", "event", "fork", "sort"):
        monkeypatch.setattr(kind, name, noted(name))
    return asked


def refused(call: Call, gpus: FakeGpus, launched: list[str], *words: str, stream: int = 0) -> None:
    """A call is refused in a capture, at this line of the user, and works after it."""
    launched.clear()
    gpus.captured.add(stream)
    with pytest.raises(pto.VerifyError) as problem:
        call()
    gpus.captured.clear()
    (finding,) = problem.value.findings
    assert "cannot be captured in a CUDA graph" in finding.message and finding.fix
    assert all(word in f"{finding.message} {finding.fix}" for word in words)
    assert finding.where is not None and finding.where.file == __file__
    assert launched == [] and gpus.log == []
    call()


@pytest.mark.parametrize("wrap", [FakeArray, FakeTensor])
@pytest.mark.parametrize("times", [0, 1, 3], ids=["first", "second", "repeated"])
def test_calls_that_check_indices_are_refused(emulated: FakeGpus, launched: list[str], times: int, wrap: Any) -> None:
    table, lanes, out = wrap(ROWS.copy()), wrap(INSIDE), wrap(np.zeros((3, 8), "float32"))
    calls: list[Call] = [
        lambda: pto.gather(table, lanes, out=out),
        lambda: pto.gather(table, lanes),
        lambda: pto.scatter(table, out, lanes),
        lambda: pto.scatter(table, out, lanes, atomic="add"),
        lambda: pto.gather(table, lanes, axis=1),
        lambda: pto.gather_along(table, wrap(INSIDE[:, None])),
        lambda: pto.scatter(table, out, lanes, reduce="mean"),
    ]
    for call in calls:
        for _ in range(times):
            call()
        refused(call, emulated, launched)


def test_what_waits_or_copies_is_refused_under_any_policy(emulated: FakeGpus, launched: list[str]) -> None:
    table, out = FakeTensor(ROWS.copy()), FakeTensor(np.zeros((3, 8), "float32"))
    lanes, narrow = FakeTensor(INSIDE), FakeTensor(INSIDE.astype("int32"))
    every: list[tuple[Call, str]] = [
        (lambda: pto.gather(table, narrow, oob="clamp"), "int64"),
        (lambda: pto.gather(table, [1, 2], oob="zero"), "a list is copied"),
        (lambda: pto.scatter(table, 1, lanes, oob="skip", conflict="any"), "number of the host"),
        (lambda: pto.scatter(table, [[1] * 8] * 3, lanes, oob="skip"), "a list is copied"),
        (lambda: pto.scatter(table, out, lanes, oob="skip"), "later calls use"),
        (lambda: pto.gather(FakeArray(ROWS), FakeArray(INSIDE), oob="zero"), "CuPy would use"),
        (lambda: pto.gather(table, lanes, oob="zero", out=FakeTensor(table.host[:3])), "copies an array first"),
        (lambda: pto.gather(FakeTensor(ROWS[:, ::-1]), lanes, oob="zero"), "waits"),
    ]
    for call, why in every:
        for _ in range(2):
            call()
        refused(call, emulated, launched, why)


def test_a_call_whose_kernels_are_not_loaded_is_refused(emulated: FakeGpus, launched: list[str]) -> None:
    table, lanes = FakeTensor(np.ones((6, 13))), FakeTensor(INSIDE)
    refused(lambda: pto.gather(table, lanes, oob="zero"), emulated, launched, "not loaded yet", "once before")


@pytest.mark.parametrize("oob", ["clamp", "wrap", "zero"])
def test_gathers_that_check_nothing_are_captured(emulated: FakeGpus, launched: list[str], oob: str) -> None:
    table, lanes, out = FakeTensor(ROWS), FakeTensor(OUTSIDE), FakeTensor(np.zeros((3, 8), "float32"))
    expected = pto.gather(table, lanes, oob=oob).host
    pto.gather(table, lanes, oob=oob, out=out)
    out.host[...] = 0
    emulated.torch_stream = 5
    emulated.captured.add(5)
    launched.clear()
    found = pto.gather(table, lanes, oob=oob)
    pto.gather(table, lanes, oob=oob, out=out)
    assert np.array_equal(found.host, expected) and np.array_equal(out.host, expected)
    assert launched == [] and emulated.log == []  # one kernel in torch's stream, and no other


def test_scatters_that_check_nothing_are_captured(emulated: FakeGpus, launched: list[str]) -> None:
    src, lanes = FakeTensor(ROWS[:3] * 10), FakeTensor(OUTSIDE)
    for options in ({"atomic": "add"}, {"atomic": "max"}, {"conflict": "any"}):
        made = []
        for is_captured in (False, False, True):
            emulated.torch_stream = 5 * is_captured
            emulated.captured = {5}
            launched.clear()
            table = FakeTensor(ROWS.copy())
            pto.scatter(table, src, lanes, oob="skip", **options)
            made.append(table.host)
        assert np.array_equal(made[0], made[2]) and launched == []


def test_calls_beside_a_capture_are_refused(emulated: FakeGpus, launched: list[str]) -> None:
    """They would wait for another stream, which ends the capture."""
    table, lanes = FakeArray(ROWS), FakeArray(INSIDE)
    for _ in range(3):
        pto.gather(table, lanes)
    emulated.torch_stream = 5
    refused(lambda: pto.gather(table, lanes), emulated, launched, stream=5)
    emulated.is_implicit = True
    with pytest.raises(pto.VerifyError, match="captured"):
        pto.gather(table, lanes)
    emulated.is_implicit = False
    pto.gather(table, lanes)


@pto.kernel
def copied(x: Any, y: Any) -> None:
    """Copies an array."""
    t = pto.Tile("vec", "float32", 8, 8)
    pto.tload(t, x)
    pto.tstore(y, t)


@pytest.mark.parametrize("times", [0, 1, 4])
@pytest.mark.parametrize("wrap", [FakeArray, FakeTensor])
def test_launches_are_refused(emulated: FakeGpus, launched: list[str], wrap: Any, times: int) -> None:
    copied.cached.clear()  # which know the GPUs of other tests
    x, y = wrap(np.ones((8, 8), "float32")), wrap(np.zeros((8, 8), "float32"))

    def call() -> None:
        copied[1](x, y)

    for _ in range(times):
        call()
    refused(call, emulated, launched)


@pytest.mark.parametrize("wrap", [FakeArray, FakeTensor])
def test_repeated_calls_warn_of_negative_indices(emulated: FakeGpus, wrap: Any) -> None:
    """Which the host has to look for: such calls are not repeated by addresses alone."""
    table, lanes = wrap(ROWS), wrap(np.array([1, -1], "int32"))
    for _ in range(3):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            pto.gather(table, lanes, oob="clamp")
        assert [each.category for each in found] == [pto.HazardWarning]
