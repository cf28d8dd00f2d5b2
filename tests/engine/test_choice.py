"""The choice of an engine, and errors for unknown names from the call or the environment."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit import engines
from ptokit.ops import direct

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
    """Nor is there a plan of another test for a call of the same kind: it has its engine."""
    monkeypatch.delenv(engines.VARIABLE, raising=False)
    monkeypatch.setattr(direct, "PLANS", {})
    engines.chosen.cache_clear()
    yield
    engines.chosen.cache_clear()


@pytest.mark.parametrize("name", CALLS)
def test_calls_on_arrays_name_the_argument_and_what_they_take(name: str) -> None:
    with pytest.raises(ValueError, match=r"^engine is one of auto, reference, native, cuda; got 'machine'") as stopped:
        CALLS[name](engine="machine")
    assert "the machine runs kernels" in str(stopped.value) and engines.VARIABLE not in str(stopped.value)
    with pytest.raises(ValueError, match=r"got 'refrence'; did you mean reference\?$"):
        CALLS[name](engine="refrence")
    with pytest.raises(ValueError, match=r"got \['native'\]$"):
        CALLS[name](engine=["native"])


@pytest.mark.parametrize("engine", ["machine", "gpu"])
def test_the_environment_is_named_when_it_is_to_blame(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engines.VARIABLE, engine)
    with pytest.raises(ValueError, match=f"^PTOKIT_ENGINE is one of auto, reference, native, cuda; found '{engine}'$"):
        CALLS["gather"]()
    assert np.array_equal(CALLS["gather"](engine="reference"), TABLE[INDICES]), "an argument comes first"


def test_a_missing_native_engine_is_blamed_on_who_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "is_installed", lambda module: False)
    with pytest.raises(ImportError, match=r"^engine=native: the native engine needs llvmlite"):
        engines.chosen("native")
    monkeypatch.setenv(engines.VARIABLE, "native")
    with pytest.raises(ImportError, match=r"^PTOKIT_ENGINE=native: the native engine needs llvmlite"):
        engines.chosen("auto")


def test_a_launch_takes_the_machine_too() -> None:
    @pto.kernel
    def none(x: Any) -> None:
        pass

    with pytest.raises(ValueError, match=r"^engine is one of auto, reference, native, cuda, machine; got 'mashine'"):
        none[1](TABLE, engine="mashine")
    assert none[1](TABLE, engine="machine").engine == "machine"


def test_engine_names_stand_in_one_file() -> None:
    source = Path(pto.__file__).parent
    for path in source.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        named = {n.value for n in nodes if isinstance(n, ast.Constant)} & {engines.REFERENCE, engines.NATIVE}
        assert not named or path.name == "runnable.py", f"{path.name} names {named}"


def test_an_engine_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = engines.Engine("other", "ptokit.engine.interpreter:Executable", "ptokit.engine.whole:run")
    monkeypatch.setitem(engines.ENGINES, "other", entry)
    assert engines.names() == ("auto", "reference", "native", "cuda", "other")
    assert engines.chosen("other") == "other"
    assert engines.arrays("other") is engines.arrays("reference")
