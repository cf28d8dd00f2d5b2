"""The levels of the hazards, their reporters and the assertions of the real headers, as separate tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import ptokit as pto
from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Call
from ptokit.isa.operand import TensorSpec, TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.unknown import Unknown
from ptokit.program.verify_call import check_rules


def vec(dtype: str, rows: int, cols: int, **options: object) -> pto.Tile:
    return pto.Tile("vec", dtype, rows, cols, **options).write(0)


def gm(*shape: int, dtype: str = "float32", **options: object) -> pto.GlobalTensor:
    return pto.GlobalTensor(np.zeros(shape, dtype), **options)


def nz_mat(rows: int = 16, cols: int = 16, **options: object) -> pto.Tile:
    return pto.Tile("mat", "float32", rows, cols, blayout="col_major", slayout="row_major", **options)


def row(dst: pto.Tile, table: pto.GlobalTensor, idx: pto.Tile | None = None, **options: object) -> None:
    rows = vec("int32", 1, 8, valid=(1, dst.valid[0])) if idx is None else idx
    pto.mgather(dst, table, rows, **options)


def padded(rows: int, width: int, pitch: int) -> pto.GlobalTensor:
    return pto.GlobalTensor(np.zeros((rows, pitch), "float32")[:, :width])


CALLS: dict[str, tuple[Callable[[], object], dict[str, tuple[str, str | None]]]] = {
    "NZ table": (lambda: row(vec("float32", 2, 8), gm(1, 1, 1, 16, 8, layout="nz")), {"a5": ("MG-LAY-15", "H-02")}),
    "row width": (lambda: row(vec("float32", 2, 8), gm(4, 16)), {"a5": ("MG-SHAPE-05", "H-03")}),
    "padded rows": (
        lambda: row(vec("float32", 2, 8), padded(4, 8, 16)),
        {"cpu": ("MG-HAZ-08", "H-04"), "a5": ("A-09", "H-04"), "a2a3": ("note A-09", "H-04")},
    ),
    "padded rows, closely": (lambda: row(vec("float32", 2, 8), padded(4, 8, 16)), {"a5": ("A-68", "H-46")}),
    "outer dims": (
        lambda: row(vec("float32", 2, 8), gm(2, 3, 8)),
        {"cpu": ("MG-SHAPE-03", "H-05"), "a5": ("hazard MG-HAZ-09", "H-05"), "a2a3": ("", None)},
    ),
    "unpacked elements, gather": (
        lambda: pto.mgather(vec("float32", 2, 8), padded(4, 8, 16), vec("int32", 2, 8), coalesce="elem"),
        {"cpu": ("hazard A-10", "H-06"), "a2a3": ("hazard A-10", "H-06"), "a5": ("hazard A-10", "H-06")},
    ),
    "unpacked elements, scatter": (
        lambda: pto.mscatter(padded(4, 8, 16), vec("float32", 2, 8), vec("int32", 2, 8)),
        {"cpu": ("A-10", "H-06"), "a2a3": ("A-10", "H-06"), "a5": ("A-10", "H-06")},
    ),
    "too wide": (
        lambda: row(vec("float32", 2, 16), gm(4, 8)),
        {"cpu": ("A-57", "H-07"), "a2a3": ("A-57", "H-07"), "a5": ("A-57", "H-07")},
    ),
    "index type": (
        lambda: row(vec("float32", 2, 8), gm(4, 8), vec("int16", 1, 16, valid=(1, 2))),
        dict.fromkeys(("cpu", "a2a3", "a5"), ("MG-TYPE-05", "H-08")),
    ),
    "data types": (
        lambda: row(vec("int32", 2, 8), gm(4, 8)),
        {"cpu": ("MG-HAZ-03", "H-08"), "a2a3": ("MG-TYPE-06", "H-08"), "a5": ("MG-TYPE-06", "H-08")},
    ),
    "32 bytes": (
        lambda: row(vec("float32", 2, 4), gm(4, 4)),
        {"cpu": ("MG-ALIGN-01", "H-09"), "a2a3": ("MG-ALIGN-02", "H-09"), "a5": ("MG-ALIGN-03", "H-09")},
    ),
    "dynamic index": (
        lambda: row(vec("float32", 2, 8), gm(4, 8), vec("int32", 1, 8, valid=(1, pto.dyn(3)))),
        {"a2a3": ("MG-MODE-03", "H-27"), "a5": ("MG-MODE-05", "H-27")},
    ),
    "scattered index": (
        lambda: row(vec("float32", 2, 8), gm(4, 8), vec("int32", 2, 8, valid=(2, 1))),
        {"a5": ("MG-HAZ-11", "H-28"), "cpu": ("note MG-LAY-04", "H-28"), "a2a3": ("MG-MODE-03", "H-09")},
    ),
    "row-major standing index": (
        lambda: row(vec("float32", 8, 8), gm(4, 8), vec("int32", 8, 1)),
        {"cpu": ("note MG-LAY-04", None), "a5": ("note MG-LAY-13", None), "a2a3": ("MG-MODE-03", "H-09")},
    ),
    "standing index": (
        lambda: row(vec("float32", 8, 8), gm(4, 8), vec("int32", 8, 1, blayout="col_major")),
        {"cpu": ("note A-03", "H-29"), "a5": ("note A-03", "H-29"), "a2a3": ("MG-LAY-06", "H-09")},
    ),
    "NZ pair": (
        lambda: row(
            vec("float32", 16, 8, blayout="col_major", slayout="row_major"),
            gm(1, 1, 1, 16, 8, layout="nz"),
            vec("int32", 1, 16),
        ),
        {"a2a3": ("note CO-HAZ-02", "H-30"), "a5": ("MG-NZ-13", "H-09")},
    ),
    "small scratch": (
        lambda: pto.mgather(nz_mat(), gm(8), gm(16, 16, dtype="int32"), scratch=gm(255)),
        {"a2a3": ("MG-L1-07", "H-31"), "a5": ("MG-L1-07", "H-31")},
    ),
    "narrow NZ tile": (
        lambda: row(
            vec("float32", 16, 8, blayout="col_major", slayout="row_major"),
            gm(1, 2, 1, 16, 8, layout="nz"),
            vec("int32", 1, 16),
        ),
        {"a2a3": ("A-47", "H-37")},
    ),
    "overlap": (
        lambda: row(vec("float32", 2, 8, addr=0), gm(4, 8), vec("int32", 1, 8, valid=(1, 2), addr=32)),
        dict.fromkeys(("cpu", "a2a3", "a5"), ("A-38", "H-38")),
    ),
    "policy by number": (
        lambda: row(vec("float32", 2, 8), gm(4, 8), oob=1),
        dict.fromkeys(("cpu", "a2a3", "a5"), ("A-30", "H-39")),
    ),
    "row by default": (
        lambda: row(vec("float32", 16, 16), gm(4, 16), vec("int32", 16, 16)),
        {"cpu": ("MG-MODE-06", "H-40"), "a2a3": ("MG-MODE-03", "H-40"), "a5": ("MG-MODE-05", "H-40")},
    ),
    "nothing valid": (
        lambda: row(pto.Tile("vec", "float32", 2, 8, valid=(2, 0)), gm(4, 8)),
        {"cpu": ("A-55", "H-43"), "a2a3": ("MG-SHAPE-04", "H-43"), "a5": ("MG-SHAPE-04", "H-43")},
    ),
    "empty table": (
        lambda: row(vec("float32", 2, 8), gm(0, 8)),
        dict.fromkeys(("cpu", "a2a3", "a5"), ("A-13", "H-43")),
    ),
    "8-bit floats": (
        lambda: row(pto.Tile("vec", "float8_e5m2", 2, 32), gm(4, 32, dtype="uint8", layout="nd")),
        {"cpu": ("MG-TYPE-02", "H-44"), "a2a3": ("MG-TYPE-03", "H-44")},
    ),
    "element index shape": (
        lambda: pto.mgather(vec("float32", 2, 8), gm(64), vec("int32", 2, 8, valid=(2, 7)), coalesce="elem"),
        {"cpu": ("A-71", "H-45"), "a2a3": ("MG-MODE-04", "H-45"), "a5": ("MG-MODE-04", "H-45")},
    ),
    "192 KB": (
        lambda: row(vec("float32", 400, 128), gm(8, 128), vec("int32", 1, 400)),
        {"a2a3": ("MG-BUDG-02", "H-22"), "cpu": ("", None), "a5": ("", None)},
    ),
    "216 KB": (lambda: row(vec("float32", 440, 128), gm(8, 128), vec("int32", 1, 440)), {"a5": ("MG-BUDG-13", "H-21")}),
    "outside, gather": (
        lambda: row(vec("float32", 1, 8), gm(4, 8), vec("int32", 1, 8, valid=(1, 1)).write(4)),
        dict.fromkeys(("cpu", "a2a3", "a5"), ("MG-OOB-04", "H-10")),
    ),
    "outside, scatter": (
        lambda: pto.mscatter(gm(4, 8), vec("float32", 1, 8), vec("int32", 1, 1).write(4)),
        {"cpu": ("MS-OOB-06", "H-11"), "a2a3": ("A-18", "H-11"), "a5": ("MS-OOB-02", "H-11")},
    ),
    "outside the tile": (
        lambda: pto.tscatter(vec("int32", 4, 8), vec("int32", 1, 8), vec("int32", 1, 8).write(4)),
        dict.fromkeys(("cpu", "a2a3", "a5"), ("TS-HAZ-01", "H-12")),
    ),
    "in the padding": (
        lambda: pto.tscatter(vec("int32", 4, 8, valid=(2, 8)), vec("int32", 1, 8), vec("int32", 1, 8).write(3)),
        dict.fromkeys(("cpu", "a2a3", "a5"), ("hazard TS-HAZ-01", "H-12")),
    ),
    "negative": (
        lambda: row(vec("float32", 1, 8), gm(4, 8), vec("int32", 1, 8, valid=(1, 1)).write(-1), oob="wrap"),
        dict.fromkeys(("cpu", "a2a3", "a5"), ("hazard MG-HAZ-12", "H-13")),
    ),
    "float add": (
        lambda: pto.mscatter(gm(4, 8), vec("float32", 1, 8), vec("int32", 1, 1), atomic="add"),
        {"a5": ("note MS-HAZ-04", "H-18"), "a2a3": ("note A-18", None)},
    ),
    "[N, 1] index": (
        lambda: pto.mscatter(gm(4, 8), vec("float32", 1, 8), vec("int32", 1, 1)),
        {"cpu": ("note A-17", "H-19")},
    ),
}
VERDICTS = [(name, target, *verdict) for name, (_, table) in CALLS.items() for target, verdict in table.items()]


def findings_of(call: Callable[[], object], target: str, **options: object) -> list[pto.Finding]:
    with pto.target(target, **options) as here, warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.HazardWarning)
        try:
            call()
        except (pto.VerifyError, pto.OutOfBoundsError) as stop:
            return list(stop.findings)
        return list(here.findings)


@pytest.mark.parametrize(("name", "target", "rule", "kind"), VERDICTS, ids=[f"{v[0]} on {v[1]}" for v in VERDICTS])
def test_level_rule_and_number(name: str, target: str, rule: str, kind: str | None) -> None:
    found = {(f.level, f.rule, f.kind) for f in findings_of(CALLS[name][0], target)}
    if not rule:
        assert found == set()
        return
    level, _, clause = rule.rpartition(" ")
    assert (level or "error", clause, kind) in found


@pytest.mark.parametrize(("dyn_ub", "expected"), [(0, "H-20"), (1000, "H-21"), (150_000, None), (222_000, "H-21")])
def test_dynamic_ub_is_judged_where_it_is_asked_for(dyn_ub: int, expected: str | None) -> None:
    def big() -> object:  # 144,480 bytes
        return row(vec("float32", 280, 128, addr=1120), gm(8, 128), vec("int32", 1, 280, addr=0))

    kinds = {f.kind for f in findings_of(big, "a5", dyn_ub=dyn_ub)}
    assert kinds == ({expected} if expected else set())
    assert findings_of(big, "a5") == []


@pytest.mark.parametrize(("dyn_ub", "expected"), [(0, "H-20"), (1, None), (76_704, None), (76_705, "H-21")])
def test_tiles_without_an_address_are_static(dyn_ub: int, expected: str | None) -> None:
    """MG-BUDG-07: at most 216 KB less the static part; 221,184 - 144,480 = 76,704."""

    def big() -> object:
        return row(vec("float32", 280, 128), gm(8, 128), vec("int32", 1, 280))

    kinds = {f.kind for f in findings_of(big, "a5", dyn_ub=dyn_ub)}
    assert kinds == ({expected} if expected else set())
    assert findings_of(big, "a5") == []


@pytest.mark.parametrize("name", ["overlap", "216 KB"])
def test_headers_know_nothing_of_addresses_and_budgets(name: str) -> None:
    found = findings_of(CALLS[name][0], "a5", header=True)
    assert {f.level for f in found} - {"note"} == {"hazard"}


@pytest.mark.parametrize("place", ["src", "idx"])
def test_the_cpu_header_does_not_look_at_locations(place: str) -> None:
    table, mat = np.zeros((4, 8), "float32"), {"loc": "mat"}
    src = pto.Tile(**({"loc": "vec"} | (mat if place == "src" else {})), dtype="float32", rows=2, cols=8).write(1)
    idx = pto.Tile(**({"loc": "vec"} | (mat if place == "idx" else {})), dtype="int32", rows=2, cols=1).write(
        [[3], [0]]
    )
    call = lambda: pto.mscatter(pto.GlobalTensor(table), src, idx)  # noqa: E731
    assert {f.level for f in findings_of(call, "cpu")} == {"error"}
    assert "error" not in {f.level for f in findings_of(call, "cpu", header=True)}
    assert table[:, 0].tolist() == [1, 0, 0, 1]


def header_expected(name: str, clause: spec.Clause) -> set[str]:
    """Decisions, "What the real headers assert"."""
    if name == "MG-TYPE-07":
        return {"cpu"}
    if clause.kind != "reject":
        return set()
    families: set[str] = set()
    if name.startswith("MG-"):
        families = {"a2a3", "a5"} & set(clause.targets)
    if name.startswith("MS-"):
        families = {"a5"} & set(clause.targets)
    if name in ("MG-LAY-15", "MG-ALIGN-03"):
        families -= {"a5"}
    if name.startswith(("TS-TYPE", "TS-LOC", "TS-SHAPE")):
        families = {"cpu", "a2a3", "a5"}
    return families


def test_the_header_column_is_what_was_decided() -> None:
    for name, clause in spec.clauses().items():
        if name.startswith(("MG-", "MS-", "TS-")):
            assert set(clause.header) == header_expected(name, clause), name


def test_decisions_of_our_own_are_in_no_header() -> None:
    for instruction in INSTRUCTIONS.values():
        for rule in instruction.rules:
            if rule.id.startswith("A-"):
                assert spec.header(rule.id) == ()


@pytest.mark.clause("CO-DYN-03")
def test_a_rule_waits_for_an_extent_that_is_not_known_yet() -> None:
    """The rules that compare an unknown extent report nothing until it has a value."""
    mgather, f32, i32 = INSTRUCTIONS["mgather"], pto.dtype("float32"), pto.dtype("int32")
    table = TensorSpec(f32, (1, 1, 1, 4, 8), (32, 32, 32, 8, 1))
    for rows, refused in ((Unknown(), False), (3, True), (2, False)):
        dst = TileSpec(f32, TileType.Vec, 2, 8, 2, 8)
        idx = TileSpec(i32, TileType.Vec, 1, 8, 1, rows, dynamic=(False, True))
        call = Call(mgather, {"dst": dst, "table": table, "idx": idx, "scratch": None},
                    (None, None, None), "a2a3")  # fmt: skip
        assert bool(check_rules(mgather.rules, call, header=False)) is refused
