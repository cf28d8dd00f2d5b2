"""A family that is like another one is one file: it is checked, run, timed, printed and recorded, by its own facts and
those that it inherits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit import spec
from ptokit.cxx.database import _entry
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.policy import BLayout
from ptokit.isa.table import Revision
from ptokit.lang.launch import mode_of
from ptokit.target import PROFILES, families, profile, register, unregister
from ptokit.target.profile import KB
from ptokit.text.cpp import emit
from ptokit.text.forms import print_program, read_program
from tests.cli.shell import fine
from tests.cxx.building import COMPILER
from tests.target.a6_family import A6

ENGINES = ("reference", "native", "machine")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(A6)
    yield
    unregister("a6")


@pto.kernel
def narrow(table, ids, out):
    index, rows = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 16)
    pto.tload(index, ids)
    pto.mgather(rows, table, index, oob="clamp")
    pto.tadds(rows, rows, 1)
    pto.tstore(out, rows)


@pto.kernel
def count(out):
    t = pto.Tile("vec", "int32", 1, 64)
    pto.tci(t, 5)
    pto.tadds(t, t, 1)
    pto.tadds(t, t, 1)
    pto.tstore(out, t)


@pto.kernel
def product(x, y, out):
    a = pto.Tile("mat", "float16", 16, 16, blayout="col_major", slayout="row_major")
    b = pto.Tile("mat", "float16", 16, 16, blayout="col_major", slayout="row_major")
    left, right, acc = (
        pto.Tile(loc, kind, 16, 16) for loc, kind in (("left", "float16"), ("right", "float16"), ("acc", "float32"))
    )
    pto.tload(a, x)
    pto.tload(b, y)
    pto.tmov(left, a)
    pto.tmov(right, b)
    pto.tmatmul(acc, left, right)
    pto.tstore(out, acc)


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.arange(10 * 32, dtype="float32").reshape(10, 32)
    return table, np.array([[3, 1, 4, 1, 5, 9, 2, 6]], "int32"), np.zeros((8, 16), "float32")


def program_of(kernel: Any, *arrays: Any, target: str = "a6") -> Any:
    return kernel.trace(kernel.bind(arrays, {}), mode_of(target)).program


# --- Checks and runs ---


def test_checks_know_its_rules_and_those_that_it_inherits() -> None:
    reports = {name: pto.check(narrow, *rows(), target=name) for name in ("a5", "a6")}
    assert [finding.rule for finding in reports["a5"].findings if finding.level == "error"] == ["MG-SHAPE-05"]
    assert reports["a6"].ok
    assert list(pto.check(count, np.zeros((1, 64), "int32"), target="all").targets) == list(families())
    with pto.target("a6"):
        tile = pto.Tile("vec", "int64", 1, 8)
        with pytest.raises(pto.VerifyError, match="CP-BIN-02"):  # a row of its own
            pto.tadd(tile, tile.write(1), tile)
        boxed = pto.Tile("vec", "float32", 16, 16, blayout="col_major", slayout="row_major")
        with pytest.raises(pto.VerifyError, match="MG-LAY-12"):  # a rule of A5
            pto.mgather(boxed, pto.GlobalTensor(rows()[0]), pto.Tile("vec", "int32", 1, 16).write(0))
    with pto.target("a5"):
        pto.tadd(tile, tile.write(1), tile)


def test_every_clause_and_every_kernel_of_the_other_family_holds() -> None:
    for name, clause in spec.clauses().items():
        assert spec.holds(name, "a6") == ("a5" in clause.targets)
    for hazard in spec.hazards().values():
        assert hazard.level_on("a6") == hazard.levels.get("a5", "")
    kernels = {**profile("a5").kernels, "tci": INSTRUCTIONS["tci"].kernels["a2a3"]["tci"]}
    assert profile("a6").kernels == kernels


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_run_it(engine: str) -> None:
    table, ids, out = rows()
    narrow[1](table, ids, out, target="a6", engine=engine)
    assert np.array_equal(out, table[ids[0], :16] + 1)


# --- Time ---


def test_the_machine_has_its_costs_and_pipes() -> None:
    reports = {name: count[1](np.zeros((1, 64), "int32"), target=name, engine="machine") for name in ("a5", "a6")}
    pipes = {work.name.split()[0]: work.pipe for work in reports["a6"].timeline.works}
    assert pipes == {"tci": "AIV.S", "tadds": "AIV.V", "tstore": "AIV.MTE3"}
    assert reports["a6"].timeline.cycles > reports["a5"].timeline.cycles + 900
    assert profile("a6").budget().limit == 472 * KB  # type: ignore[union-attr]


# --- Texts ---


def test_cpp_has_its_barriers() -> None:
    plain, own = (emit(program_of(count, np.zeros((1, 64), "int32")), profile(name)) for name in ("a5", "a6"))
    for line in ("set_flag(PIPE_S, PIPE_V, EVENT_ID0)", "pipe_barrier(PIPE_V)", "for a6, written by"):
        assert line in own and line not in plain


@pytest.mark.parametrize("form", ["l1", "l2", "as"])
def test_text_names_its_architecture(form: str) -> None:
    arrays = [np.ones((16, 16), "float16"), np.ones((16, 16), "float16"), np.zeros((16, 16), "float32")]
    for target, layout in (("a5", BLayout.ColMajor), ("a6", BLayout.RowMajor)):
        text = print_program(program_of(product, *arrays, target=target), form, arch=target)  # type: ignore[arg-type]
        assert target in text
        (left,) = (each.spec for each in read_program(text).tiles.values() if each.spec.loc.text == "left")
        assert left.blayout is layout


def test_pages_show_it() -> None:
    shown = fine("targets")
    assert "a6" in shown and "512 KB" in shown
    assert "MG-SHAPE-05 table into UB, row" not in " ".join(fine("explain", "mgather", "--target", "a6").split())
    assert "Ascend A6" in fine("explain", "tci")


# --- C++ ---

SOURCE = """\
#include <pto/pto-inst.hpp>
#include <pto/npu/{family}/TLoad.hpp>
using namespace pto;
#if !defined(PTO_NPU_ARCH_A6) || !defined(REGISTER_BASE) || __CCE_AICORE__ != 410
#error not compiled for a6
#endif
static_assert(PTO_UBUF_SIZE_BYTES == 512 * 1024 && TileLeft<half, 16, 16>::BFractal == BLayout::RowMajor);
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, 64>, Stride<64, 64, 64, 64, 1>>;

