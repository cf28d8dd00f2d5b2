"""The revisions `a2a3@2026.08` and `a5@2026.08`: every row makes a difference, and what it states is what happens."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.table import Difference, Revision
from ptokit.lang.launch import mode_of
from ptokit.target import profile, register, unregister
from ptokit.text.cpp import emit
from ptokit.text.forms import print_program, read_program
from tests.cli.shell import fine, ptokit_

A2A3, A5 = "a2a3@2026.08", "a5@2026.08"
ROWS = [(name, row) for name in (A2A3, A5) for row in profile(name).revision.rows]


# --- A row by row: what is seen with it and without it


def rules_of(target: str, run: Callable[[], object]) -> set[str]:
    """The clauses of what refuses an eager call."""
    with pto.target(target), warnings.catch_warnings(action="ignore"):
        try:
            run()
        except pto.VerifyError as problem:
            return {finding.rule for finding in problem.findings}
    return set()


def tile(rows: int, cols: int, kind: str = "float32", value: object = 1, **options: Any) -> Any:
    return pto.Tile("vec", kind, rows, cols, **options).write(value)


def table(rows: int = 8, cols: int = 8, kind: str = "float32", **options: Any) -> Any:
    return pto.GlobalTensor(np.zeros((rows, cols), kind), **options)


def empty(rows: int, cols: int, kind: str) -> Any:
    """A table of a type that NumPy may not have."""
    size = pto.Tile("vec", kind, 1, 32).dtype.size
    return pto.GlobalTensor(np.zeros((rows, cols), f"uint{8 * size}"), dtype=kind)


def scatter(src: Any = None, idx: Any = None, into: Any = None, **options: Any) -> Callable[[], object]:
    """A call, with tiles and a table that are made when it is made."""

    def run() -> None:
        pto.mscatter(
            into() if into else table(), src() if src else tile(8, 8),
            idx() if idx else tile(1, 8, "int32", [[*range(8)]]), **options,
        )  # fmt: skip

    return run


def typed(kind: str, atomic: str = "none") -> Callable[[], object]:
    return scatter(lambda: pto.Tile("vec", kind, 8, 32), into=lambda: empty(8, 32, kind), coalesce="row", atomic=atomic)


def accepted(run: Callable[[], object]) -> Callable[[str], bool]:
    return lambda target: not rules_of(target, run)


def nz_call() -> None:
    src = tile(16, 32, blayout="col_major", slayout="row_major")
    into = pto.GlobalTensor(np.zeros((1, 4, 2, 16, 8), "float32"), layout="nz")
    pto.mscatter(into, src, tile(1, 16, "int32", [[*range(16)]]), coalesce="row")


def outer(order: int) -> Callable[[], object]:
    return scatter(into=lambda: pto.GlobalTensor(np.zeros((2, 4, 8), "float32")), coalesce="row" if order else "elem",
                   idx=None if order else lambda: tile(8, 8, "int32", np.arange(64).reshape(8, 8)))  # fmt: skip


@pto.kernel
def repeated(out, ids):
    src, idx = pto.Tile("vec", "float32", 8, 8), pto.Tile("vec", "int32", 1, 8)
    pto.texpands(src, 1)
    pto.tload(idx, ids)
    pto.mscatter(out, src, idx, coalesce="row")


def on_machine(target: str, kernel: Any = repeated, ids: object = (1, 1, 2, 3, 4, 5, 6, 7)) -> Any:
    return kernel[1](np.zeros((64, 8), "float32"), np.array([ids], "int32"), target=target, engine="machine")


def repeats(target: str) -> bool:
    return "H-14" in {finding.kind for finding in on_machine(target).findings}


def notes(target: str) -> bool:
    found = pto.check(policies, np.zeros((64, 8), "float32"), np.zeros((1, 8), "int32"), target=target).findings
    return "A-18" in {finding.rule for finding in found}


@pto.kernel
def policies(out, ids):
    src, idx = pto.Tile("vec", "float32", 8, 8), pto.Tile("vec", "int32", 1, 8)
    pto.texpands(src, 1)
    pto.tload(idx, ids)
    pto.mscatter(out, src, idx, coalesce="row", oob="skip")


@pto.kernel
def counted(out):
    plain, other, work = (pto.Tile("vec", "int32", 1, 64) for _ in range(3))
    pto.tci(plain, 0)
    pto.tci(other, 0, tmp=work)
    pto.tadd(plain, plain, other)
    pto.tstore(out, plain)


def counting_pipes(target: str) -> tuple[str, ...]:
    """The pipes that count, without a workspace and with it."""
    report: Any = counted[1](np.zeros((1, 64), "int32"), target=target, engine="machine")
    return tuple(work.pipe for work in report.timeline.works if work.what == "tci")


def warps(target: str) -> Any:
    (work,) = [work for work in on_machine(target, ids=range(8)).traffic if work.instruction == "mscatter"]
    return work.launch.warps


def kind_of_refusal(target: str) -> set[str | None]:
    with pto.target(target), pytest.raises(pto.VerifyError) as caught:
        pto.mgather(
            pto.Tile("mat", "float32", 16, 8, blayout="col_major", slayout="row_major"),
            pto.GlobalTensor(np.zeros((1, 1, 1, 16, 8), "float32"), layout="nz"),
            pto.GlobalTensor(np.zeros((1, 16), "int32")),
        )  # fmt: skip
    return {finding.kind for finding in caught.value.findings if finding.rule == "MG-L1-21"}


def flat(target: str) -> list[float]:
    with pto.target(target), warnings.catch_warnings(action="ignore"):
        dst = tile(4, 8, value=5)
        pto.tscatter(dst, tile(1, 8, value=[[*range(1, 9)]]), tile(1, 8, "int32", [[0, 1, 2, 3, 3, 2, 1, 0]]))
        return dst.read()[0].tolist()


def wide(kind: str, index: str = "int32") -> Callable[[], object]:
    return lambda: pto.tscatter(tile(4, 8, kind), tile(1, 8, kind), tile(1, 8, index, [[*range(8)]]), index="flat")


def by_row(op: str, kind: str) -> Callable[[], object]:
    return lambda: getattr(pto, op)(
        pto.Tile("vec", kind, 4, 32), tile(4, 32, kind, 6), tile(32, 1, kind, 2, valid=(4, 1), blayout="col_major")
    )


def both(*probes: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda target: tuple(probe(target) for probe in probes)


SEEN: dict[tuple[str, str], tuple[Callable[[str], Any], Any]] = {
    (A2A3, "the mode is stated"): (accepted(scatter()), True),
    (A2A3, "the index is row-major"): (
        accepted(scatter(lambda: tile(8, 8, valid=(1, 8)),
                         lambda: tile(8, 1, "int32", 0, valid=(1, 1), blayout="col_major"),
                         coalesce="row")), False),
    (A2A3, "tables with outer dims"): (both(accepted(outer(1)), accepted(outer(0))), (True, True)),
    (A2A3, "row: a source may be narrower"): (
        accepted(scatter(lambda: tile(8, 8, valid=(8, 5)), coalesce="row")), True),
    (A2A3, "NZ tiles into NZ tables"): (accepted(nz_call), True),
    (A2A3, "atomic add for int8"): (
        both(*(accepted(typed(kind, "add")) for kind in ("int8", "int16", "bfloat16", "uint32"))),
        (True, True, True, False)),
    (A2A3, "no atomic max"): (both(*(accepted(typed("int32", op)) for op in ("max", "min"))), (False, False)),
    (A2A3, "repeated destinations"): (repeats, False),
    (A2A3, "atomic add and the policies"): (notes, False),
    (A2A3, "the index is a flat offset"): (flat, [8, 7, 6, 5, 0, 0, 0, 0]),
    (A5, "the mode is stated"): (
        both(accepted(scatter()), accepted(scatter(
            lambda: tile(1, 8), lambda: tile(8, 1, "int32", 0, valid=(1, 1), blayout="col_major")))), (True, True)),
    (A5, "source and index may be ColMajor"): (
        accepted(scatter(lambda: tile(8, 8, blayout="col_major"), coalesce="row")), True),
    (A5, "tables with outer dims"): (accepted(outer(0)), True),
    (A5, "hifloat8"): (accepted(typed("hifloat8")), True),
    (A5, "atomic add for bfloat16"): (accepted(typed("bfloat16", "add")), True),
    (A5, "atomic max and min"): (
        both(*(accepted(typed("uint32", op)) for op in ("max", "min"))), (True, True)),
    (A5, "ScatterConflict"): (repeats, False),
    (A5, "as many threads"): (warps, 2),
    (A5, "the index is a flat offset"): (flat, [8, 7, 6, 5, 0, 0, 0, 0]),
    (A5, "int64 and uint64"): (
        both(*(accepted(wide(kind)) for kind in ("int64", "uint64"))), (True, True)),
    (A5, "without a workspace"): (counting_pipes, ("AIV.S", "AIV.V")),
    (A5, "into L1"): (kind_of_refusal, {"H-09"}),
    (A5, "int8 and uint8, too"): (
        both(*(accepted(by_row("trowexpandsub", kind)) for kind in ("int8", "uint8"))), (True, True)),
    (A5, "int8, uint8 and bfloat16"): (
        both(*(accepted(by_row("trowexpanddiv", kind)) for kind in ("int8", "uint8", "bfloat16"))), (True, True, True)),
}  # fmt: skip
"""By target and the beginning of a row's text: what is seen, and what the row makes of it."""


