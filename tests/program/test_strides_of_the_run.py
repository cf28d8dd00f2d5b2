"""Strides known at run time: violations are refused at run time, not before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.loaded import from_text

HEAD = """
func.func @k(%table: !pto.ptr<f32>, %ids: !pto.ptr<i32>, %out: !pto.ptr<f32>, %ld: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c128 = arith.constant 128 : index
  %view = pto.make_tensor_view %table, shape = [%c8, %c16], strides = [%ld, %c1] : !pto.tensor_view<?x?xf32>
  %t = pto.partition_view %view, offsets = [%c0, %c0], sizes = [%c8, %c16]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x16xf32>
  %flat = pto.make_tensor_view %out, shape = [%c8, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
  %o = pto.partition_view %flat, offsets = [%c0, %c0], sizes = [%c8, %c16]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x16xf32>
  %all = pto.make_tensor_view %ids, shape = [%c8, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xi32>
  %elems = pto.partition_view %all, offsets = [%c0, %c0], sizes = [%c8, %c16]
    : !pto.tensor_view<?x?xi32> -> !pto.partition_tensor_view<8x16xi32>
  %rows = pto.partition_view %all, offsets = [%c0, %c0], sizes = [%c1, %c8]
    : !pto.tensor_view<?x?xi32> -> !pto.partition_tensor_view<1x8xi32>
  %data = pto.alloc_tile : !pto.tile_buf<vec, 8x16xf32>
  %ei = pto.alloc_tile : !pto.tile_buf<vec, 8x16xi32>
  %ri = pto.alloc_tile : !pto.tile_buf<vec, 1x8xi32>
  pto.tload ins(%elems : !pto.partition_tensor_view<8x16xi32>) outs(%ei : !pto.tile_buf<vec, 8x16xi32>)
  pto.tload ins(%rows : !pto.partition_tensor_view<1x8xi32>) outs(%ri : !pto.tile_buf<vec, 1x8xi32>)
"""
V, D = "!pto.partition_tensor_view<8x16xf32>", "!pto.tile_buf<vec, 8x16xf32>"
E, R = "!pto.tile_buf<vec, 8x16xi32>", "!pto.tile_buf<vec, 1x8xi32>"
FROM_OUT, TO_OUT = f"pto.tload ins(%o : {V}) outs(%data : {D})", f"pto.tstore ins(%data : {D}) outs(%o : {V})"
BODIES = {
    "tload": f"pto.tload ins(%t : {V}) outs(%data : {D})\n{TO_OUT}",
    "tstore": f"{FROM_OUT}\npto.tstore ins(%data : {D}) outs(%t : {V})",
    "mgather row": f"pto.mgather ins(%t, %ri : {V}, {R}) outs(%data : {D}) {{coalesce = #pto<coalesce row>}}\n{TO_OUT}",
    "mgather elem": (
        f"pto.mgather ins(%t, %ei : {V}, {E}) outs(%data : {D}) {{coalesce = #pto<coalesce elem>}}\n{TO_OUT}"
    ),
    "mscatter row": (
        f"{FROM_OUT}\npto.mscatter ins(%data, %ri : {D}, {R}) outs(%t : {V}) {{coalesce = #pto<coalesce row>}}"
    ),
    "mscatter elem": (
        f"{FROM_OUT}\npto.mscatter ins(%data, %ei : {D}, {E}) outs(%t : {V}) {{coalesce = #pto<coalesce elem>}}"
    ),
}


def kernel(what: str) -> Any:
    return from_text(f"{HEAD}\n{BODIES[what]}\nreturn\n}}")


def arrays(what: str, ld: int) -> dict[str, Any]:
    ids = np.arange(128, dtype="int32") if what.endswith("elem") else np.arange(128, dtype="int32") % 8
    size = max(8 * ld, 128)
    numbers = np.arange(1, size + 129, dtype="float32")
    return {"table": numbers[:size].copy(), "ids": ids, "out": numbers[-128:].copy(), "ld": ld}


@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_nothing_is_refused_before_the_run(what: str, target: str) -> None:
    given = arrays(what, 16)
    loaded = kernel(what)
    report = pto.check(loaded, *[given[name] for name in ("table", "ids", "out", "ld")], target=target)
    assert not [finding for finding in report.findings if finding.level != "note"]
    loaded[1](**given, target=target)
    assert np.array_equal(given["table"], given["out"])


@pytest.mark.parametrize(
    ("what", "target", "ld", "rule"),
    [
        ("tstore", "cpu", 8, "CO-SEM-01"),
        ("mgather row", "cpu", 24, "MG-HAZ-08"),
        ("mgather row", "a5", 24, "A-09"),
        ("mscatter row", "cpu", 8, "CO-SEM-01"),
        ("mscatter row", "a5", 24, "A-68"),
        ("mscatter elem", "cpu", 24, "A-10"),
        ("mscatter elem", "a2a3", 24, "A-10"),
    ],
)
def test_the_run_refuses_what_its_strides_break(what: str, target: str, ld: int, rule: str) -> None:
    given = arrays(what, ld)
    before = given["table"].copy(), given["out"].copy()
    with pytest.raises(pto.VerifyError) as refusal:
        kernel(what)[1](**given, target=target)
    assert rule in [finding.rule for finding in refusal.value.findings]
    assert np.array_equal(given["table"], before[0]) and np.array_equal(given["out"], before[1])


@pytest.mark.parametrize("what", ["tload", "tstore"])
def test_rows_with_gaps_are_fine_where_the_target_steps_over_them(what: str) -> None:
    given = arrays(what, 24)
    kernel(what)[1](**given, target="a2a3")
    assert np.array_equal(given["table"].reshape(8, 24)[:, :16].ravel(), given["out"])


def test_an_element_gather_through_gaps_warns_at_the_run() -> None:
    given = arrays("mgather elem", 24)
    with pytest.warns(pto.HazardWarning, match="A-10"):
        kernel("mgather elem")[1](**given, target="cpu")
