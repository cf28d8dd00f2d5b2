"""An instruction is one file: a definition that is added to the catalogue works in every part of ptokit.

The instruction is in `tgatherblk_definition.py`. No other module names it.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ptokit as pto
from ptokit.cli.commands import app
from ptokit.isa import catalog
from ptokit.isa.common import F2 as FLOATS_OF_TWO
from ptokit.isa.common import OpRow, build, by_target, filled, vec, whole
from ptokit.isa.instruction import Call, Param
from ptokit.isa.move import Access, Compute
from ptokit.lang.launch import mode_of
from ptokit.lang.loaded import from_text
from ptokit.program.ir import Instr, Program, TileUse
from ptokit.program.verify import verify
from ptokit.target import profile
from ptokit.text.cpp import emit
from ptokit.text.forms import FORMS, convert, format_text, print_program, read_program
from tests.isa.tgatherblk_definition import TGATHERBLK

TARGETS = ("cpu", "a2a3", "a5", "host")
FAMILIES = TARGETS[:3]
ENGINES = ("reference", "native", "machine")
ROWS, COLS, C0 = 4, 32, 8
BLOCKS = COLS // C0


@pytest.fixture(autouse=True)
def _instruction() -> Iterator[None]:
    catalog.add(TGATHERBLK)
    yield
    catalog.remove(TGATHERBLK.name)


def source() -> np.ndarray:
    return np.arange(8 * COLS, dtype="float32").reshape(8, COLS)


def numbers(highest: int = 8 * BLOCKS) -> np.ndarray:
    return np.random.default_rng(7).integers(0, highest, (ROWS, BLOCKS)).astype("int32")


def expected(offsets: np.ndarray) -> np.ndarray:
    return source().reshape(-1, C0)[offsets].reshape(ROWS, COLS)


def tiles() -> tuple[pto.Tile, pto.Tile, pto.Tile]:
    """The destination, the source and the block numbers."""
    offsets = pto.Tile("vec", "int32", ROWS, C0, valid=(ROWS, BLOCKS)).write(numbers())
    return pto.Tile("vec", "float32", ROWS, COLS), pto.Tile("vec", "float32", 8, COLS).write(source()), offsets


@pto.kernel
def gather(x, i, y):
    src = pto.Tile("vec", "float32", 8, COLS)
    offsets = pto.Tile("vec", "int32", ROWS, C0, valid=(ROWS, BLOCKS))
    tmp = pto.Tile("vec", "int32", ROWS, C0)
    dst = pto.Tile("vec", "float32", ROWS, COLS)
    pto.tload(src, x)
    pto.tload(offsets, i)
    pto.tgatherblk(dst, src, offsets, oob="clamp", tmp=tmp)  # type: ignore[attr-defined]
    pto.tstore(y, dst)


@pto.kernel(mode="manual")
def unordered(x, i, y):
    src = pto.Tile("vec", "float32", 8, COLS, addr=0)
    offsets = pto.Tile("vec", "int32", ROWS, C0, valid=(ROWS, BLOCKS), addr=0x1000)
    dst = pto.Tile("vec", "float32", ROWS, COLS, addr=0x2000)
    pto.tload(src, x)
    pto.tload(offsets, i)
    pto.tgatherblk(dst, src, offsets)  # type: ignore[attr-defined]
    pto.tstore(y, dst)


@pto.kernel
def gather_rows(x, i, n, y):
    """The first `n` rows."""
    src = pto.Tile("vec", "float32", 8, COLS)
    offsets = pto.Tile("vec", "int32", ROWS, C0, valid=(n, BLOCKS))
    dst = pto.Tile("vec", "float32", ROWS, COLS, valid=(n, COLS))
    pto.tload(src, x)
    pto.tload(offsets, i[0:n])
    pto.tgatherblk(dst, src, offsets)  # type: ignore[attr-defined]
    pto.tstore(y[0:n], dst)


@pto.kernel
def gather_some(x, i, n, y):
    """Numbers for `n` rows, where the destination has all."""
    src, dst = pto.Tile("vec", "float32", 8, COLS), pto.Tile("vec", "float32", ROWS, COLS)
    offsets = pto.Tile("vec", "int32", ROWS, C0, valid=(n, BLOCKS))
    pto.tload(src, x)
    pto.tload(offsets, i[0:n])
    pto.tgatherblk(dst, src, offsets)  # type: ignore[attr-defined]
    pto.tstore(y, dst)


@pto.kernel
def unwritten_numbers(x, y):
    src, dst = pto.Tile("vec", "float32", 8, COLS), pto.Tile("vec", "float32", ROWS, COLS)
    offsets = pto.Tile("vec", "int32", ROWS, C0, valid=(ROWS, BLOCKS))
    pto.tload(src, x)
    pto.tgatherblk(dst, src, offsets, oob="clamp")  # type: ignore[attr-defined]
    pto.tstore(y, dst)


def arrays(highest: int = 8 * BLOCKS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return source(), numbers(highest), np.zeros((ROWS, COLS), "float32")


def program(kernel: pto.Kernel = gather, target: str = "cpu") -> Program:
    return kernel.trace(kernel.bind(arrays(), {}), mode_of(target)).program


# --- Verifying and running -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_it_is_verified(target: str) -> None:
    with pto.target(target):
        dst, src, offsets = tiles()
        assert pto.tgatherblk(dst, src, offsets).findings == ()  # type: ignore[attr-defined]
        with pytest.raises(pto.VerifyError, match="CP-GAT-02"):
            pto.tgatherblk(dst, src, pto.Tile("vec", "int16", ROWS, 16, valid=(ROWS, BLOCKS)).write(0))  # type: ignore[attr-defined]
        with pytest.raises(pto.VerifyError, match="CP-GAT-01"):
            pto.tgatherblk(dst, pto.Tile("mat", "float32", 16, COLS), offsets)  # type: ignore[attr-defined]
        with pytest.raises(pto.VerifyError, match="CP-GAT-01"):
            pto.tgatherblk(dst, src, pto.Tile("vec", "int32", ROWS, C0).write(0))  # type: ignore[attr-defined]
        with pytest.raises(pto.VerifyError, match="SL-04"):
            pto.tgatherblk(dst, pto.Tile("vec", "float32", 8, 2 * COLS).write(0)[:, 0:COLS], offsets)  # type: ignore[attr-defined]
        if target == "a2a3":  # the others ignore a workspace
            with pytest.raises(pto.VerifyError, match="A-38"):
                pto.tgatherblk(dst, src, offsets, tmp=offsets)  # type: ignore[attr-defined]
    assert pto.check(gather, *arrays()).ok


@pytest.mark.parametrize("target", TARGETS)
def test_it_runs_eagerly(target: str) -> None:
    with pto.target(target):
        dst, src, offsets = tiles()
        pto.tgatherblk(dst, src, offsets)  # type: ignore[attr-defined]
        assert (dst.read() == expected(numbers())).all()
        beyond = numbers()
        beyond[1, 2] = 1000
        offsets.write(beyond)
        with pytest.raises(pto.OutOfBoundsError, match=r"numbers\[6\] = 1000 is outside the capacity of 32"):
            pto.tgatherblk(dst, src, offsets)  # type: ignore[attr-defined]
        pto.tgatherblk(dst, src, offsets, oob="zero")  # type: ignore[attr-defined]
        assert (dst.read()[1, 2 * C0 : 3 * C0] == 0).all()
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'numbers'"):
            pto.tgatherblk(dst, src)  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", FAMILIES)
def test_it_runs_in_kernels(target: str, engine: str) -> None:
    x, i, y = arrays(highest=50)
    with pto.target(target):
        run = gather[1](x, i, y, engine=engine)
    assert run.engine == engine
    assert (y == expected(np.minimum(i, 8 * BLOCKS - 1))).all()


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_the_machine_has_its_pipes_its_hazards_and_its_time(target: str) -> None:
    with pto.target(target):
        report = gather[1](*arrays(), engine="machine")
        raced = unordered[1](*arrays(), engine="machine")
    assert report.findings == ()
    (mine,) = [work for work in report.timeline.works if work.what == TGATHERBLK.name]
    assert mine.pipe.endswith("V")
    assert mine.end > mine.start
    assert any(TGATHERBLK.name in finding.message for finding in raced.findings)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("rows", range(1, ROWS + 1))
def test_its_valid_extents_may_be_dynamic(target: str, engine: str, rows: int) -> None:
    x, i, y = arrays()
    run = gather_rows[1](x, i, rows, y, target=target, engine=engine)
    assert (run.engine, run.findings) == (engine, ())
    assert (y[:rows] == expected(i)[:rows]).all()
    assert not y[rows:].any()


def test_a_rule_on_a_dynamic_extent_is_deferred_to_the_launch() -> None:
    traced = gather_some.trace(gather_some.bind(dynamic(), {}), mode_of("cpu")).program
    assert verify(traced, profile("cpu"), grid=1) == []
    assert gather_some[1](*dynamic(ROWS)).findings == ()
    with pytest.raises(pto.VerifyError, match="CP-GAT-01"):
        gather_some[1](*dynamic(2))


def dynamic(rows: int = 2) -> tuple[object, ...]:
    x, i, y = arrays()
    return x, i, rows, y


@pytest.mark.parametrize("target", FAMILIES)
def test_an_index_that_nothing_has_written_is_found_by_its_role(target: str) -> None:
    x, _, y = arrays()
    checked = pto.check(unwritten_numbers, x, y, target=target).findings
    assert ("H-42", "numbers") in {(finding.kind, finding.operand) for finding in checked}
    run = unwritten_numbers[1](x, y, target=target, engine="machine").findings
    assert [(finding.kind, finding.operand) for finding in run if finding.level == "error"] == [("H-42", "numbers")]


# --- Text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_it_round_trips_through_text(form: str) -> None:
    wanted = program()
    text = print_program(wanted, form)  # type: ignore[arg-type]
    assert TGATHERBLK.name in text
    found = read_program(text)
    assert found == wanted
    (instr,) = [stmt for stmt in found.body if isinstance(stmt, Instr) and stmt.name == TGATHERBLK.name]
    assert isinstance(instr.workspace, TileUse)
    assert instr.modifiers == (pto.GatherOOB.Clamp,)
    assert format_text(text) == text
    for other in FORMS:
        assert read_program(convert(text, "<text>", other)) == wanted
    x, i, y = arrays(highest=50)
    from_text(text)[1](x, i, y)
    assert (y == expected(np.minimum(i, 8 * BLOCKS - 1))).all()


@pytest.mark.parametrize("form", FORMS)
def test_its_dynamic_extents_round_trip_through_text(form: str) -> None:
    wanted = gather_rows.trace(gather_rows.bind(dynamic(), {}), mode_of("cpu")).program
    text = print_program(wanted, form)  # type: ignore[arg-type]
    assert read_program(text) == wanted
    x, i, y = arrays()
    from_text(text)[1](x, i, 2, y)
    assert (y[:2] == expected(i)[:2]).all()
    assert not y[2:].any()


def test_its_suffix_is_read_and_a_wrong_one_is_refused() -> None:
    text = print_program(program(), "as")
    assert "%dst = tgatherblk.clamp %src, %offsets, %tmp : (" in text
    with pytest.raises(Exception, match=r"tgatherblk has no suffix `.clam`, expected: .*clamp"):
        read_program(text.replace("tgatherblk.clamp", "tgatherblk.clam"))


@pytest.fixture
def number_last() -> Iterator[str]:
    """An instruction with a number in the type of its last tile, behind a tile of another type."""
    types = by_target(a2a3=FLOATS_OF_TWO, a5=FLOATS_OF_TWO)
    params = (
        Param("res", "write", "the sums"), Param("pick", "read", "integers"), Param("val", "read", "floats"),
        Param("bump", "read", "a number", kind="number", typed_as="val"),
    )  # fmt: skip
    rules = (*(vec("CP-GAT-01", name) for name in ("res", "pick", "val")), filled("CP-GAT-01", "res"))

    def lower(call: Call) -> tuple[Compute, ...]:
        return (
            Compute("add", call.res.valid, Access("res", call.res.layout), (whole(call, "val"), whole(call, "bump"))),
        )

    catalog.add(build(OpRow("tbump", "Add a number.", "res = val + bump", types, "add"), params, rules, lower))
    yield "tbump"
    catalog.remove("tbump")


@pytest.mark.parametrize("form", FORMS)
def test_a_number_has_the_type_of_the_operand_that_its_definition_names(number_last: str, form: str) -> None:
    @pto.kernel
    def bumped(x, i, y):
        values, picks = pto.Tile("vec", "float32", 8, 32), pto.Tile("vec", "int32", 8, 32)
        sums = pto.Tile("vec", "float32", 8, 32)
        pto.tload(values, x)
        pto.tload(picks, i)
        pto.tbump(sums, picks, values, 0.5)  # type: ignore[attr-defined]
        pto.tstore(y, sums)

    given = np.ones((8, 32), "float32"), np.ones((8, 32), "int32"), np.zeros((8, 32), "float32")
    wanted = bumped.trace(bumped.bind(given, {}), mode_of("cpu")).program
    assert read_program(print_program(wanted, form)) == wanted  # type: ignore[arg-type]


# --- C++ and pages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", FAMILIES)
def test_it_is_emitted_as_cpp(target: str) -> None:
    text = emit(program(target=target), profile(target))
    assert "TGATHERBLK(dst, src, offsets, tmp, GatherOOB::Clamp);" in text


@pytest.mark.parametrize("target", FAMILIES)
def test_its_dynamic_extents_are_emitted_as_cpp(target: str) -> None:
    traced = gather_rows.trace(gather_rows.bind(dynamic(), {}), mode_of(target)).program
    text = emit(traced, profile(target))
    assert "TGATHERBLK(dst, src, offsets" in text
    assert "BLayout::RowMajor, -1> dst(n);" in text


def test_it_has_a_page_and_a_signature() -> None:
    result = CliRunner().invoke(app, ["explain", "tgatherblk"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    page = re.sub(r"\s+", " ", result.output)
    for words in (
        "Gather 32-byte blocks of a tile by their numbers.",
        "pto.tgatherblk(picked, pool, numbers, *, oob='undefined', tmp=None, wait=None)",
        "TGATHERBLK(picked, pool, numbers, tmp, oob)",
        "pto.tgatherblk ins(%pool, %numbers, %tmp",
        "tgatherblk[.{clamp,wrap,zero}] %picked, %pool, %numbers",
        "picked write V",
    ):
        assert words in page, words
    function = pto.tgatherblk  # type: ignore[attr-defined]
    assert function.__doc__.startswith(TGATHERBLK.summary)
    assert list(inspect.signature(function).parameters) == ["picked", "pool", "numbers", "oob", "tmp", "wait"]


# --- One place -----------------------------------------------------------------------------------------------


def strings(file: Path) -> Iterator[str]:
    """The strings of a module that are data: no docstrings, no comments."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
            yield node.value