@pytest.mark.clause("A-72")
@pytest.mark.parametrize(("target", "row"), ROWS, ids=[f"{name}-{row.text[:30]}" for name, row in ROWS])
def test_every_row_makes_its_difference(target: str, row: Difference) -> None:
    mine = {start: seen for (name, start), seen in SEEN.items() if name == target}
    ((probe, expected),) = [seen for start, seen in mine.items() if row.text.startswith(start)]
    assert probe(target) == expected
    whole = profile(target)
    others = (each for each in whole.revision.rows if each is not row)
    family = whole.family
    without = register(replace(whole, name=f"{family}@without", revision=Revision.of("", *others)))
    try:
        assert probe(without.name) != expected
    finally:
        unregister(without.name)
    assert probe(family) != expected


def test_every_revision_could_be_registered() -> None:
    for name in (A2A3, A5):
        known = profile(name)
        register(replace(known, name=f"{known.family}@again"))
        unregister(f"{known.family}@again")


def test_a_plain_target_has_the_rules_of_the_documents() -> None:
    for name in ("a2a3", "a5"):
        assert not profile(name).revision.rows and not profile(name).revision.state
        assert not accepted(scatter())(name) and repeats(name)


# --- Values, on every engine, against loops


@pto.kernel
def scattered(out, given, ids, mode: pto.const, oob: pto.const, atomic: pto.const, form: pto.const):
    options = {"nz": {"blayout": "col_major", "slayout": "row_major"}, "dn": {"blayout": "col_major"}}.get(form, {})
    src = pto.Tile("vec", given.dtype, 16, 32, valid=(given.shape[-2], given.shape[-1]), **options)
    if mode == "row":
        idx = pto.Tile("vec", "int32", 1, 16, valid=(1, ids.shape[-1]))
    else:
        of_index = options if form == "dn" else {}
        idx = pto.Tile("vec", "int32", 16, 32, valid=(ids.shape[-2], ids.shape[-1]), **of_index)
    pto.tload(src, given)
    pto.tload(idx, ids)
    pto.mscatter(out, src, idx, coalesce=mode, oob=oob, atomic=atomic)


