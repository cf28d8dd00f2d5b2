from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.cuda.fakes import FakeGpus, forget_choices, pretend


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpus]:
    """Two GPUs that are emulated on the CPU; `FakeArray(array)` is a CuPy array on the first."""
    yield pretend(monkeypatch)
    forget_choices()
