"""Pages are complete: every clause, rule and hazard of an instruction on a target, and every spelling."""

from __future__ import annotations

import inspect
import re
from functools import cache
from itertools import product

import pytest

import ptokit as pto
from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import ByCase
from ptokit.program.ir import Instr
from ptokit.render import pages
from ptokit.target import PROFILES
from ptokit.text.lower import lower
from ptokit.text.ptoas import read_ptoas
from ptokit.text.ptoas.shapes import defaults, suffixes
from ptokit.text.tree import walk
from tests.loops import over
from tests.render_text import plain_text_of, text_of

TARGETS = ("cpu", "a2a3", "a5")
ABOUT = {"MG": "mgather", "MS": "mscatter", "TS": "tscatter", "TL": "tload", "TT": "tstore", "TV": "tmov"}
THREE = ("mgather", "mscatter", "tscatter")
"""The instructions of the documents, which have the CO clauses in common."""


@cache
def page(name: str, target: str | None = None) -> str:
    return plain_text_of(pages.instruction_page(name, target))


def test_pages_are_printed_as_they_are_read_here() -> None:
    shown = [pages.instruction_page(name, target) for name in (*THREE, "tmatmul") for target in (None, "a5")]
    shown += [pages.clause_page(name) for name in [*spec.clauses()][::32]]
    shown += [pages.gap_page("A-62"), *(pages.hazard_page(name) for name in [*spec.hazards()][::8])]
    for each in shown:
        assert text_of(each).replace("─", "").split() == plain_text_of(each).split()


def ids(text: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]+(?:-[A-Z0-9]+)?-\d\d\b", text))


def about(clause: spec.Clause) -> tuple[str, ...]:
    """The instructions that a clause is about, by its id."""
    prefix = clause.id.partition("-")[0]
    return THREE if prefix == "CO" else (ABOUT[prefix],) if prefix in ABOUT else ()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted({*THREE, *ABOUT.values()}))
def test_every_clause_about_an_instruction_and_a_target_is_on_its_page(name: str, target: str) -> None:
    wanted = {c.id for c in spec.clauses().values() if name in about(c) and target in c.targets}
    assert wanted and sorted(wanted - ids(page(name, target))) == []
    assert sorted(wanted - ids(page(name))) == []
    for clause in (spec.clauses()[name] for name in wanted):
        assert " ".join(clause.statement.split()) in page(name, target)
        assert clause.verdict in page(name, target)


@pytest.mark.parametrize("name", THREE)
def test_a_page_of_one_target_has_no_clause_of_another(name: str) -> None:
    for target in TARGETS:
        own = page(name, target).partition("Clauses  what the documents say")[2]
        listed = re.findall(r"^ +([A-Z]+-[A-Z0-9]+-\d\d) ", own, re.M)
        assert listed and [each for each in listed if target not in spec.clauses()[each].targets] == []


def test_every_computing_instruction_has_the_clauses_of_its_group() -> None:
    for name, instruction in INSTRUCTIONS.items():
        groups = {rule.id.rpartition("-")[0] for rule in instruction.rules if rule.id.startswith("CP-")}
        wanted = {each for each in spec.clauses() if each.rpartition("-")[0] in groups}
        assert sorted(wanted - ids(page(name, "a5"))) == [], name


@pytest.mark.parametrize("name", INSTRUCTIONS)
@over("target", PROFILES)
def test_every_hazard_and_rule_of_an_instruction_is_on_its_page(name: str, target: str) -> None:
    text, family = page(name, target), target.partition("@")[0]
    rows = {line.split()[0]: line for line in text.splitlines() if re.match(r" +H-\d\d ", line)}
    for hazard in spec.hazards().values():
        if hazard.concerns(name) and family in hazard.levels:
            assert f" {hazard.levels[family]} " in rows[hazard.id] and hazard.situation in rows[hazard.id], hazard.id
        else:
            assert hazard.id not in rows
    for rule in INSTRUCTIONS[name].rules:
        if rule.level_on(target):
            assert {rule.clause(target), *rule.kinds} <= ids(text), rule.id
    for fault in INSTRUCTIONS[name].reports.faults.values():
        assert {fault.clause(target), *filter(None, [fault.kind])} <= ids(text)


