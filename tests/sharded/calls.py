"""Random calls on a sharded table, and the same calls on an array in this process."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import ptokit as pto
from tests.property import naive_whole
from tests.sharded.inprocess import same

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES = ("float32", "float16", "int32", "uint8", "float64", "bfloat16", "complex64", "bool")
SHAPES = ((7,), (5, 3), (16, 4), (9, 2, 2), (1, 6), (3, 1), (0, 3), (4, 0))
INDICES = ("int32", "uint32", "int64", "int8", "uint64")
PLAIN = ("int32", "uint32", "int64")
MODES = ("raise", "wrap", "clip", "fill", "drop", "negative")
REDUCES = ("set", "sum", "mul", "mean", "amax", "amin")


def random_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Elements that are easy to tell apart, with rounding and special values among them."""
    kind = pto.dtype(dtype).numpy
    values = np.where(rng.random(shape) < 0.1, rng.choice([0.0, -0.0, 1e4]), rng.normal(size=shape) * 8)
    return (values.round() if kind.kind in "iub" else values).clip(0 if kind.kind == "u" else None).astype(kind)


@st.composite
def lanes(draw: st.DrawFn, capacity: int, has_outside: bool) -> Array:
    """Indices, repeated ones and some outside the table."""
    kind = draw(st.sampled_from(INDICES))
    shape = draw(st.sampled_from([(), (1,), (4,), (2, 3), (11,), (0,)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    found = rng.integers(0, max(1, capacity), shape).astype(kind)
    if has_outside and found.size:
        odd = [capacity, capacity + 5, *(() if kind[0] == "u" else (-1, -capacity)), np.iinfo(kind).max]
        found = np.where(rng.random(shape) < 0.3, rng.choice(np.array(odd, kind), shape), found).astype(kind)
    return found.tolist() if draw(st.integers(0, 5)) == 0 else found


class TableCalls(RuleBasedStateMachine):
    """Every call gives the bits, or the error, that it gives on an array in this process."""

    folder: str
    made: Callable[..., Any]
    """Makes a table of an array, with shards and `by`."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Any = None
        self.pending: list[tuple[Any, Array]] = []
        self.has_checkpoint = False

    def disturb(self, call: str) -> None:
        """End an owner, perhaps, in the call that begins."""

    @initialize(data=st.data())
    def make(self, data: st.DataObject) -> None:
        dtype, shape = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(SHAPES))
        self.array = random_bits(np.random.default_rng(data.draw(st.integers(0, 99))), shape, dtype)
        self.name = dtype
        self.table = self.made(
            self.array, data.draw(st.sampled_from([1, 2, 4])), data.draw(st.sampled_from(["rows", "columns"]))
        )

        self.add()

    @rule()
    def add(self) -> None:
        """Every cell changes, so that a call that is lost or done twice is seen in the end."""
        if self.name != "bool" and self.array.size:
            rows = np.arange(len(self.array))
            pto.scatter(self.array, 1, rows, atomic="add")
            self.disturb("scatter")
            self.table.scatter(1, rows, atomic="add")

    def case(self, data: st.DataObject, policies: tuple[str, ...]) -> dict[str, Any]:
        coalesce, oob = data.draw(st.sampled_from(["row", "elem"])), data.draw(st.sampled_from(policies))
        capacity = len(self.array) if coalesce == "row" else self.array.size
        indices = data.draw(lanes(capacity, has_outside=oob != "undefined" or data.draw(st.integers(0, 9)) == 0))
        form = data.draw(st.sampled_from(["oob", "oob", "mode"]))
        policy = {"mode": data.draw(st.sampled_from(MODES))} if form == "mode" else {"oob": oob}
        entries = {"axis": None} if coalesce == "elem" and data.draw(st.booleans()) else {"coalesce": coalesce}
        return {**entries, **policy, "indices": indices}

    @rule(data=st.data(), is_async=st.booleans())
    def gather(self, data: st.DataObject, is_async: bool) -> None:
        case = self.case(data, ("undefined", "clamp", "wrap", "zero"))
        wanted = outcome(lambda: pto.gather(self.array, **case))
        self.disturb("gather")
        if isinstance(wanted, str):
            assert outcome(lambda: self.table.gather(**case)) == wanted
        elif is_async:
            self.pending.append((self.table.gather_async(**case), wanted))
        else:
            out = None if data.draw(st.booleans()) else np.ones_like(wanted)
            found = self.table.gather(**case, out=out)
            assert found.tobytes() == wanted.tobytes() and found.shape == wanted.shape and found.dtype == wanted.dtype
            assert out is None or found is out

    @rule(data=st.data(), is_async=st.booleans())
    def scatter(self, data: st.DataObject, is_async: bool) -> None:
        case = self.case(data, ("undefined", "clamp", "wrap", "skip"))
        if data.draw(st.integers(0, 2)) == 0:
            case |= {"reduce": data.draw(st.sampled_from(REDUCES)), "include_self": data.draw(st.booleans())}
        else:
            case["atomic"] = data.draw(st.sampled_from(["none", "add", "max", "min"]))
        if self.name in ("float16", "bfloat16") and case.get("atomic") == "add":
            case["accumulate"] = data.draw(st.sampled_from([None, "float32"]))
        case["conflict"] = data.draw(st.sampled_from(["last", "default", "any"]))
        entry = self.array.shape[1:] if case.get("coalesce") == "row" else ()
        shape = np.shape(case["indices"]) + entry
        shape = data.draw(st.sampled_from([shape, shape, entry, (1,) * len(shape), ()]))
        rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
        src = 1 if data.draw(st.integers(0, 7)) == 0 else random_bits(rng, shape, self.name)
        before = self.array.copy()
        wanted = outcome(lambda: pto.scatter(self.array, src, **case))
        self.loops(before, src, case, wanted)
        self.disturb("scatter")
        if isinstance(wanted, str):
            assert outcome(lambda: self.table.scatter(src, **case)) == wanted
            assert before.tobytes() == self.array.tobytes()
        elif is_async:
            self.pending.append((self.table.scatter_async(src, **case), self.table))
        else:
            assert self.table.scatter(src, **case) is self.table

    def loops(self, before: Array, src: Any, case: dict[str, Any], wanted: Any) -> None:
        """The array after the call is that of plain loops, for the types that they know."""
        is_plain = {"coalesce", "oob", "atomic"} <= {*case} and getattr(case["indices"], "dtype", "") in PLAIN
        if isinstance(wanted, str) or self.name in ("bool", "complex64") or isinstance(src, int) or not is_plain:
            return
        how = case["coalesce"], case["oob"], self.name, case["atomic"], case.get("accumulate") is not None
        cells = naive_whole.scatter(before, src, case["indices"], *how)
        assert naive_whole.Cells.of(self.array) == cells

    @rule()
    def take_pending(self) -> None:
        self.disturb("take_pending")
        for handle, wanted in reversed(self.pending):
            found = handle.result(timeout=300)
            assert found is wanted if wanted is self.table else found.tobytes() == wanted.tobytes()
        self.pending.clear()

    @rule()
    def checkpoint(self) -> None:
        self.disturb("checkpoint")
        self.table.checkpoint(self.folder)
        self.saved, self.has_checkpoint = self.array.copy(), True

    @precondition(lambda self: self.has_checkpoint)
    @rule()
    def restore(self) -> None:
        self.disturb("restore")
        self.table.restore(self.folder)
        self.array = self.saved.copy()

    @rule()
    def rebalance(self) -> None:
        self.disturb("rebalance")
        self.table.rebalance()

    @rule()
    def compare(self) -> None:
        self.disturb("compare")
        assert same(self.table, self.array)

    @invariant()
    def is_bounded(self) -> None:
        assert self.table is None or len(self.table.findings) <= 1000

    def teardown(self) -> None:
        if self.table is not None:
            folder = self.table._group.folder
            try:
                self.take_pending()
                assert same(self.table, self.array)
            finally:
                self.table.close()
            assert not os.path.exists(folder)
        if self.has_checkpoint:
            held = json.loads(Path(self.folder, "manifest.json").read_text(encoding="utf-8"))
            assert {*os.listdir(self.folder)} == {"manifest.json", *(each["file"] for each in held["files"])}
        shutil.rmtree(self.folder, ignore_errors=True)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or its error without the line."""
    try:
        return call()
    except (pto.VerifyError, pto.OutOfBoundsError) as problem:
        return "; ".join(finding.head for finding in problem.findings)
    except (TypeError, ValueError) as problem:
        return str(problem)
