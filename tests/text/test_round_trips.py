"""Programs as text and back, in every form: the same program, the same text again, the same bits."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptokit as pto
from ptokit.lang.launch import mode_of
from ptokit.lang.loaded import from_text
from ptokit.program.expr import Var
from ptokit.program.ir import CrossFlag, Program
from ptokit.text.errors import TextError
from ptokit.text.forms import FORMS, Form, convert, form_of, format_text, print_program, read_program
from tests.corpus.hazards.cores import CACHES, CIRCULAR, RING, TO_CUBE, TO_VECTOR, Hazard
from tests.examples.test_gallery import GALLERY, Entry, launch_of_each, rng
from tests.lang.random_kernels import random_kernel
from tests.lang.test_random_kernels import GRID, kernel_of
from tests.lang.test_random_kernels import arguments as random_arguments
from tests.loops import FULL, over

every_form = pytest.mark.parametrize("form", FORMS)


def program_of(kernel: Any, target: str, given: dict[str, Any]) -> Program:
    return kernel.trace(kernel.bind((), given), mode_of(target)).program


def survives(program: Program, form: Form) -> str:
    """The text of a program, which reads as the same program and prints as the same text."""
    text = print_program(program, form)
    again = read_program(text, f"kernel.{form}")
    assert again == program, text
    assert print_program(again, form) == text
    return text


@launch_of_each(2)
@every_form
def test_the_gallery_survives_in_every_form(entry: Entry, target: str, form: Form) -> None:
    for sizes in entry.sizes:
        survives(program_of(entry.kernel, target, entry.make(rng(), **sizes)), form)


FORMS_OF_LAUNCHES = [
    (entry, target, form)
    for number, (entry, target) in enumerate((entry, target) for entry in GALLERY for target in entry.targets)
    for form in (FORMS if FULL else [FORMS[number % len(FORMS)]])
]
"""Every launch in one form, in `make fuzz` in all: a text in any form is read as the same program, see above."""


@pytest.mark.parametrize(("entry", "target", "form"), FORMS_OF_LAUNCHES, ids=lambda each: getattr(each, "name", each))
def test_the_gallery_computes_the_same_bits_from_text(entry: Entry, target: str, form: Form) -> None:
    every, turn = (*entry.sizes, entry.small), GALLERY.index(entry) + entry.targets.index(target)
    for sizes in every if FULL else [every[turn % len(every)]]:
        case = entry.make(rng(), **sizes)
        kernel = from_text(print_program(program_of(entry.kernel, target, case), form))
        outputs = []
        for launch in (entry.kernel, kernel):
            arrays = case | {"out": case["out"].copy()}
            given = {name: arrays[name] for name in arrays if name not in constants(entry)}
            launch[7](**given, target=target, engine="reference")
            outputs.append(arrays["out"].tobytes())
        assert outputs[0] == outputs[1]


def constants(entry: Entry) -> tuple[str, ...]:
    return tuple(entry.kernel.constants)


@pytest.mark.parametrize("entry", GALLERY, ids=lambda entry: entry.name)
def test_every_form_becomes_every_other(entry: Entry) -> None:
    program = program_of(entry.kernel, entry.targets[-1], entry.make(rng(), **entry.sizes[0]))
    texts = {form: print_program(program, form) for form in FORMS}
    for here, there in pairwise((*FORMS, *reversed(FORMS), FORMS[0])):
        found = convert(texts[here], f"kernel.{here}", there)
        assert read_program(found, "kernel") == program
        if "l2" not in (here, there):  # Level 2 has the declaration of a tile, the others its first write
            assert found == texts[there]


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_a_text_is_detected(form: Form) -> None:
    entry = GALLERY[0]
    text = print_program(program_of(entry.kernel, "a5", entry.make(rng(), **entry.small)), form)
    assert form_of(text) == ("as" if form == "as" else "mlir")


@settings(deadline=None, max_examples=20 * int(os.environ.get("PTOKIT_FUZZ", "0")) or 8)
@given(st.integers(0, 1 << 32), st.sampled_from(FORMS))
def test_random_kernels_survive_and_compute_the_same_bits(seed: int, form: Form) -> None:
    for number, source in enumerate(random_kernel(seed)):
        kernel = kernel_of(source, f"kernel {seed} {number}")
        arrays = random_arguments()
        text = survives(program_of(kernel, "a2a3", arrays), form)
        kernel[GRID](**arrays, target="a2a3")
        others = random_arguments()
        from_text(text)[GRID](**others, target="a2a3")
        assert arrays["out"].tobytes() == others["out"].tobytes(), text


@every_form
@pytest.mark.parametrize("hazard", [TO_CUBE, TO_VECTOR, RING, CIRCULAR, CACHES], ids=lambda each: each.kernel.name)
def test_programs_for_two_cores_survive_in_every_form(hazard: Hazard, form: Form) -> None:
    given = {name: value() if callable(value) else value for name, value in hazard.given.items()}
    text = survives(program_of(hazard.kernel, "a5", given), form)
    assert "sync.set" in text and "sync.wait" in text and "set_ffts" not in text


@pytest.mark.parametrize("form", ["l1", "l2"])
def test_flags_between_the_cores_of_a2a3_have_a_memory(form: Form) -> None:
    """Public tools ask for it. It is no argument of the program."""
    given = {name: value() if callable(value) else value for name, value in TO_CUBE.given.items()}
    program = program_of(TO_CUBE.kernel, "a2a3", given)
    text = print_program(program, form, arch="a3")
    assert "@to_cube(%ffts: memref<256xi64>, %x: " in text
    assert text.count("pto.set_ffts %ffts : memref<256xi64>\n") == 1
    assert text.index("set_ffts") < text.index("sync.set")
    assert format_text(text) == text
    again = read_program(text)
    assert again.arguments == program.arguments
    assert print_program(again, form) == text


COMPUTED = """
module attributes {pto.target_arch = "a3"} {
  func.func @k(%ffts: memref<256xi64>, %e: index) {
    pto.set_ffts %ffts : memref<256xi64>
    pto.sync.set <PIPE_MTE3>, %e {ffts_mode = 2 : i32}
    pto.section.cube {
      pto.sync.wait <PIPE_MTE2>, %e
    }
    return
  }
  func.func @vector() attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    pto.sync.set <PIPE_MTE2>, 10
    return
  }
}
"""


@every_form
def test_ids_of_flags_between_cores_may_be_computed(form: Form) -> None:
    program = read_program(COMPUTED, function="k")
    assert program.body == (CrossFlag("set", "AIV", "MTE3", Var("e")), CrossFlag("wait", "AIC", "MTE2", Var("e")))
    again = read_program(print_program(program, form), f"kernel.{form}")
    assert again.body == program.body


def test_the_kind_of_a_function_names_the_core_of_its_pipes() -> None:
    assert read_program(COMPUTED, function="vector").body == (CrossFlag("set", "AIV", "MTE2", 10),)


def test_the_name_of_a_form_is_checked() -> None:
    with pytest.raises(ValueError, match="l1, l2, as"):
        print_program(program_of(GALLERY[0].kernel, "cpu", GALLERY[0].make(rng())), "l3")  # type: ignore[arg-type]


def test_a_kernel_of_text_is_launched_by_name_and_by_position() -> None:
    entry = GALLERY[0]
    case = entry.make(rng(), **entry.small)
    kernel = from_text(print_program(program_of(entry.kernel, "cpu", case)))
    assert isinstance(kernel, pto.TextKernel)
    arrays = [case[name].copy() for name in kernel.parameters]
    kernel[3](*arrays)
    by_name = {name: case[name].copy() for name in kernel.parameters}
    kernel[3](**by_name)
    assert all(array.tobytes() == by_name[name].tobytes() for array, name in zip(arrays, by_name, strict=True))


# --- Formatting what is formatted ----------------------------------------------------------------------------------

CORPUS = sorted((Path(__file__).parent.parent / "corpus").glob("*.pto*"))
REMARKS = {"a blank line": "\n", "a comment": "// said\n", "a comment among blank lines": "\n// said\n\n"}
YIELDS = """
func.func @k(%n: index, %p: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %c2 = arith.constant 2 : index
    scf.yield // kept
  }
  scf.for %i = %c0 to %n step %c1 {
    scf.yield
  }
  scf.if %p {
    scf.yield
  } else {
    %c3 = arith.constant 3 : index
    scf.yield
  }
  return
}
"""


@over("remark", REMARKS.values())
@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.name)
def test_formatting_twice_changes_nothing(file: Path, remark: str) -> None:
    """With remarks between all lines; a text that cannot be read so is left out, which the next test counts."""
    once = formatted(file, remark)
    assert once is None or format_text(once, file.name) == once


def test_most_texts_can_be_read_with_remarks_between_their_lines() -> None:
    read = sum(formatted(file, remark) is not None for file in CORPUS for remark in REMARKS.values())
    assert read >= 0.9 * len(CORPUS) * len(REMARKS)


@pytest.mark.parametrize("remark", REMARKS.values(), ids=list(REMARKS))
def test_a_remark_before_a_yield_that_is_left_out_is_formatted_once(remark: str) -> None:
    lines = YIELDS.splitlines(keepends=True)
    for k in range(len(lines) + 1):
        once = format_text("".join((*lines[:k], remark, *lines[k:])), "k.pto")
        assert format_text(once, "k.pto") == once, k
        assert once.count("said") == remark.count("said")


def formatted(file: Path, remark: str) -> str | None:
    """A text with a remark between all its lines, formatted; None if that is no text any more."""
    try:
        return format_text(remark.join(file.read_text(encoding="utf-8").splitlines(keepends=True)), file.name)
    except TextError:
        return None


@pytest.mark.parametrize("form", FORMS)
def test_a_kernel_that_does_nothing_is_read_again(form: Form) -> None:
    nothing = read_program("func.func @nothing() { return }", "k.pto")
    again = read_program(print_program(nothing, form), "k")
    assert again == nothing and again.name == "nothing" and again.body == ()


def test_a_function_that_is_only_declared_is_no_kernel() -> None:
    with pytest.raises(TextError, match="the text has no kernel"):
        read_program("func.func private @elsewhere()", "k.pto")