def moved(index: int, capacity: int, oob: str) -> int | None:
    """The row or element that an index names; None if nothing is written."""
    index %= 2**32
    if oob == "wrap":
        return index % capacity
    if index >= capacity:
        return None if oob == "skip" else capacity - 1
    return index


def combined(old: Any, new: Any, atomic: str, kind: Any) -> Any:
    if atomic == "add":
        return (np.asarray(old, kind) + np.asarray(new, kind)).astype(kind)
    return {"none": new, "max": max(old, new), "min": min(old, new)}[atomic]


def by_loop(
    cells: dict[int, Any], place: Callable[[int], int], given: np.ndarray, ids: np.ndarray, capacity: int, width: int,
    mode: str, oob: str, atomic: str, order: list[tuple[int, int]],
) -> None:  # fmt: skip
    """The cells of a table as a loop writes them: `place` is where an element of the table lies."""
    for r, c in order:
        at = moved(int(ids[0, r] if mode == "row" else ids[r, c]), capacity, oob)
        if at is not None:
            cell = place(at * width + c if mode == "row" else at)
            cells[cell] = combined(cells[cell], given[r, c], atomic, given.dtype)


KINDS = {
    A2A3: [("none", "float32"), ("add", "int8"), ("add", "bfloat16")],
    A5: [("none", "int16"), ("add", "bfloat16"), ("max", "uint32")],
}
RUNS = (("skip", "reference"), ("skip", "native"), ("skip", "machine"), ("clamp", "reference"), ("wrap", "native"))


