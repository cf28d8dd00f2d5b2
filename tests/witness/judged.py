"""Values of the headers beside those of ptokit: what differs in each call, and why it may."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptokit.cxx.record import ArrayArgument, ScalarArgument, record
from ptokit.finding import VerifyError
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.kernel import kernels_of
from ptokit.isa.spelling import TMP
from ptokit.lang.recorded import CppKernel, load_entries
from ptokit.witness.extents import NOTHING, Ranges, without
from tests.compute.tables import TYPES
from tests.witness.accepted_values import reason
from tests.witness.cases import APART, VARIANTS, Bytes, Case, cases, source
from tests.witness.compare import MEMORIES, Assumed, union, watched
from tests.witness.values import compiled, missing

TARGET = "a2a3"
EXAMPLES = 4
MOST_KERNELS = 48
"""In a source."""
MASKS = {"tcmp": "src0", "tcmps": "src"}
"""Instructions whose result is a bit for each column of a source."""
EPSILON = {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-52}
"""By the bytes of a float: those of two bytes are judged as float16."""


def vector_instructions() -> list[str]:
    """The modelled instructions whose work is on the vector pipe of A2/A3, or looks so from outside."""
    found = list[str]()
    for name, instruction in INSTRUCTIONS.items():
        kernels = kernels_of(instruction, TARGET).values()
        pipes = {effect.pipe for kernel in kernels for effect in kernel.effects}
        seen = {pipe for kernel in kernels for pipe in kernel.handshake.seen_as.values()}
        if "V" in pipes or ("V" in seen and name in TYPES):
            found.append(name)
    return found


@dataclass
class Judged:
    """Counts of calls by instruction, with examples of what differs."""

    calls: Counter[str] = field(default_factory=Counter[str])
    equal: Counter[str] = field(default_factory=Counter[str])
    accepted: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """By instruction and reason."""
    differ: Counter[str] = field(default_factory=Counter[str])
    kinds: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    """The types of each instruction that were compared."""
    examples: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    uncovered: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    """What keeps an instruction from being compared: functions that are not executed, or a problem."""
    refused: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    """Kernels that ptokit refuses."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def counts_of(self, name: str) -> tuple[int, int, int, int]:
        """The calls of an instruction: all, equal ones, those that differ with a reason, and without."""
        calls, equal, differ = self.calls[name], self.equal[name], self.differ[name]
        return calls, equal, calls - equal - differ, differ

    def merge(self, other: Judged) -> None:
        """Add what another one has."""
        self.calls.update(other.calls)
        self.equal.update(other.equal)
        self.accepted.update(other.accepted)
        self.differ.update(other.differ)
        for mine, more in ((self.kinds, other.kinds), (self.uncovered, other.uncovered), (self.refused, other.refused)):
            for name, found in more.items():
                mine.setdefault(name, set()).update(found)
        self.examples.update(other.examples)
        self.seconds.update(other.seconds)

    def add(self, case: Case, variant: str, found: list[tuple[str, str]]) -> None:
        """Count a call."""
        name = case.instruction
        self.calls[name] += 1
        self.kinds.setdefault(name, set()).add(case.kinds)
        reasons = {kind: reason(name, case.label, kind) for kind, _ in found}
        self.equal[name] += not found
        self.accepted.update({(name, each) for each in reasons.values() if each})
        if left := [f"{kind}: {how}" for kind, how in found if not reasons[kind]]:
            self.differ[name] += 1
            examples = self.examples.setdefault(name, [])
            if len(examples) < EXAMPLES:
                examples.append(f"{case.label}, {variant}: {'; '.join(left)}")


def judge(headers: Path, target: str, folder: Path, name: str) -> Judged:
    """All kernels of an instruction, in a process that ends. `headers`: the folder of a `ValueWitness`."""
    start, found = time.monotonic(), Judged()
    try:
        every = list(cases(name, target))
        for first in range(0, len(every), MOST_KERNELS):
            _judge(headers, target, folder / f"values_{name}_{first}.cpp", every[first : first + MOST_KERNELS], found)
    except Exception as problem:  # of this instruction only
        found.uncovered.setdefault(name, set()).add(str(problem)[:600])
    found.seconds[name] = time.monotonic() - start
    return found


