"""`view`, the greeting, and lists and tables at every width."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ptokit import spec
from ptokit.cli.explain import page_of
from ptokit.engines import ENGINES
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.render import pages
from ptokit.target import PROFILES
from tests.cli.shell import fine, misuse, ptokit_, saved
from tests.render_text import text_of


def data(*words: object) -> dict[str, object]:
    return json.loads(fine(*words, "--json"))


# --- view


def test_a_layout_is_drawn_and_is_the_same_as_json() -> None:
    shown, plain = fine("view", "layout", "NZ", "16x32", "f16"), data("view", "layout", "nz", "16x32")
    assert "NZ float16 16x32: boxes of 16x16, 1,024 bytes" in shown
    assert "\x1b" not in shown
    offsets = np.array(plain["offsets"])
    assert sorted(offsets.ravel().tolist()) == [*range(512)]
    assert offsets[3, 17] == 256 + 3 * 16 + 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nx", "16x32"), "one of nd, dn, nz"),
        (("nz", "16"), "ROWSxCOLS"),
        (("nz", "0x4"), "rows and columns"),
        (("nz", "16x16", "float17"), "float1"),
        (("nz", "16x16", "--valid", "17x1"), "within"),
        (("nz", "16x16", "--fractal", "7"), "512, 1024, 32"),
        (("nd", "99999x99999", "--json"), "too large to list: at most 1,048,576 elements; without --json its first"),
    ],
)
def test_a_layout_that_cannot_be_drawn_is_misuse(words: tuple[str, ...], message: str) -> None:
    assert message in misuse("view", "layout", *words)


SHAPES = ("--arg", "x=f32[9,16]", "--arg", "out=f32[9,16]")


def test_a_tile_of_a_program_is_drawn_with_its_address() -> None:
    listed = data("view", "tile", "kernels.py:double", *SHAPES, "--target", "a5")["tiles"]
    assert listed == [{"name": "t", "memory": "vec", "text": "vec float32 4x16 valid [?, 16]", "addresses": [0]}]
    shown = fine("view", "tile", "kernels.py:double", "t", *SHAPES, "--target", "a5")
    for part in ("4x16", "?x16", "ND float32 4x16: 256 bytes", "0x0020 11111111 [0, 8:16]"):
        assert part in shown
    assert data("view", "tile", "kernels.py:double", "t", *SHAPES)["offsets"] == np.arange(64).reshape(4, 16).tolist()
    assert "did you mean t?" in misuse("view", "tile", "kernels.py:double", "tt", *SHAPES)


CLAMPED = """\
import ptokit as pto

@pto.kernel
def clamped(table, ids, out):
    index = pto.Tile("vec", "int32", 1, 8)
    t = pto.Tile("vec", table.dtype, 8, 16)
    pto.tload(index, ids)
    pto.mgather(t, table, index, oob="clamp")
    pto.tstore(out, t)