def numbers(random: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else kind
    return random.integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize(("target", "atomic", "kind"), [(t, a, k) for t, found in KINDS.items() for a, k in found])
def test_what_is_scattered(target: str, atomic: str, kind: str, mode: str) -> None:
    """With repeated indices, of which the last one wins."""
    random = np.random.default_rng(7)
    rows, cols = (9, 21) if target == A2A3 else (9, 24)
    given, start = numbers(random, (rows, cols), kind), numbers(random, (11, 24), kind)
    capacity = 11 if mode == "row" else 11 * 24
    ids = random.integers(-3, capacity + 3, (1, rows) if mode == "row" else (rows, cols)).astype("int32")
    for oob, engine in RUNS:
        cells, out = dict(enumerate(start.ravel())), start.copy()
        order = [(r, c) for r in range(rows) for c in range(cols)]
        by_loop(cells, int, given, ids, capacity, 24, mode, oob, atomic, order)
        with warnings.catch_warnings(action="ignore"):
            scattered[1](out, given, ids, mode, oob, atomic, "nd", target=target, engine=engine)
        assert out.tobytes() == np.array([*cells.values()], out.dtype).tobytes(), (oob, engine)


@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize(("atomic", "kind"), [("none", "int8"), ("add", "float16")])
def test_nz_tables_of_a2a3(mode: str, atomic: str, kind: str) -> None:
    """Table [B, BCols, BRows, 16, C0]: (r, c) lies in block column c / C0 and block row r / 16."""
    random = np.random.default_rng(8)
    c0 = 32 // np.dtype(kind).itemsize
    outer, inner = (1, 1) if c0 == 32 else (2, 16 // c0)
    width, height, rows = outer * inner * c0, 32, 13
    start, given = numbers(random, (outer, inner, 2, 16, c0), kind), numbers(random, (rows, width), kind)
    capacity = height if mode == "row" else height * width
    ids = random.integers(-3, capacity + 3, (1, rows) if mode == "row" else (rows, width)).astype("int32")
    rest = width // c0

    def place(at: int) -> int:
        r, c = divmod(at, width)
        return (((c // c0) * 2 + r // 16) * 16 + r % 16) * c0 + c % c0

    blocks = [(r, k * c0 + c) for k in range(rest) for r in range(rows) for c in range(c0)]
    order = sorted(blocks) if mode == "row" else blocks
    for oob, engine in RUNS:
        cells, out = dict(enumerate(start.ravel())), start.copy()
        by_loop(cells, place, given, ids, capacity, width, mode, oob, atomic, order)
        tiled = np.zeros((1, rest, 1, 16, c0), kind)
        for r, c in np.ndindex(rows, width):
            tiled[0, c // c0, 0, r, c % c0] = given[r, c]
        with warnings.catch_warnings(action="ignore"):
            into = pto.GlobalTensor(out, layout="nz")
            nz_scattered[1](into, pto.GlobalTensor(tiled, layout="nz"), ids, mode, oob, atomic, rows,
                            target=A2A3, engine=engine)  # fmt: skip
        assert out.tobytes() == np.array([*cells.values()], out.dtype).tobytes(), (oob, engine)


@pto.kernel
def nz_scattered(out, given, ids, mode: pto.const, oob: pto.const, atomic: pto.const, rows: pto.const):
    width = given.shape[1] * given.shape[4]
    src = pto.Tile("vec", given.dtype, 16, width, blayout="col_major", slayout="row_major")
    pto.tload(src, given)
    if mode == "row":
        src.valid = (rows, width)
        idx = pto.Tile("vec", "int32", 1, 16, valid=(1, rows))
    else:
        src.valid = (rows, width)
        idx = pto.Tile("vec", "int32", 16, width, valid=(rows, width))
    pto.tload(idx, ids)
    pto.mscatter(out, src, idx, coalesce=mode, oob=oob, atomic=atomic)


# --- Every surface: text, C++ in and out, pages

CPP = """
#include <pto/pto-inst.hpp>
using namespace pto;
template <typename T, int R, int C> using Matrix = GlobalTensor<T, Shape<1, 1, 1, R, C>, Stride<1, 1, 1, C, 1>>;
template <ScatterAtomicOp ATOMIC>
AICORE inline void scattered(__gm__ float *out, __gm__ float *given, __gm__ int32_t *ids)
{
    Tile<TileType::Vec, float, 8, 8> src;
    Tile<TileType::Vec, int32_t, 1, 8> idx;
    TASSIGN(src, 0x0);
    TASSIGN(idx, 0x200);
    Matrix<float, 64, 8> into(out);
    Matrix<float, 8, 8> from(given);
    Matrix<int32_t, 1, 8> numbers(ids);
    TLOAD(src, from);
    TLOAD(idx, numbers);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    MSCATTER<Coalesce::Row, ATOMIC>(into, src, idx);
}
"""
ENTRY = """\
extern "C" __global__ AICORE void k_{0}(__gm__ float *out, __gm__ float *given, __gm__ int32_t *ids)
{{
    scattered<ScatterAtomicOp::{0}>(out, given, ids);
}}
"""
ATOMICS = {"None": {"a2a3", "a5", A2A3, A5}, "Max": {"a5", A5}, "Add": {"a2a3", "a5", A2A3, A5}}
"""Where each is accepted."""


@pytest.mark.parametrize("target", ["a2a3", "a5", A2A3, A5])
def test_cpp_is_checked(tmp_path: Path, target: str) -> None:
    source = tmp_path / "k.cpp"
    source.write_text(CPP + "".join(map(ENTRY.format, ATOMICS)), encoding="utf-8")
    for atomic, accepting in ATOMICS.items():
        result = ptokit_("check", source, "--target", target, "--entry", f"k_{atomic}")
        assert result.exit_code == (target not in accepting), (atomic, result.output)
        assert f"{target}: {'accepted' if target in accepting else 'refused'}" in result.stdout or result.exit_code == 1


def program_of(kernel: Any, target: str) -> Any:
    given = (np.zeros((64, 8), "float32"), np.zeros((1, 8), "int32"))
    return kernel.trace(kernel.bind(given, {}), mode_of(target)).program


@pto.kernel
def undecided(out, ids):
    src, idx = pto.Tile("vec", "float32", 8, 8), pto.Tile("vec", "int32", 1, 8)
    pto.texpands(src, 1)
    pto.tload(idx, ids)
    pto.mscatter(out, src, idx, coalesce="row", conflict="default")


def test_cpp_states_what_is_not_the_default_of_the_headers() -> None:
    """The default of A5's header is Last; A2/A3 has no such parameter."""
    written = {target: emit(program_of(repeated, target), profile(target)) for target in ("a5", A5, A2A3)}
    assert "ScatterConflict::Default>(" in written["a5"]
    assert "MSCATTER<Coalesce::Row>(" in written[A5] and "MSCATTER<Coalesce::Row>(" in written[A2A3]
    assert "ScatterConflict::Default>(" in emit(program_of(undecided, A5), profile(A5))


def test_what_is_stated_stays_in_text() -> None:
    """An argument that is no revision's default is written, though it is the default of the plain targets, and read."""
    for kernel, words in ((repeated, 0), (undecided, 1)):
        text = print_program(program_of(kernel, A5), "l2")
        assert text.count("scatter_conflict default") == words
        again = emit(read_program(text), profile(A5))
        assert ("ScatterConflict::Default>(" in again) == bool(words)


def test_pages_and_targets() -> None:
    shown = " ".join(fine("targets").split())
    assert "2026-08-21" in shown and "3186c381" in shown
    for target, row in ROWS:
        page = " ".join(fine("explain", row.instruction, "--target", target).split())
        assert f"Differences from {profile(target).family}" in page
    found = json.loads(fine("explain", "mscatter", "--target", A5, "--json"))["differences"]
    rows = profile(A5).revision.rows
    assert found == {A5: [{"text": r.text, "source": r.source} for r in rows if r.instruction == "mscatter"]}
    assert "Differences" not in fine("explain", "mscatter", "--target", "a5")