@pytest.mark.parametrize(
    ("name", "target", "wanted"),
    [
        ("mgather", "a5", "MG-SYNC-01 MG-SYNC-15 MG-SIMT-10 H-23 H-24 H-25 H-26 H-40"),
        ("mscatter", "a5", "H-14 H-15 H-16 H-23 H-24 MS-CONF-02 MS-CONF-04 MS-HAZ-02 MG-SYNC-01"),
        ("mscatter", "a2a3", "H-14 H-15 H-16 MS-CONF-02 MS-CONF-04"),
        ("tscatter", "cpu", "H-12 H-17 TS-CONF-01"),
    ],
)
def test_what_only_the_machine_sees_is_there(name: str, target: str, wanted: str) -> None:
    assert sorted(set(wanted.split()) - ids(page(name, target))) == []


def test_what_the_caller_sees_to_has_its_own_section() -> None:
    section = page("mgather", "a5").partition("Duties of the caller")[2].partition("\n\n")[0]
    assert {"MG-SYNC-01", "MG-SYNC-15", "MG-SIMT-10", "MG-BUDG-09"} <= ids(section)
    assert "MG-SYNC-04" not in ids(page("mgather", "a5").partition("\nPipes")[0])


LEVELS = {
    ("H-14", "a2a3"): "error", ("H-15", "a2a3"): "error", ("H-15", "a5"): "error", ("H-24", "a5"): "error",
    ("H-24", "a2a3"): "error for row gathers, note for element gathers", ("H-48", "a5"): "hazard",
}  # fmt: skip


@pytest.mark.parametrize(("name", "target"), LEVELS)
def test_levels_of_hazards_by_target(name: str, target: str) -> None:
    assert re.search(rf"^ +{name} +{LEVELS[name, target]} +by machine", page("mscatter", target), re.M)
    page_text = plain_text_of(pages.hazard_page(name))
    assert LEVELS[name, target] in page_text and target in page_text


COMPUTED = [
    (instruction.name, rule, kind)
    for instruction in INSTRUCTIONS.values()
    for rule in instruction.rules
    for kind in rule.kinds
    if isinstance(rule.kind, ByCase) or kind == "H-27"
]


def test_rules_whose_hazard_depends_on_the_call_are_found_under_every_number() -> None:
    assert {"H-02", "H-05", "H-08", "H-09", "H-27", "H-40"} <= {kind for _, _, kind in COMPUTED}
    page_text = {kind: plain_text_of(pages.hazard_page(kind)) for kind in {kind for _, _, kind in COMPUTED}}
    for name, rule, kind in COMPUTED:
        assert re.search(rf"^  {name}, {rule.operand}.*{rule.id}", page_text[kind], re.M), (name, rule.id, kind)


def test_a_rule_is_found_under_the_clause_that_stands_behind_it() -> None:
    cpu, npu = (plain_text_of(pages.clause_page(name)) for name in ("MG-HAZ-03", "MG-TYPE-06"))
    assert "mgather, table [into UB]: error on cpu (H-08)" in cpu
    assert "mgather, table [into UB]: error on a2a3, error on a5, error on host (H-08)" in npu


# Spellings


def expanded(pattern: str) -> set[str]:
    """All expansions of a pattern with `[...]` (optional) and `{a,b}` (alternatives)."""
    optional = re.search(r"\[([^\[\]]*)\]", pattern)
    if optional:
        before, after = pattern[: optional.start()], pattern[optional.end() :]
        return expanded(before + after) | expanded(before + optional[1] + after)
    choice = re.search(r"\{([^{}]*)\}", pattern)
    if choice:
        before, after = pattern[: choice.start()], pattern[choice.end() :]
        return {text for word in choice[1].split(",") for text in expanded(before + word + after)}
    return {pattern}


