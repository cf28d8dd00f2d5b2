"""Every element type with every operation on every target, against tables written from the documents.

The tables here share nothing with the implementation. Each cell is one call: accepted, or refused by the named rule.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.target import profile
from ptokit.text.cpp import emit
from tests.text.test_cpp import traced

BASE = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32"]  # CO-TYPE-02
FLOAT8 = ["float8_e4m3", "float8_e5m2"]
OTHERS = ["int64", "uint64", "float64", "bool"]  # CO-TYPE-03
TYPES = [*BASE, *FLOAT8, "hifloat8", *OTHERS]
BYTES = {
    **dict.fromkeys(["int8", "uint8", *FLOAT8, "hifloat8", "bool"], 1),  # CO-TYPE-01
    **dict.fromkeys(["int16", "uint16", "float16", "bfloat16"], 2),
    **dict.fromkeys(["int32", "uint32", "float32"], 4),
    **dict.fromkeys(["int64", "uint64", "float64"], 8),
}
TARGETS = ["cpu", "cpu@aicore", "a2a3", "a5"]

GATHER = {
    "cpu": BASE,  # MG-TYPE-01
    "cpu@aicore": [*BASE, *FLOAT8],  # MG-TYPE-02
    "a2a3": BASE,  # MG-TYPE-03
    "a5": [*BASE, *FLOAT8, "hifloat8"],  # MG-TYPE-04
}
INTO_L1 = {"a2a3": BASE, "a5": [*BASE, *FLOAT8, "hifloat8"]}  # MG-L1-17, MG-L1-18
SCATTER = {
    "cpu": BASE,  # MS-TYPE-01
    "cpu@aicore": [*BASE, *FLOAT8],
    "a2a3": BASE,
    "a5": [*BASE, *FLOAT8],  # MS-TYPE-02, MS-TYPE-04
}
ATOMICS = {
    "add": ("MS-ATOM-05", ["int32", "uint32", "float16", "float32"]),
    "max": ("MS-ATOM-06", ["int32", "float32"]),
    "min": ("MS-ATOM-07", ["int32", "float32"]),
}
"""The rule, and the types that an atomic takes: the same on every target."""
HEADERS = {
    ("a2a3", "add"): ["int8", "int16", "int32", "float16", "bfloat16", "float32"],
    ("a2a3", "max"): [],
    ("a2a3", "min"): [],
    ("a5", "add"): ["int32", "uint32", "float16", "bfloat16", "float32"],
    ("a5", "max"): ["int32", "uint32", "float32"],
    ("a5", "min"): ["int32", "uint32", "float32"],
}
"""The types that the published headers take for an atomic scatter; C++ is emitted for what both have."""
PAIRS = {4: ["int32", "uint32"], 2: ["int16", "uint16"], 1: ["int16", "uint16"]}
"""Index types of `tscatter` by the bytes of the data (TS-TYPE-05 to -08)."""


def stored(kind: str) -> Any:
    """The NumPy type that holds an element."""
    return getattr(ml_dtypes, {"float8_e4m3": "float8_e4m3fn"}.get(kind, kind), None) or {"hifloat8": "uint8"}.get(
        kind, kind
    )


def array(kind: str, *shape: int) -> Any:
    return np.zeros(shape, stored(kind))


def tensor(kind: str, *shape: int) -> pto.GlobalTensor:
    named = {"dtype": "hifloat8"} if kind == "hifloat8" else {}
    return pto.GlobalTensor(array(kind, *shape), **named)


def zeroed(kind: str, rows: int, cols: int, **options: Any) -> pto.Tile:
    tile = pto.Tile("vec", kind, rows, cols, **options)
    tile.buffer.view(np.uint8)[:] = 0
    return tile


def nz_tile(kind: str) -> pto.Tile:
    return pto.Tile("mat", kind, 16, 32, blayout="col_major", slayout="row_major")


def refusals(target: str, call: Any) -> set[str]:
    """The rules that refuse a call; none where it runs."""
    with pto.target(target):
        try:
            call()
        except pto.VerifyError as refused:
            return {finding.rule for finding in refused.findings if finding.level == "error"}
    return set()


def judge(found: set[str], is_legal: bool, what: str) -> None:
    assert (found == set()) == is_legal, f"{what}: {'refused by ' + str(found) if found else 'accepted'}"


@pytest.mark.clause("CO-TYPE-02", "CO-TYPE-03", "MG-TYPE-01", "MG-TYPE-02", "MG-TYPE-03", "MG-TYPE-04", "A-21")
@pytest.mark.parametrize(("target", "mode"), list(product(TARGETS, ["row", "elem"])))
def test_data_types_of_a_gather_into_ub(target: str, mode: str) -> None:
    for kind in TYPES:
        index = (1, 8) if mode == "row" else (8, 32)
        found = refusals(
            target,
            lambda kind=kind, index=index: pto.mgather(
                zeroed(kind, 8, 32), tensor(kind, 4, 32), zeroed("int32", *index), coalesce=mode
            ),
        )
        judge(found, kind in GATHER[target], f"{mode} gather of {kind} on {target}")


@pytest.mark.parametrize("target", TARGETS)
def test_pages_list_the_types_of_gathers_and_scatters(target: str) -> None:
    for name, table in (("mgather", GATHER), ("mscatter", SCATTER)):
        types = INSTRUCTIONS[name].pages.types
        assert types is not None
        assert {str(kind) for kind in types.get(target)} == set(table[target])


@pytest.mark.clause("MG-L1-17", "MG-L1-18", "MG-L1-19", "MG-L1-20", "MG-SIMT-15", "MG-SIMT-23", "A-49")
@pytest.mark.parametrize(("target", "how"), list(product(["a2a3", "a5"], ["row", "elem", "scalar", "simt"])))
def test_data_types_of_a_gather_into_l1(target: str, how: str) -> None:
    for kind in TYPES:
        words = {} if how in ("row", "elem") else {"executor": how}
        index = tensor("int32", 16) if how == "row" else tensor("int32", 16, 32)
        more = {} if how == "row" else {"scratch": tensor(kind, 512)}
        found = refusals(
            target,
            lambda kind=kind, index=index, more=more, words=words: pto.mgather(
                nz_tile(kind), tensor(kind, 4, 32), index, **more, **words
            ),
        )
        legal = kind in INTO_L1[target] and (how != "simt" or target == "a5")
        judge(found, legal, f"{how} gather of {kind} into L1 on {target}")
        if how == "row" and BYTES[kind] == 8:
            assert "MG-L1-19" in found


@pytest.mark.clause("MG-TYPE-05", "MS-TYPE-05", "MG-L1-03")
@pytest.mark.parametrize("target", TARGETS)
def test_index_types_are_int32_and_uint32(target: str) -> None:
    for kind in TYPES:
        legal = kind in ("int32", "uint32")
        rows, elems = zeroed(kind, 1, 32, valid=(1, 8)), zeroed(kind, 8, 32)
        table, data = tensor("float32", 4, 32), zeroed("float32", 8, 32)
        calls = {
            "gather of rows": ("MG-TYPE-05", lambda: pto.mgather(data, table, rows)),  # noqa: B023
            "gather of elements": ("MG-TYPE-05", lambda: pto.mgather(data, table, elems, coalesce="elem")),  # noqa: B023
            "scatter of rows": ("MS-TYPE-05", lambda: pto.mscatter(table, data, rows, coalesce="row")),  # noqa: B023
            "scatter of elements": ("MS-TYPE-05", lambda: pto.mscatter(table, data, elems)),  # noqa: B023
        }
        if target in INTO_L1:
            index = tensor(kind, 16)
            into = nz_tile("float32")
            calls["gather into L1"] = ("MG-L1-03", lambda: pto.mgather(into, table, index))  # noqa: B023
        for what, (rule, call) in calls.items():
            found = refusals(target, call)
            judge(found, legal, f"{what} by {kind} on {target}")
            assert legal or rule in found, (what, kind, found)


@pytest.mark.clause("MS-TYPE-01", "MS-TYPE-02", "MS-TYPE-03", "MS-TYPE-04", "MS-ATOM-04", "A-20", "A-21")
@pytest.mark.parametrize(("target", "mode"), list(product(TARGETS, ["row", "elem"])))
def test_data_types_of_a_plain_scatter(target: str, mode: str) -> None:
    for kind in TYPES:
        judge(scattered(target, kind, mode, "none"), kind in SCATTER[target], f"{mode} scatter of {kind} on {target}")


@pytest.mark.clause("MS-ATOM-05", "MS-ATOM-06", "MS-ATOM-07")
@pytest.mark.parametrize(("target", "atomic", "mode"), list(product(TARGETS, ATOMICS, ["row", "elem"])))
def test_data_types_of_an_atomic_scatter(target: str, atomic: str, mode: str) -> None:
    rule, types = ATOMICS[atomic]
    for kind in TYPES:
        shipped = HEADERS.get((target, atomic), types)
        warned = pytest.warns(pto.HazardWarning, match="the shipping header refuses it")
        with warned if kind in types and kind not in shipped else nullcontext():
            found = scattered(target, kind, mode, atomic)
        judge(found, kind in types, f"{mode} {atomic} of {kind} on {target}")
        if kind in SCATTER[target] and kind not in types:
            assert found == {rule}, (kind, found)


def scattered(target: str, kind: str, mode: str, atomic: str) -> set[str]:
    """The rules that refuse a scatter of one row, or of its elements."""
    index = (1, 8) if mode == "row" else (1, 32)
    valid = (1, 1) if mode == "row" else None
    return refusals(
        target,
        lambda: pto.mscatter(
            tensor(kind, 4, 32), zeroed(kind, 1, 32), zeroed("int32", *index, valid=valid), coalesce=mode, atomic=atomic
        ),
    )


@pytest.mark.clause("MS-ATOM-05", "MS-ATOM-06", "MS-ATOM-07")
@pytest.mark.parametrize(("target", "atomic"), list(HEADERS))
def test_atomic_scatters_are_emitted_for_what_documents_and_headers_both_have(target: str, atomic: str) -> None:
    rule, documented = ATOMICS[atomic]
    for kind in documented:
        body = (
            f"t = pto.Tile('vec', '{kind}', 8, 64)\ni = pto.Tile('vec', 'int32', 8, 64)\n"
            f"pto.tload(t, x)\npto.tload(i, idx)\npto.mscatter(x, t, i, atomic='{atomic}')"
        )
        program = traced(body, target, x=array(kind, 8, 64), idx=array("int32", 8, 64))
        found = refusals(target, lambda program=program: emit(program, profile(target)))
        assert found == (set() if kind in HEADERS[target, atomic] else {rule}), (kind, found)


@pytest.mark.clause("TS-TYPE-01", "TS-TYPE-02", "TS-TYPE-03", "TS-TYPE-05", "TS-TYPE-06", "TS-TYPE-07", "TS-TYPE-08")
@pytest.mark.parametrize(("target", "reading"), list(product(TARGETS, ["row", "flat"])))
def test_data_and_index_types_of_a_scatter_between_tiles(target: str, reading: str) -> None:
    for kind, by in product(TYPES, TYPES):
        found = refusals(
            target,
            lambda kind=kind, by=by: pto.tscatter(
                zeroed(kind, 8, 32), zeroed(kind, 8, 32), zeroed(by, 8, 32), index=reading
            ),
        )
        judge(found, kind in BASE and by in PAIRS[BYTES[kind]], f"{reading} scatter of {kind} by {by} on {target}")


@pytest.mark.clause("MG-TYPE-06", "MS-TYPE-06", "TS-TYPE-04", "MG-L1-21")
@pytest.mark.parametrize("target", TARGETS)
def test_data_and_table_are_of_one_type(target: str) -> None:
    for one, other in product(BASE, BASE):
        row, column = zeroed("int32", 1, 8), zeroed("int32" if BYTES[one] == 4 else "int16", 8, 32)
        data, table, same = zeroed(one, 8, 32), tensor(other, 8, 32), one == other
        judge(refusals(target, lambda: pto.mgather(data, table, row)), same, f"{other} into {one}")  # noqa: B023
        found = refusals(target, lambda: pto.mscatter(table, data, row, coalesce="row"))  # noqa: B023
        judge(found, same, f"{one} into {other}")
        found = refusals(target, lambda: pto.tscatter(data, zeroed(other, 8, 32), column))  # noqa: B023
        judge(found, same, f"tile of {other} into {one}")
        if target in INTO_L1:
            l1, idx = nz_tile(one), tensor("int32", 16)
            judge(refusals(target, lambda: pto.mgather(l1, table, idx)), same, f"{other} into L1")  # noqa: B023


@pytest.mark.clause("CO-TYPE-01")
def test_widths_of_element_types() -> None:
    for kind in (*BASE, *FLOAT8, "hifloat8"):
        assert pto.dtype(kind).size == BYTES[kind]
        assert pto.dtype(kind).c0 * BYTES[kind] == 32


@pytest.mark.parametrize("atomic", ATOMICS)
def test_the_host_combines_every_arithmetic_type(atomic: str) -> None:
    for kind in (*BASE, "int64", "uint64", "float64"):
        table, src = array(kind, 4, 8), np.ones((2, 8), stored(kind))
        pto.scatter(table, src, np.array([3, 0], "int32"), atomic=atomic)
        expected = {"add": 1, "max": 1, "min": 0}[atomic]
        assert table[:, 0].astype("float64").tolist() == [expected, 0, 0, expected], kind