extern "C" __global__ AICORE void twice(__gm__ float* x, __gm__ float* out) {
    Tile<TileType::Vec, float, 1, 64> a;
    TASSIGN(a, 0x50000);
    Row from(x), to(out);
    TLOAD(a, from);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TADD(a, a, a);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(to, a);
}
"""


@pytest.mark.skipif(not COMPILER, reason="no C++20 compiler")
def test_cpp_is_recorded_for_it(tmp_path: Path) -> None:
    file = tmp_path / "twice.cpp"
    file.write_text(SOURCE.replace("{family}", "a5"))
    kernel = pto.load(file, "twice", target="a6")
    x, out = np.arange(64, dtype="float32")[None, :], np.zeros((1, 64), "float32")
    report = kernel[1](x, out, target="a6", engine="machine")
    assert np.array_equal(out, 2 * x) and report.findings == ()


def test_compile_databases_name_it() -> None:
    words = ["bisheng", "--cce-aicore-arch=dav-c410-vec", "k.cpp"]
    assert _entry(words, Path("/"), None).target == "a6"


# --- Registering ---


def test_a_family_has_revisions() -> None:
    next_one = replace(A6, name="a6@next", revision=Revision(added=frozenset({"MG-SHAPE-05"})))
    register(next_one)
    try:
        assert list(PROFILES) == [
            "cpu", "cpu@aicore", "a2a3", "a2a3@2026.08", "a5", "a5@2026.08", "a6", "a6@next", "host",
        ]  # fmt: skip
        report = pto.check(narrow, *rows(), target="a6@next")
        assert [each.rule for each in report.findings if each.level == "error"] == ["MG-SHAPE-05"]
        tile = pto.Tile("vec", "int64", 1, 8).write(1)
        with pto.target("a6@next"), pytest.raises(pto.VerifyError, match="CP-BIN-02"):
            pto.tadd(tile, tile, tile)
        with pytest.raises(ValueError, match="a6@next must be removed before a6"):
            unregister("a6")
    finally:
        unregister("a6@next")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a7", "like": ""}, "a new family states the one that it is like"),
        ({"name": "a7", "like": "a9"}, "a new family states the one that it is like"),
        ({"name": "a7", "like": "cpu@aicore"}, "a new family states the one that it is like"),
        ({"name": "a6"}, "there is a target of this name"),
        ({"name": "a7", "revision": Revision(dropped=frozenset({"MG-NO-01"}))}, "no rule has the id MG-NO-01"),
    ],
)
def test_what_cannot_be_registered(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        register(replace(A6, **changes))


def test_nothing_remains_of_a_family_that_is_removed() -> None:
    unregister("a6")
    assert "a6" not in PROFILES and not spec.holds("MG-SHAPE-05", "a6") and "a6" not in families()
    register(A6)


# --- One place ---

FAMILY = re.compile(r"(?<![A-Za-z0-9])(?:PTOKIT_)?[aA](?:2[aA]3|3|5)(?![A-Za-z0-9])")
DEFINITIONS = ("isa", "target", "spec")
"""Rows by family, and data."""
LEFT = {
    "demo.py": "a tour: it launches kernels on targets that it names",
    "testing.py": "the default target of a fixture of pytest, which its users read in the signature",
    "traces/replay.py": "the default targets of `pto.replay`, which its users read in the signature",
    "cli/commands.py": "the same default of the command",
    "cli/request.py": "says what that default is",
    "render/pages.py": "titles of source documents",
    "lang/context.py": "an example in the fix of a message",
    "conformance/cases.py": "a table of the kit: what a target leaves open, and its layouts of left tiles",
    "cxx/compile.py": "the default target of a function that only tests call without one",
    "cxx/names.py": "paths of the vendor's public headers",
    "cxx/include/own/ptokit/grid.hpp": "a public name of the vendor",
    "engine/llvm/compute/units.py": "the names of variables of a product",
}
"""Where else a family is named, and why."""


def _family_names(file: Path) -> set[str]:
    text = file.read_text("utf-8")
    if file.suffix != ".py":
        return set(FAMILY.findall(re.sub(r"//.*", "", text)))
    if not FAMILY.search(text):
        return set()
    tree = ast.parse(text)
    documents = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    words = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in documents]
    names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
    return {found for word in (*words, *names) if isinstance(word, str) for found in FAMILY.findall(word)}


def test_families_are_named_in_definitions_only() -> None:
    home = Path(pto.__file__).parent
    files = [file for end in ("py", "hpp", "cpp") for file in home.rglob(f"*.{end}")]
    places = {file.relative_to(home): file for file in files if file.relative_to(home).parts[0] not in DEFINITIONS}
    named = {path.as_posix() for path, file in places.items() if _family_names(file)}
    assert named == set(LEFT)