@pytest.mark.parametrize("package", ["text", "render", "machine", "program", "engine"])
def test_no_instruction_is_named_outside_its_definition(package: str) -> None:
    root = Path(pto.__file__).parent / package
    names = set(catalog.INSTRUCTIONS)
    for file in root.rglob("*.py"):
        found = {name for text in strings(file) for name in re.findall(r"[\w.]+", text) if name in names}
        assert not found, f"{file.relative_to(root)} names {', '.join(sorted(found))}"


OPERANDS = {"idx", "table", "dst", "src", "src0", "src1", "mask", "scalar", "scratch"}
ROLES = {"scratch", "scalar"}
"""Roles of operands and names of loops, which `machine` has besides."""
MODIFIERS = {"coalesce", "executor", "atomic", "conflict", "oob", "dividend", "saturation"}
TARGETS_AND_MEMORIES = {"a5", "a2a3", "AIV", "AIC", "UB", "L1", "L0A", "L0B", "L0C", "ub", "l1"}
FORBIDDEN = {
    "machine": OPERANDS - ROLES | TARGETS_AND_MEMORIES,
    "program": OPERANDS | MODIFIERS | TARGETS_AND_MEMORIES,
    "text": OPERANDS | MODIFIERS,
}


@pytest.mark.parametrize("package", FORBIDDEN)
def test_no_operand_target_or_memory_is_named_in_control_flow(package: str) -> None:
    """The definitions of instructions and targets have these facts."""
    root = Path(pto.__file__).parent / package
    for file in root.rglob("*.py"):
        found = set(strings(file)) & FORBIDDEN[package]
        assert not found, f"{file.relative_to(root)} names {', '.join(sorted(found))}"


