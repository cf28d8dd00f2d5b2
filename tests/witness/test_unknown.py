"""Instructions that no table has: what the headers of a checkout do in their calls is judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptokit.cxx.compile import CompileOptions
from ptokit.isa.opaque import ACCESS, is_form, letters_of, opaque
from ptokit.lang.cpp_entries import CppSource, chosen_entry
from ptokit.lang.launch import mode_of
from ptokit.lang.recorded import CppKernel
from ptokit.machine.report import MachineOptions, MachineReport
from ptokit.text.forms import FORMS, print_program, read_program
from ptokit.witness.headers import Checkout
from ptokit.witness.unknown import UnknownInstructions
from tests.cli.shell import misuse, ptokit_

HERE = Path(__file__).parent
SOURCE, HEADERS = HERE / "tomorrow.cpp", HERE / "checkout"
FORM = "w@V[2x128/256],u@V[1x512/512],w@S[1x4/4],n;S,S-V,V"
"""What the call does: half of each row of the result, the source in its place, and a word of the workspace by S."""


@pytest.fixture(scope="module")
def unknown() -> UnknownInstructions:
    return UnknownInstructions(Checkout.at(HEADERS))


def kernel(source: Path, unknown: UnknownInstructions | None) -> CppKernel:
    found = CppSource(str(source), CompileOptions(), unknown=unknown)
    return CppKernel(found, chosen_entry(found.build("a2a3"), None), "a2a3")


@pytest.fixture(scope="module")
def run(unknown: UnknownInstructions) -> MachineReport:
    return launched(SOURCE, unknown)


def launched(source: Path, unknown: UnknownInstructions) -> MachineReport:
    found = kernel(source, unknown)
    options = MachineOptions(quiet=True)
    return found[1](np.zeros(128, "f4"), np.ones(128, "f4"), engine="machine", options=options)  # type: ignore[return-value]


def test_a_call_has_the_pipes_bytes_and_flags_of_the_headers(unknown: UnknownInstructions) -> None:
    assert {"TTOMORROW", "TNEW"} <= unknown.names and "TNEG" not in unknown.names
    arrays = {"out": np.zeros(128, "f4"), "x": np.zeros(128, "f4")}
    found = kernel(SOURCE, unknown)
    program = found.trace(found.bind((), arrays), mode_of("a2a3")).program
    assert [instr.opaque_form for instr in program.instructions] == ["", FORM, ""]
    for form in FORMS:
        assert read_program(print_program(program, form), f"kernel.{form}").instructions[1].opaque_form == FORM


def test_what_headers_leave_unwritten_is_found(run: MachineReport) -> None:
    (unwritten,) = [finding for finding in run.findings if finding.level == "error"]
    assert unwritten.rule == "CO-ALIGN-05" and unwritten.where and unwritten.where.line == 20
    assert "256 of 512 bytes hold no data" in unwritten.message


@pytest.mark.parametrize(
    ("changed", "by", "found"),
    [
        ("set_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);", "", "ttomorrow reads a (dst1) on V; nothing orders this read"),
        ("TSTORE(result, b);", "TLOAD(a, in);", "on MTE2; nothing orders this write after ttomorrow's"),
    ],
)
def test_faults_around_the_call_name_it(
    changed: str, by: str, found: str, unknown: UnknownInstructions, tmp_path: Path
) -> None:
    text = SOURCE.read_text()
    assert text.count(changed) == 1
    text = text.replace(changed, by)
    file = tmp_path / "changed.cpp"
    file.write_text(text if by else text.replace("wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);", ""))
    messages = [finding.message for finding in launched(file, unknown).findings if finding.level == "error"]
    assert any(found in message for message in messages), messages


def test_the_command_takes_a_checkout() -> None:
    words = "check", str(SOURCE), "--target", "a2a3", "--run"
    assert "'TTOMORROW' was not declared" in ptokit_(*words).output
    judged = ptokit_(*words, "--headers", str(HEADERS))
    assert judged.exit_code == 1 and "of which 256 of 512 bytes hold no data" in judged.output
    assert "has no include/pto/pto-inst.hpp" in misuse(*words, "--headers", str(HERE / "nothing"))


@pytest.mark.parametrize(
    "form", ["w@V[1x1/1]", "u@MTE2[2x32/64],n;V-S,S,S-V", "r@FIX[0x0/0],n,w@S[1x4/4]", "wr", "-", "wursn"]
)
def test_forms_are_read(form: str) -> None:
    assert is_form(form)
    letters = letters_of(form)
    assert [param.access for param in opaque("tomorrow", form).operands] == [ACCESS[letter] for letter in letters]


@pytest.mark.parametrize(
    "form", ["w@X[1x1/1]", "w@V[1x1]", "w@V[1x1/1];", "w@V[1x1/1]" * 40, "w@V[9999999999x1/1]", "q", "", "w," * 3, 7]
)
def test_other_texts_are_no_forms(form: object) -> None:
    assert not is_form(form)