def _judge(headers: Path, target: str, file: Path, every: Sequence[Case], into: Judged) -> None:
    name = every[0].instruction
    file.write_text(source(every), encoding="utf-8")
    given = np.concatenate([case.image(variant) for case in every for variant in VARIANTS])
    with compiled(headers, file, target) as build:
        seen = np.zeros_like(given)
        arguments = [
            ArrayArgument("in", given),
            ArrayArgument("out", seen, True),
            ScalarArgument("stream", "int64", None),
        ]
        recording = record(build, "every", arguments)
    if problems := missing(recording) or {each.message for each in recording.problems if each.fatal}:
        into.uncovered.setdefault(name, set()).update(problems)
        return
    at = 0
    for case, said, assumed in _assumed(every, file, given, target, into):
        for number, variant in enumerate(VARIANTS):
            part = slice(at + number * case.nbytes, at + (number + 1) * case.nbytes)
            own = said[number * case.nbytes :][: case.nbytes]
            if not assumed[number]:
                into.refused.setdefault(name, set()).add(f"{case.label}: ptokit does not execute it")
            else:
                into.add(case, variant, list(differences(case, given[part], seen[part], own, assumed[number])))
        at += case.nbytes * len(VARIANTS)


def _assumed(
    every: Sequence[Case], file: Path, given: Bytes, target: str, into: Judged
) -> Iterator[tuple[Case, Bytes, list[list[Assumed]]]]:
    """What ptokit makes of each kernel: the bytes at the end, and what each call touches. All kernels run at once,
    unless ptokit refuses one."""
    kernels = {kernel.entry.name: kernel for kernel in load_entries(str(file), target)}
    with suppress(VerifyError):
        out, found = _run(kernels["every"], given, target)
        runs = iter(_runs(found))
        at = 0
        for case in every:
            size = case.nbytes * len(VARIANTS)
            yield case, out[at : at + size], [next(runs) for _ in VARIANTS]
            at += size
        return
    at = 0
    for case in every:
        own = given[at : at + case.nbytes * len(VARIANTS)]
        at += len(own)
        try:
            out, found = _run(kernels[f"only_{case.name}"], own, target)
            yield case, out, _runs(found)
        except VerifyError as problem:
            into.refused.setdefault(case.instruction, set()).add(f"{case.label}: {str(problem)[:300]}")
            yield case, own, [[] for _ in VARIANTS]


def _run(kernel: CppKernel, given: Bytes, target: str) -> tuple[Bytes, list[Assumed]]:
    out = np.zeros_like(given)
    with watched() as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays: dict[str, Any] = {"in": given, "out": out}
        kernel[1](**arrays, target=target, engine="machine")
    return out, found


def _runs(found: Sequence[Assumed]) -> list[list[Assumed]]:
    """The calls of each launch, which begins with a load."""
    runs = list[list[Assumed]]()
    for call in found:
        if call.name == "tload":
            runs.append([])
        elif call.name != "tstore":
            runs[-1].append(call)
    return runs


def differences(
    case: Case, given: Bytes, seen: Bytes, said: Bytes, assumed: list[Assumed]
) -> Iterator[tuple[str, str]]:
    """How the bytes of the headers differ from those of ptokit: results by their kind, and bytes beside them."""
    written, lost = NOTHING, NOTHING
    for call in assumed:
        touches = [touch for touch in call.touches if touch.how == "write" and MEMORIES.get(touch.memory) == "vec"]
        written = union(written, *(touch.ranges for touch in touches if not touch.is_lost))
        lost = union(lost, *(touch.ranges for touch in touches if touch.is_lost or touch.operand == TMP))
    results = _within(without(written, lost), len(given))
    elsewhere = ~_within(union(written, lost), len(given))
    for name, start in case.addresses.items():
        if name != "dst" and start == case.addresses["dst"]:
            continue
        kind = dtype(case.tiles[name].kind)
        part = slice(start, start + APART)
        mine, theirs, before = (each[part].view(kind.numpy) for each in (said, seen, given))
        is_result = results[part].reshape(-1, kind.size).any(axis=1)
        if name == "dst" and case.instruction in MASKS:
            kept = _of_columns(case, mine, theirs)
            if (lanes := np.flatnonzero(is_result & kept[2])).size:
                yield "bits behind the columns", _example(case, name, lanes, mine, theirs, given)
            mine, theirs, _ = kept
        of_nan = _of_nan(case, name, given)
        for what, lanes in _kinds(mine, theirs, is_result, kind.is_float):
            for ending, some in (("", lanes[~of_nan[lanes]]), (" of NaN", lanes[of_nan[lanes]])):
                if some.size:
                    yield f"{what}{ending}", _example(case, name, some, mine, theirs, given)
        beside = (elsewhere[part] & (seen[part] != given[part])).reshape(-1, kind.size).any(axis=1)
        if beside.any():
            where = "beside" if name == "dst" else "source"
            yield f"{where} written", _example(case, name, np.flatnonzero(beside), before, theirs, given)


