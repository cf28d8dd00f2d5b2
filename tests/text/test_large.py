"""Large texts: what is done once for a text, a line or a function is done once."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from ptokit.text import forms
from ptokit.text.errors import Source, TextError
from ptokit.text.forms import format_text, read_program, read_unit
from ptokit.text.mlir.comments import find_remarks

HEAD, FOOT = "module {\n  func.func @f() attributes {pto.entry} {\n", "    return\n  }\n}\n"


def functions(count: int) -> str:
    """A module with many functions."""
    return "module {\n" + "".join(f"  func.func @f{k}() {{\n    return\n  }}\n" for k in range(count)) + "}\n"


def kernels(count: int) -> str:
    """The same in PTO-AS."""
    return "".join(f".kernel f{k}\n.arg %x : !pto.ptr<f32>\n" for k in range(count))


def faulty(count: int) -> str:
    """A function with many errors."""
    return HEAD + "".join(f"    %c{k} = arith.constant : index\n" for k in range(count)) + FOOT


@pytest.fixture
def lines_found(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts whose lines are looked for, each time that they are."""
    found: list[str] = []
    known: Callable[[Source], list[int]] = vars(Source)["_starts"].func

    def starts(source: Source) -> list[int]:
        if "_found" not in vars(source):
            found.append(source.text)
            vars(source)["_found"] = known(source)
        return vars(source)["_found"]

    monkeypatch.setattr(Source, "_starts", property(starts))
    return found


@pytest.mark.parametrize(("text", "file"), [(functions(40), "k.pto"), (kernels(40), "k.ptoas")])
def test_lines_are_found_once_for_all_functions(text: str, file: str, lines_found: list[str]) -> None:
    unit = read_unit(text, file)
    assert [each.where.line for each in unit.functions if each.where] == [
        number for number, line in enumerate(text.splitlines(), 1) if "func" in line or ".kernel" in line
    ]
    assert len(lines_found) == 1


def test_lines_are_found_once_for_all_errors(lines_found: list[str]) -> None:
    with pytest.raises(TextError) as found:
        read_program(faulty(40), "k.pto")
    assert [error.line for error in found.value.errors] == [*range(3, 43)]
    assert len(lines_found) <= 2, "for what was read, and for the errors of the rest"


def test_lines_of_comments_are_one_remark() -> None:
    text = (
        HEAD + "    // first\n" + "//\n  //  second \t\n" * 500 + "    %c = arith.constant 1 : index // behind\n" + FOOT
    )
    plain, remarks = find_remarks(text)
    assert [remark.text for remark in remarks] == ["\n".join(["// first", *["//", "//  second"] * 500]), "// behind"]
    assert [remark.alone for remark in remarks] == [True, False]
    assert [*map(len, plain.split("\n"))] == [*map(len, text.split("\n"))]
    assert "//" not in plain and plain.replace(" ", "") == "".join(
        line.partition("//")[0].replace(" ", "").replace("\t", "") + "\n" for line in text.splitlines()
    )
    formatted = format_text(text, "k.pto")
    assert [line.strip() for line in formatted.splitlines() if "//" in line] == [
        "// first", *["//", "//  second"] * 500, "%c = arith.constant 1 : index  // behind",
    ]  # fmt: skip
    assert format_text(formatted, "k.pto") == formatted


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("text", [functions(1), faulty(1)])
def test_the_collector_of_cycles_waits_while_a_text_is_read(
    text: str, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    read = forms.read_unit

    def watched(*args: Any) -> Any:
        seen.append(gc.isenabled())
        return read(*args)

    monkeypatch.setattr(forms, "read_unit", watched)
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        try:
            read_program(text, "k.pto")
        except TextError:
            assert text == faulty(1)
        assert seen == [False] and gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
