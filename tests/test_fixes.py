"""Fixes are data: each one of the corpus is printed in every language, and its code is read back."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import ptokit as pto
from ptokit import spec
from ptokit.finding import LANGUAGES, CodePart, Fix, OpName, Wording
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.fixes import Option, VecTile
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import PtoEnum, TileType, enumerator
from ptokit.program.ir import Barrier, CrossFlag, Flag, Stmt, walk
from ptokit.program.repair import SyncCode
from ptokit.text.cpp.types import tile_type
from ptokit.text.forms import read_program
from ptokit.text.mlir.reader import Reader
from ptokit.text.ptoas.types import read_type
from ptokit.text.spelling import instruction_of
from tests.conformance.harness import findings_on, targets_of
from tests.corpus.hazards.everything import CASES, few
from tests.loops import FULL

PYTHON = re.compile(r"pto\.[a-z_]+\(|\bnp\.|astype|reshape\(|`with |\.to\(|\bTile\(|\w=\"")
TEXT = re.compile(r"#pto|!pto|\bpto\.[a-z]|%[a-z]\w*|scf\.|arith\.")
CPP_NAMES = "|".join(sorted((name.upper() for name in INSTRUCTIONS), key=len, reverse=True))
NAME_OF_CPP = re.compile(rf"\b({CPP_NAMES})\b|\w::\w")
MARKS = {
    "": (re.compile(r"#pto|!pto|%[a-z]\w*|scf\.|arith\."), NAME_OF_CPP),
    "mlir": (PYTHON, NAME_OF_CPP),
    "as": (PYTHON, NAME_OF_CPP),
    "cpp": (PYTHON, TEXT),
}
"""What a fix in a language does not have: code of the others."""
OF_PYTHON = re.compile("KN-|SL-")
"""Clauses of the Python language: a fix without code is about a source in Python."""


def of_rules() -> Iterator[str]:
    """The fixes of all definitions, as far as they are the same for all calls."""
    for instruction in INSTRUCTIONS.values():
        yield from (rule.fix for rule in (*instruction.rules, *instruction.cpp.headers) if isinstance(rule.fix, str))
        yield from (fault.fix for fault in instruction.reports.faults.values())


def of_examples() -> Iterator[str]:
    """Those of the examples of all clauses, each on one of its targets."""
    for name, example in spec.examples().items():
        targets = targets_of(name)
        for number, code in enumerate(example.breaks):
            op = example.each[number % len(example.each)] if example.each else ""
            target = targets[(number + sum(name.encode())) % len(targets)]
            for finding in findings_on(code, target, op):
                if isinstance(finding.fix, Fix) or not OF_PYTHON.match(finding.rule):
                    yield finding.fix


def of_hazards() -> Iterator[str]:
    """Those of the corpus of hazards."""
    bad = [case for case in CASES if case.bad]
    for case in few(bad) if FULL else {case.kind: case for case in bad}.values():
        try:
            yield from (finding.fix for finding in case.launch().findings)
        except (pto.VerifyError, pto.OutOfBoundsError) as refused:
            yield from (finding.fix for finding in refused.findings)


@cache
def fixes() -> tuple[str, ...]:
    """Every fix, in Python."""
    found = [*of_rules(), *of_examples(), *of_hazards()]
    return tuple({(str(fix), isinstance(fix, Fix)): fix for fix in found if fix}.values())


@cache
def pieces() -> tuple[CodePart, ...]:
    """The code in all of them."""
    parts = (part for fix in fixes() if isinstance(fix, Fix) for part in fix.parts)
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, CodePart)))


def test_the_corpus_has_fixes_of_every_kind() -> None:
    kinds = {type(piece) for piece in pieces()}
    assert kinds >= {OpName, Option, SyncCode, VecTile, Wording} and len(fixes()) > 200


@pytest.mark.parametrize("form", LANGUAGES)
def test_every_fix_speaks_the_language_of_its_program(form: str) -> None:
    written = {fix.written(form) if isinstance(fix, Fix) else fix for fix in fixes()}
    wrong = {text for text in written for mark in MARKS[form] if mark.search(text)}
    assert all(written) and not wrong


def test_a_fix_is_the_text_of_python_and_keeps_its_parts() -> None:
    for fix in fixes():
        if isinstance(fix, Fix):
            assert fix == fix.written("") == fix.written("cpp").written("")


# --- code is read back


def call_in_python(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    values = [ast.literal_eval(each) if not isinstance(each, ast.Name) else each.id for each in call.args]
    return name, values, {key.arg or "": ast.literal_eval(key.value) for key in call.keywords}


def plain(piece: SyncCode) -> SyncCode:
    """The same with an id that is a number: some fixes leave it to the author."""
    return piece if piece.event.isdigit() or not piece.event else SyncCode(piece.stmt, "0")


def sync_in_python(text: str) -> Stmt:
    name, (*pipes, last), _ = call_in_python(text)
    if name == "barrier":
        return Barrier(last)
    core, _, pipe = pipes[0].rpartition(".")
    if name.startswith("sync_"):
        return CrossFlag(name.removeprefix("sync_"), core, pipe, last)
    return Flag(name.removesuffix("_flag"), pipe, pipes[1].rpartition(".")[2], last)


def sync_in_cpp(text: str) -> Stmt:
    found = re.fullmatch(r"(\w+)\((.*)\)", text)
    assert found
    name, given = found[1], [each.removeprefix("PIPE_").removeprefix("EVENT_ID") for each in found[2].split(", ")]
    if name == "pipe_barrier":
        return Barrier(*given)
    if name.endswith("_intra_block"):
        return CrossFlag(name.removesuffix("_intra_block"), "", given[0], int(given[1]))
    return Flag(name.removesuffix("_flag"), given[0], given[1], int(given[2]))


def sync_in_text(text: str, form: str, core: str) -> Stmt:
    if section := {"AIC": "section.cube", "AIV": "section.vector"}.get(core):
        text = f"{'pto.' if form == 'mlir' else ''}{section} {{\n{text}\n}}"
    head = {"mlir": "func.func @k() {\n%s\nreturn\n}", "as": ".kernel k\n%s\n"}[form]
    (stmt,) = walk(read_program(head % text, "k.pto").body)
    return stmt


SYNCS: dict[str, Callable[[str, str], Stmt]] = {
    "": lambda text, _: sync_in_python(text),
    "mlir": lambda text, core: sync_in_text(text, "mlir", core),
    "as": lambda text, core: sync_in_text(text, "as", core),
    "cpp": lambda text, _: sync_in_cpp(text),
}


def facts_of(stmt: Stmt, event: object = None) -> tuple[object, ...]:
    names = ("action", "src", "dst", "pipe")
    event = getattr(stmt, "event", None) if event in (None, "") else int(str(event))
    return type(stmt), *(getattr(stmt, name, None) for name in names), event


@pytest.mark.parametrize("form", LANGUAGES)
def test_flags_and_barriers_are_read_back(form: str) -> None:
    found = [plain(piece) for piece in pieces() if isinstance(piece, SyncCode)]
    for piece in found:
        assert facts_of(SYNCS[form](piece.written(form), piece.stmt.core)) == facts_of(piece.stmt, piece.event), piece
    assert len(found) > 10


@pytest.mark.parametrize("form", LANGUAGES)
def test_operations_are_known(form: str) -> None:
    for piece in (piece for piece in pieces() if isinstance(piece, OpName)):
        text = piece.written(form)
        if form == "cpp":
            name, _, given = text.partition("(")
            assert name == INSTRUCTIONS[piece.name].op.upper()
            operands = given.rstrip(")").split(", ") if given else []
        elif form:
            name, *operands = re.findall(r"[\w.]+|%\w+", text.replace("ins(", "(").replace("outs(", "("))
            found = instruction_of(name.removeprefix("pto."))
            assert found is INSTRUCTIONS[piece.name] and name.startswith("pto.") == (form == "mlir")
        elif piece.operands:
            name, operands, _ = call_in_python(text)
            assert name == piece.name
        else:
            assert hasattr(pto, text.removeprefix("pto."))
            continue
        assert len(operands) == len(piece.operands or ())


def modifier_in_text(text: str) -> str:
    """The word of an attribute."""
    name, _, _ = text.partition(" = ")
    cursor = Reader(text, "")
    cursor.advance()
    value = cursor.entry_value(name)
    return value.short or value.text


@pytest.mark.parametrize("form", LANGUAGES)
def test_modifiers_and_options_are_read_back(form: str) -> None:
    for piece in (piece for piece in pieces() if isinstance(piece, Option) and piece.members):
        first, *others = re.split(r", | or ", piece.written(form))
        members: list[PtoEnum] = []
        if not form:
            _, _, given = call_in_python(f"f({first})")
            words = [given[piece.name], *map(ast.literal_eval, others)]
            members = [piece.enum.parse(word) for word in words]
        elif form == "cpp":
            enum, _, name = first.partition("::")
            by_name = {enumerator(member): member for member in piece.enum}
            members = [by_name[f"{enum}::{each}"] for each in (name, *others)]
        else:
            key, _, word = first.replace(" = ", "=").partition("=")
            word = word.removeprefix("#pto<").rstrip(">").rpartition(" ")[2].strip('"').lower()
            assert key and (" = " not in first or modifier_in_text(first))
            members = [piece.enum.parse(each) for each in (word, *others)]
        assert tuple(members) == piece.members


@pytest.mark.parametrize("form", LANGUAGES)
def test_tiles_are_read_back(form: str) -> None:
    for piece in (piece for piece in pieces() if isinstance(piece, VecTile)):
        text = piece.written(form)
        made = TileSpec(piece.dtype, TileType.Vec, piece.rows, piece.cols, *piece.valid)
        if not form:
            _, given, options = call_in_python(text)
            assert pto.Tile(*given, **options).spec == made
        elif form == "mlir":
            tile: Any = Reader(text, "").type().data
            assert (tile.loc, tile.dtype.text) == ("vec", piece.dtype.mlir)
            assert (tile.rows, tile.cols, (tile.v_row, tile.v_col)) == (made.rows, made.cols, made.valid)
        elif form == "as":
            assert read_type(text) == made
        else:
            assert text == tile_type(made, made.valid)