"""


def test_accesses_of_a_program_are_drawn(folder: Path) -> None:
    (folder / "clamped.py").write_text(CLAMPED, encoding="utf-8")
    saved(folder / "ids.npy", np.array([0, 1, 1, 2, 3, 90, 91, 150], "int32"))
    words = ("clamped.py:clamped", "--arg", "table=f32[100,16]", "--arg", "ids=ids.npy", "--arg", "out=f32[8,16]")
    shown = fine("view", "gather", *words)
    for part in ("clamped on a5, 1 block: clean", "touches 7 of 100 rows", "7 in bounds, 1 clamped", "row 1 x 2"):
        assert part in shown
    (found,) = data("view", "gather", *words, "--target", "a2a3")["access"]  # type: ignore[misc]
    assert (found["cells"], found["lanes"], found["outside_above"]) == (100, 8, 1)


def test_a_program_without_gathers_says_so_and_a_refused_one_says_why() -> None:
    assert "no gathers and no scatters" in fine("view", "gather", "kernels.py:double", *SHAPES)
    words = ("--arg", "table=f32[100,16]", "--arg", "ids=i32[8,1]", "--arg", "out=f32[8,16]", "--target", "a2a3")
    refused = ptokit_("view", "gather", "kernels.py:column", *words)
    assert refused.exit_code == 1
    assert "MG-MODE-03" in refused.output


# --- greeting and help


@pytest.mark.parametrize("width", [40, 60, 100])
def test_without_a_command_it_says_what_can_be_done(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = fine()
    for command in ("demo", "check", "run", "report", "view layout", "explain", "targets", "--help"):
        assert f"ptokit {command}" in shown
    assert len(shown.splitlines()) < 30
    assert all(len(line) <= width for line in shown.splitlines())


def test_help_lists_targets_engines_and_defaults() -> None:
    shown = fine("--help")
    for part in (*PROFILES, *ENGINES, "Defaults:", "--engine  auto"):
        assert part in shown


# --- explain and targets


def test_everything_that_is_listed_can_be_explained() -> None:
    listed, shown = data("explain"), fine("explain")
    assert [*listed["instructions"]] == [*INSTRUCTIONS]  # type: ignore[misc]
    assert [*listed["hazards"]] == [*spec.hazards()]  # type: ignore[misc]
    for name in (*INSTRUCTIONS, *spec.hazards(), *(group for group in pages.groups() if "-" in group)):
        assert name in shown
    assert {name for names in pages.groups().values() for name in names} == {
        *spec.clauses(), *spec.gaps(), *spec.hazards(),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["MG", "mg-oob", "A", "h", "KN"])
def test_a_group_lists_its_members(name: str) -> None:
    shown, plain = fine("explain", name), data("explain", name)
    assert plain["names"]
    assert all(each in shown for each in plain["names"])  # type: ignore[attr-defined]


def test_pages_as_json() -> None:
    clause = spec.clauses()["MG-OOB-08"]
    found = data("explain", "mg-oob-08")
    assert (found["page"], found["statement"], found["targets"]) == ("clause", clause.statement, [*clause.targets])
    assert data("explain", "A-5")["decision"] == spec.gaps()["A-05"].decision
    assert data("explain", "H-24")["situation"] == spec.hazards()["H-24"].situation
    page = data("explain", "mgather", "--target", "a2a3")
    rules = page["rules"]["a2a3"]  # type: ignore[index]
    assert "MG-MODE-03" in [rule["clause"] for rule in rules]
    assert data("explain", sorted(pages.opaque_names())[0])["page"] == "opaque"
    assert misuse("explain", "MG-NOPE-99", "--json")


def test_targets_as_json() -> None:
    found = data("targets")["targets"]
    assert [*found] == [*PROFILES]  # type: ignore[misc]
    assert found["a5"]["memories"]["UB"] == 256 * 1024  # type: ignore[index]
    assert found["cpu"]["memories"]["UB"] is None  # type: ignore[index]
    assert found["a5"]["pipes"] == [*PROFILES["a5"].pipes]  # type: ignore[index]


@pytest.mark.parametrize("width", [40, 71])
@pytest.mark.parametrize("name", ["targets", "mgather", "H-24", "MG-OOB-08", "A-05", ""])
def test_nothing_is_cut_off_in_a_narrow_terminal(name: str, width: int) -> None:
    page = {"targets": pages.targets_table, "": pages.index_page}.get(name, lambda: page_of(name))()
    shown, whole = (text_of(page, size) for size in (width, 400))
    code = {line.rstrip() for line in whole.splitlines()}  # lines of examples stay whole at any width
    lines = [line for line in shown.splitlines() if line.rstrip() not in code]
    assert max(map(len, lines)) <= width
    assert "…" not in shown
    words = {word for word in whole.split() if word.isalnum() and len(word) < 14}
    assert words <= {*shown.split()}


def test_large_and_odd_layouts_are_drawn_with_a_remark() -> None:
    assert "15 rows are not a multiple of the 16 rows of a box" in fine("view", "layout", "nz", "15x32")
    assert "99,935 rows more" in fine("view", "layout", "nd", "99999x99999")


def test_a_picture_is_of_one_target() -> None:
    words = ("kernels:pick", "--arg", "table=f32[20,16]", "--arg", "out=f32[8,16]", "--arg", "ids=i32[8]")
    assert "one target, not all" in misuse("view", "gather", *words, "--target", "all")
