"""Fixes in the language of a program's source. They are written for Python; this table has the words of the others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ptokit.finding import Finding
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.program.ir import CPP

WORDS: tuple[tuple[str, str, str], ...] = (
    (r"`with pto\.when\(n > 0\):?`", "`if (n > 0)`", "`scf.if`"),
    (r"`with pto\.when\(\.\.\.\):?`", "`if (...)`", "`scf.if`"),
    (r"pto\.min\((\w+), (\w+)\)", r"the smaller of \1 and \2", r"arith.minsi of \1 and \2"),
    (r" \(pto\.min\)", "", " (arith.minsi)"),
    (r"make it with addr=, or call pto\.tassign\((\w+), address\) first", r"TASSIGN(\1, address) first",
     r"give %\1 an address: `addr = ...`"),
    (r'pto\.sync_set\("(\w+)", id\), pto\.sync_wait\("(\w+)", id\)',
     r"set_intra_block(PIPE_\1, id), wait_intra_block(PIPE_\2, id)",
     r"pto.sync.set <PIPE_\1>, id, pto.sync.wait <PIPE_\2>, id"),
    (r", or give tiles addresses \(addr=\)", ", or TASSIGN addresses", ", or give tiles addresses"),
    (r"give tiles addresses \(addr=\)", "TASSIGN addresses to tiles", "give tiles addresses"),
    (r"give it valid=\((\w+), (\w+)\), or take the column: src\[:, 0:1\]", r"give it \1 x \2 valid elements",
     r"give it v_row=\1, v_col=\2"),
    (r"give valid=", "give it fewer valid rows or columns", "give v_row= and v_col="),
    (r"shrink valid=", "use fewer valid rows or columns", "shrink v_row= or v_col="),
    (r"pass pto\.GlobalTensor\(np\.empty\((\d+), '(\w+)'\)\)",
     r"pass a GlobalTensor of \1 \2", r"pass a tensor of \1 \2"),
    (r"pto\.GlobalTensor\(array\.astype\('(\w+)'\)\)", r"a GlobalTensor of \1", r"a tensor of \1"),
    (r"pto\.GlobalTensor(?:\(array\))?", "GlobalTensor", "a tensor view"),
    (r": (?:\w+)\.astype\('\w+'\)", "", ""),
    (r'pto\.target\("([^"]+)"\)', r"--target \1", r"--target \1"),
)  # fmt: skip
"""A pattern of Python, what replaces it in C++, and in text."""
NAME = re.compile(rf"\b(?:pto\.)?({'|'.join(sorted(INSTRUCTIONS, key=len, reverse=True))})\b")
"""A call of an instruction: `pto.tload`, or `tload`."""


def in_words(fix: str, form: str) -> str:
    """A fix in the language of a form."""
    if not form or not fix:
        return fix
    is_cpp = form.startswith(CPP)
    for pattern, cpp, text in WORDS:
        fix = re.sub(pattern, cpp if is_cpp else text, fix)
    if is_cpp:
        return NAME.sub(lambda name: name[1].upper(), fix)
    return fix if form == "mlir" else NAME.sub(lambda name: name[1], fix)


def all_in_words(findings: Iterable[Finding], form: str) -> list[Finding]:
    """Findings with their fixes in the language of a form."""
    return [replace(each, fix=in_words(each.fix, form)) if form and each.fix else each for each in findings]
