"""Which engine is meant, and who named one that there is not: the call, or the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.engine import choose

TABLE = np.arange(32, dtype="float32").reshape(4, 8)
INDICES = np.array([1, 2])
CALLS: dict[str, Callable[..., Any]] = {
    "gather": lambda **options: pto.gather(TABLE, INDICES, **options),
    "scatter": lambda **options: pto.scatter(TABLE.copy(), TABLE[:2], INDICES, **options),
    "gather from behind": lambda **options: pto.gather(TABLE[::-1], INDICES, **options),
    "gather nothing": lambda **options: pto.gather(TABLE, INDICES[:0], **options),
}


@pytest.fixture(autouse=True)
def nothing_chosen_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(choose.VARIABLE, raising=False)
    choose.chosen.cache_clear()
    yield
    choose.chosen.cache_clear()


@pytest.mark.parametrize("name", CALLS)
def test_calls_on_arrays_name_the_argument_and_what_they_take(name: str) -> None:
    with pytest.raises(ValueError, match=r"^engine is one of auto, reference, native; got 'machine'") as stopped:
        CALLS[name](engine="machine")
    assert "the machine runs kernels" in str(stopped.value) and choose.VARIABLE not in str(stopped.value)
    with pytest.raises(ValueError, match=r"got 'refrence'; did you mean reference\?$"):
        CALLS[name](engine="refrence")
    with pytest.raises(ValueError, match=r"got \['native'\]$"):
        CALLS[name](engine=["native"])


@pytest.mark.parametrize("engine", ["machine", "gpu"])
def test_the_environment_is_named_when_it_is_to_blame(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(choose.VARIABLE, engine)
    with pytest.raises(ValueError, match=f"^PTOKIT_ENGINE is one of auto, reference, native; found '{engine}'$"):
        CALLS["gather"]()
    assert np.array_equal(CALLS["gather"](engine="reference"), TABLE[INDICES]), "an argument comes first"


def test_a_missing_native_engine_is_blamed_on_who_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "has_native", lambda: False)
    with pytest.raises(ImportError, match=r"^engine=native: the native engine needs llvmlite"):
        choose.chosen("native")
    monkeypatch.setenv(choose.VARIABLE, "native")
    with pytest.raises(ImportError, match=r"^PTOKIT_ENGINE=native: the native engine needs llvmlite"):
        choose.chosen("auto")


def test_a_launch_takes_the_machine_too() -> None:
    @pto.kernel
    def none(x: Any) -> None:
        pass

    with pytest.raises(ValueError, match=r"^engine is one of auto, reference, native, machine; got 'mashine'; did"):
        none[1](TABLE, engine="mashine")
    assert none[1](TABLE, engine="machine").engine == "machine"
