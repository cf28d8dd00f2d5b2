"""Findings in the words of the author: names of tiles and arrays, and the syntax of the program's source."""

from __future__ import annotations

import re
from dataclasses import replace

from ptokit.finding import Finding
from ptokit.program.calls import all_operands
from ptokit.program.ir import CPP, Instr, LoadScalar, Operand, Program, Stmt, TileUse, View
from ptokit.program.words import in_words

_CHOICE = re.compile(r'\b(\w+)="?(\w+)\b"?((?:(?:,| or) "\w+")*)')
"""A modifier in Python, and other words for it: `oob="clamp", "wrap" or "zero"`."""


def described(finding: Finding, program: Program, stmt: Stmt) -> Finding:
    """A finding of a statement, at its place."""
    where = finding.where or stmt.where
    if not isinstance(stmt, Instr):
        return replace(finding, where=where)
    names = {operand: name_of(program, used) for operand, used in operands_of(stmt).items()}
    named = tuple((operand, name) for operand, name in names.items() if name)
    return replace(finding, where=where, names=named, fix=in_source(program, stmt, finding.fix))


def in_source(program: Program, instr: Instr, fix: str) -> str:
    """A fix in the syntax of the program's source."""
    write = _enumerator if program.form.startswith(CPP) else _attribute
    return in_words(_CHOICE.sub(lambda choice: write(instr, choice), fix), program.form) if program.form else fix


def operands_of(stmt: Stmt) -> dict[str, Operand]:
    """The operands of a statement by name."""
    if isinstance(stmt, Instr):
        return all_operands(stmt)
    return {"source": stmt.source} if isinstance(stmt, LoadScalar) else {}


def name_of(program: Program, operand: Operand | None) -> str:
    """The author's name of a tile or an array; empty if it has none."""
    name = ""
    if isinstance(operand, View):
        name = operand.argument
    elif isinstance(operand, TileUse) and program.tiles[operand.tile].named:
        name = operand.tile
    return f"%{name}" if name and program.form and not program.form.startswith(CPP) else name


def _enumerator(instr: Instr, choice: re.Match[str]) -> str:
    """A modifier as C++ writes it: `GatherOOB::Clamp, Wrap or Zero`."""
    modifier = next((each for each in instr.definition.modifiers if each.name == choice[1]), None)
    if modifier is None:
        return choice[0]
    names = {each.text: each.name for each in modifier.enum}
    if choice[2] not in names:
        return choice[0]
    words = re.sub(r'"(\w+)"', lambda word: names.get(word[1], word[1]), choice[3])
    return f"{modifier.enum.__name__}::{names.get(choice[2], choice[2])}{words}"


def _attribute(instr: Instr, choice: re.Match[str]) -> str:
    """A modifier as text writes it: `gatherOob = #pto<gather_oob clamp>, wrap or zero`."""
    modifier = next((each for each in instr.definition.modifiers if each.name == choice[1]), None)
    if modifier is None or modifier.text is None or not modifier.text.key:
        return choice[0]
    member = next((each for each in modifier.enum if each.text == choice[2]), None)
    return choice[0] if member is None else modifier.text.literal(member) + choice[3].replace('"', "")