def spelled(name: str) -> str:
    """The line of a page with the suffixes of an opcode."""
    (line,) = [line for line in page(name, "a5").splitlines() if line.endswith(" : (...)") and f"{name}" in line]
    return line.strip().removesuffix(" : (...)")


def opcodes(name: str) -> set[str]:
    """All opcodes that the reader's table of suffixes gives, what goes unsaid left out."""
    words: dict[str, list[str]] = {}
    unspoken = defaults(INSTRUCTIONS[name])
    for word, (key, value) in suffixes()[name].items():
        words.setdefault(key, []).append("" if unspoken.get(key) == value else f".{word}")
    return {name + "".join(chosen) for chosen in product(*words.values())}


@pytest.mark.parametrize("name", suffixes())
def test_the_page_has_every_suffix_and_every_operand(name: str) -> None:
    opcode, _, operands = spelled(name).partition(" ")
    assert expanded(opcode) == opcodes(name)
    names = [f"%{param.name}" for param in INSTRUCTIONS[name].operands]
    assert re.findall(r"%\w+", operands) == names
    assert {text.count("%") for text in expanded(operands)} == (
        {len(names)} if not any(p.optional for p in INSTRUCTIONS[name].operands) else {len(names) - 1, len(names)}
    )


ROW, ELEM, TILE, MEM = "!pto.tile<16x1xi32>", "!pto.tile<16x32xi32>", "!pto.tile<16x32xf32>", "!pto.memref<1000x32xf32>"
MAT = "!pto.tile<mat, f32, 16, 32, col_major, row_major, 512, null>"
INDICES = "!pto.memref<16x32xi32>"


def statement(opcode: str) -> str:
    """An opcode with operands and types that it takes."""
    name, *words = opcode.split(".")
    index = ROW if "row" in words else ELEM
    if name == "mscatter":
        return f"{opcode} %table, %src, %idx : ({MEM}, {TILE}, {index})"
    if name == "tscatter":
        return f"{opcode} %dst, %src, %idx : ({TILE}, {TILE}, {ELEM})"
    if "simt" in words:
        return f"{opcode} %dst, %table, %idx, %scratch : ({MAT}, {MEM}, {INDICES}, {MEM})"
    return f"{opcode} %dst, %table, %idx : ({TILE}, {MEM}, {index})"


@pytest.mark.parametrize("name", suffixes())
def test_everything_that_the_page_spells_is_read(name: str) -> None:
    for opcode in sorted(expanded(spelled(name).partition(" ")[0])):
        unit = read_ptoas(statement(opcode))
        assert [stmt.name for stmt in lower(unit).body if isinstance(stmt, Instr)] == [name]
        (found,) = [operation for operation in walk(unit.functions[0].body) if operation.name == name]
        assert found.attributes == dict(suffixes()[name][word] for word in opcode.split(".")[1:]), opcode


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_the_page_has_the_call_in_python_with_all_its_arguments(name: str) -> None:
    text = page(name, "a5")
    (call,) = re.findall(rf"pto\.{name}\(.*\)", text)
    given = inspect.signature(getattr(pto, name)).parameters
    assert all(re.search(rf"\b{argument}\b", call) for argument in given)
    assert ("wait=" in text) == ("waits = [0]" in text) == ("wait" in given)


def test_calls_in_cpp_have_their_template_arguments_and_events() -> None:
    for name, wanted in {
        "mgather": ["MGATHER<Coalesce, GatherOOB>(dst, table, idx[, events...])", "GatherExec", "scratch"],
        "mscatter": ["MSCATTER<ScatterAtomicOp, ScatterOOB>(table, src, idx)", "ScatterConflict", "[, events...]"],
        "tscatter": ["TSCATTER(dst, src, idx, events...)"],
    }.items():
        assert [part for part in wanted if part not in page(name, "a5")] == []


def test_every_profile_has_pages() -> None:
    for target in PROFILES:
        assert f"On {target}" in page("mgather", target)