def choices(tree: ast.AST) -> Iterator[str]:
    """The modifiers of instructions that a module reads, and the enums of modifiers that it imports."""
    modifiers = [modifier for each in catalog.INSTRUCTIONS.values() for modifier in each.modifiers]
    names, enums = {each.name for each in modifiers}, {each.enum.__name__ for each in modifiers}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=imported):
                yield from (alias.name for alias in imported if alias.name in enums)
            case ast.Attribute(ast.Name("call") | ast.Attribute(attr="call"), name) if name in names:
                yield name
            case ast.Subscript(ast.Attribute(attr="values"), ast.Constant(str() as name)) | ast.Call(
                ast.Attribute(ast.Attribute(attr="values"), "get"), [ast.Constant(str() as name), *_]
            ) if name in names:
                yield name


@pytest.mark.parametrize("package", ["machine", "program", "engine"])
def test_no_modifier_is_named_in_control_flow(package: str) -> None:
    """The lowered moves have what modifiers mean; operations on elements (`compute`) take some of them as options."""
    root = Path(pto.__file__).parent / package
    for file in root.rglob("*.py"):
        if "compute" not in file.with_suffix("").relative_to(root).parts:
            found = set(choices(ast.parse(file.read_text(encoding="utf-8"))))
            assert not found, f"{file.relative_to(root)} names {', '.join(sorted(found))}"


@pytest.mark.parametrize(
    "text",
    ["call.oob", "site.call.coalesce", "call.values['atomic']", "call.values.get('oob')", "from x import GatherOOB"],
)
def test_a_modifier_in_control_flow_is_seen(text: str) -> None:
    assert list(choices(ast.parse(text)))


def imported(file: Path) -> set[str]:
    """The modules that a file imports from."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def test_text_imports_no_definition_of_an_instruction() -> None:
    root = Path(pto.__file__).parent
    catalogue = {name for name in imported(root / "isa" / "catalog.py") if name.startswith("ptokit.isa.")}
    definitions = catalogue - {f"ptokit.isa.{name}" for name in ("fixes", "instruction", "kernel", "spelling")}
    assert "ptokit.isa.mgather" in definitions
    for file in (root / "text").rglob("*.py"):
        found = imported(file) & definitions
        assert not found, f"{file.relative_to(root)} imports {', '.join(sorted(found))}"


def test_it_leaves_the_catalogue() -> None:
    catalog.remove(TGATHERBLK.name)
    with pytest.raises(AttributeError, match="tgatherblk"):
        _ = pto.tgatherblk  # type: ignore[attr-defined]
    catalog.add(TGATHERBLK)