def _of_nan(case: Case, name: str, given: Bytes) -> Any:
    """For each lane of a tile, whether there is a NaN among what it is made of: the same lane of a source, its row or
    its column."""
    tile = case.tiles[name]
    found = np.zeros((APART // dtype(tile.kind).size,), bool)
    rows, cols = tile.valid
    lanes = np.arange(rows)[:, None] * tile.cols + np.arange(cols)
    for other, start in case.addresses.items():
        source = case.tiles[other]
        if other in ("dst", TMP) or not dtype(source.kind).is_float:
            continue
        held = given[start : start + APART].view(dtype(source.kind).numpy)
        nan = np.isnan(held[: source.rows * source.cols].astype(np.float32)).reshape(source.rows, source.cols)
        nan = nan[: source.valid[0], : source.valid[1]]
        nan = nan.any(axis=0, keepdims=True) if source.valid[0] > rows else nan
        nan = nan.any(axis=-1, keepdims=True) if source.valid[1] > cols else nan
        if all(length in (1, wanted) for length, wanted in zip(nan.shape, tile.valid, strict=True)):
            found[lanes] |= np.broadcast_to(nan, tile.valid)
    return found


def _of_columns(case: Case, mine: Any, theirs: Any) -> tuple[Any, Any, Any]:
    """The bits of masks that belong to valid columns, and which bytes differ in others."""
    tile, source = case.tiles["dst"], case.tiles[MASKS[case.instruction]]
    bits = np.clip(source.valid[1] - 8 * (np.arange(mine.size) % tile.cols), 0, 8)
    wanted = ((1 << bits) - 1).astype(np.uint8)
    return mine & wanted, theirs & wanted, (mine & ~wanted) != (theirs & ~wanted)


def _within(ranges: Ranges, size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found = np.zeros(size, bool)
    for start, end in ranges:
        found[start:end] = True
    return found


def _kinds(mine: Any, theirs: Any, is_result: Any, is_float: bool) -> Iterator[tuple[str, Any]]:
    """The lanes of a result that differ, by how."""
    if not is_float:
        if (lanes := np.flatnonzero(is_result & (mine != theirs))).size:
            yield "value", lanes
        return
    a, b = mine.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(all="ignore"):
        unlike = is_result & (a != b) & ~(np.isnan(a) & np.isnan(b))
        signs = is_result & (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
        special = unlike & ~(np.isfinite(a) & np.isfinite(b))
        near = unlike & ~special & (np.abs(a - b) <= 4 * EPSILON[mine.itemsize] * np.maximum(np.abs(a), np.abs(b)))
    for what, mask in (
        ("NaN or infinity", special),
        ("rounding", near),
        ("value", unlike & ~special & ~near),
        ("sign of zero", signs),
    ):
        if mask.any():
            yield what, np.flatnonzero(mask)


def _example(case: Case, name: str, lanes: Any, mine: Any, theirs: Any, given: Bytes) -> str:
    """The first lane that differs, with the lane of each source."""
    tile, lane = case.tiles[name], int(lanes[0])
    row, column = divmod(lane, tile.cols)
    sources = []
    for other, start in case.addresses.items():
        tiles = case.tiles[other]
        if other not in ("dst", TMP):
            held = given[start : start + APART].view(dtype(tiles.kind).numpy)
            sources.append(f"{other} {held[min(row, tiles.rows - 1) * tiles.cols + min(column, tiles.cols - 1)]}")
    return f"{len(lanes)} of {name}, at {row}, {column} {theirs[lane]} and not {mine[lane]} of {', '.join(sources)}"
