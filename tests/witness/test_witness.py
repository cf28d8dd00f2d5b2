"""The witness over small headers: what instructions read, write, and which pipes do it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ptokit.cxx.compile import BUILTINS, CORE_MACROS, CompileError, find_compiler
from ptokit.cxx.record import ArrayArgument, ScalarArgument
from ptokit.witness.effects import Observed, ObservedMemory
from ptokit.witness.headers import Checkout, HeadersError
from ptokit.witness.record import HEADER, Witness

HERE = Path(__file__).parent
VEC = ObservedMemory("vec")


@pytest.fixture(scope="module")
def witness() -> Iterator[Witness]:
    with Witness(Checkout.at(HERE / "checkout")) as witness:
        yield witness


def run(witness: Witness, source: str, target: str) -> dict[str, Observed]:
    """The calls of a launch."""
    with witness.compile(HERE / source, target) as build:
        memory = np.zeros(256, "float32")
        arguments = [ArrayArgument("out", memory), ArrayArgument("x", memory), ScalarArgument("stream", "int64", None)]
        (block,), problems = witness.run(build, "launch", arguments)
    assert not problems
    return {call.name: call for call in block.calls}


@pytest.fixture(scope="module")
def calls(witness: Witness) -> dict[str, Observed]:
    return run(witness, "kernel.cpp", "a2a3")


@pytest.fixture(scope="module")
def registers(witness: Witness) -> dict[str, Observed]:
    return run(witness, "registers.cpp", "a5")


def test_a_block_that_is_not_read_to_its_end_is_named(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptokit.witness.record.MOST_CALLS", 3)
    with witness.compile(HERE / "kernel.cpp", "a2a3") as build:
        arrays = [ArrayArgument(name, np.zeros(256, "float32")) for name in ("out", "x")]
        _, (problem,) = witness.run(build, "launch", [*arrays, ScalarArgument("stream", "int64", None)])
    assert problem.kind == "limit" and problem.message.endswith(" intrinsics, of which 3 are read")


def bytes_of(call: Observed, how: str) -> dict[ObservedMemory, list[list[int]]]:
    return {place: ranges.tolist() for place, ranges in call.bytes_of(how).items()}


def test_a_load_reads_its_argument_and_writes_its_tile(calls: dict[str, Observed]) -> None:
    load = calls["TLOAD"]
    assert load.pipes == {"MTE2"}
    assert bytes_of(load, "read") == {ObservedMemory("global", 1): [[256, 256 + 512]]}
    assert bytes_of(load, "write") == {VEC: [[0x1000, 0x1200]]}


def test_a_source_that_is_overwritten_is_seen(calls: dict[str, Observed]) -> None:
    quant = calls["TQUANT"]
    assert quant.pipes == {"V"}
    assert bytes_of(quant, "write") == {VEC: [[0x1000, 0x1200], [0x3000, 0x3100]]}
    assert [event.flag for event in quant.events if event.flag] == [("V",)]


def test_a_scalar_write_before_a_flag_is_seen(calls: dict[str, Observed]) -> None:
    select = calls["TSELS"]
    assert [event.pipe for event in select.events if event.touches] == ["S", "V", "V"]
    first = select.events[0]
    assert (first.name, first.touches[0].ranges.tolist()) == ("store", [[0x4001, 0x4002]])
    assert bytes_of(select, "read") == {VEC: [[0x2000, 0x2000 + 160], [0x4000, 0x4001], [0x4002, 0x4010]]}
    assert bytes_of(select, "write") == {VEC: [[0x2000, 0x2000 + 160], [0x4001, 0x4002]]}
    flags = [event.flag for event in select.events if event.flag]
    assert flags == [("S", "V", "0"), ("S", "V", "0")]


def test_what_an_instruction_waits_for_before_it_is_not_its_own(calls: dict[str, Observed]) -> None:
    assert not [event for event in calls["TNEG"].events if event.flag]
    assert bytes_of(calls["TNEG"], "write") == {VEC: [[0x2000, 0x2100]]}


def test_an_address_of_32_bits_is_one_on_the_chip(calls: dict[str, Observed]) -> None:
    assert bytes_of(calls["TBEHIND"], "write") == {VEC: [[0x2400, 0x2404]]}


def test_flags_of_the_author_are_outside_of_instructions(calls: dict[str, Observed]) -> None:
    assert [event.flag for event in calls[""].events] == [("MTE2", "V", "1")]


def test_a_function_that_the_table_does_not_know_is_an_error_with_its_name(witness: Witness, tmp_path: Path) -> None:
    file = tmp_path / "new.cpp"
    text = (HERE / "kernel.cpp").read_text().replace("TNEG(b, a);", "TNEW(b);")
    file.write_text(text)
    with pytest.raises(CompileError, match="vbrandnew"):
        witness.compile(file, "a2a3")


def test_registers_are_stored_by_mask_and_loaded_whole(registers: dict[str, Observed]) -> None:
    copy = registers["TCOPY"]
    assert copy.pipes == {"V"}
    assert bytes_of(copy, "write") == {VEC: [[0x2000, 0x2000 + 400]]}
    assert bytes_of(copy, "read") == {VEC: [[0x1000, 0x1000 + 512]]}
    used = np.array([[0x1000, 0x1000 + 400]])
    assert copy.beside("vec", used).tolist() == [[0x1000 + 400, 0x1000 + 512]]
    assert not len(copy.beside("vec", used - 0x1000)), "a load that is not near is not beside"


def test_masks_and_unaligned_stores_say_which_bytes_they_write(registers: dict[str, Observed]) -> None:
    assert bytes_of(registers["TPACK"], "write") == {VEC: [[0x1020, 0x1040], [0x1065, 0x1074]]}


def test_threads_are_run_one_after_the_other(registers: dict[str, Observed]) -> None:
    gather = registers["MGATHER"]
    assert gather.pipes == {"V"}
    assert bytes_of(gather, "write") == {VEC: [[0x2000, 0x2000 + 164]]}
    assert bytes_of(gather, "read") == {ObservedMemory("global", 1): [[0, 160]], VEC: [[0x20A0, 0x20A4]]}


def test_a_function_that_a_source_calls_instead_of_an_instruction_has_its_name(registers: dict[str, Observed]) -> None:
    assert bytes_of(registers["TZERO"], "write") == {VEC: [[0x1000, 0x1004]]}


def test_a_product_reads_its_bias_and_the_scales_of_its_operands(registers: dict[str, Observed]) -> None:
    product = registers["TMATMUL_MX"]
    assert product.pipes == {"M"}
    assert bytes_of(product, "write") == {ObservedMemory("acc"): [[0, 1024]]}
    assert bytes_of(product, "read") == {
        ObservedMemory("scale_left"): [[0x20, 0x40]],
        ObservedMemory("scale_right"): [[0, 32]],
        ObservedMemory("left"): [[0x200, 0x600]],
        ObservedMemory("right"): [[0, 1024]],
        ObservedMemory("bias"): [[64, 128]],
    }


def test_the_address_of_scales_is_one_on_the_chip(registers: dict[str, Observed]) -> None:
    assert bytes_of(registers["TCOPY_SCALES"], "write")[VEC][0] == [0x20, 0x24]


def test_a_folder_without_headers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadersError, match=r"has no include/pto/pto-inst\.hpp"):
        Checkout.at(tmp_path)


@pytest.mark.parametrize("guard", ["#pragma once", "#ifndef PUBLIC\n#define PUBLIC"])
def test_the_headers_are_read_and_the_recorder_is_compiled_once(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptokit.cxx.compile.COMPILED_RECORDERS", recorders := dict[str, bytes]())
    is_taken = find_compiler().family == "gcc" and "once" not in guard
    with Witness(Checkout.at(HERE / "checkout")) as witness:
        text = (witness.folder / HEADER).read_text().replace("#pragma once", guard)
        (witness.folder / HEADER).write_text(f"{text}\n{'' if 'once' in guard else '#endif'}\n")
        witness.precompile("a2a3")
        before, places = [*recorders.items()], [folder / BUILTINS for folder in witness.first]
        assert [{path.name for path in place.parent.glob("*.gch/*")} for place in places] == [{*CORE_MACROS}] * is_taken
        for place in places:  # what was read before does not change
            place.write_text(f"{place.read_text()}static_assert(false);\n")
        assert "TNEG" in run(witness, "kernel.cpp", "a2a3")
        assert len(before) == 1 and [*recorders.items()] == before
