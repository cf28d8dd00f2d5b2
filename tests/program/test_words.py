"""Fixes in the language of a source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ptokit
from ptokit.program.words import in_words

PYTHON = re.compile(r"pto\.[a-z]\w*|\bvalid=|\baddr=|astype|`with ")


@pytest.mark.parametrize(
    ("fix", "cpp", "text"),
    [
        ("use pto.tload, or read it later", "use TLOAD, or read it later", "use pto.tload, or read it later"),
        ("pto.min(8, n)", "the smaller of 8 and n", "arith.minsi of 8 and n"),
        ("skip it: `with pto.when(n > 0):`", "skip it: `if (n > 0)`", "skip it: `scf.if`"),
        ("make it with addr=, or call pto.tassign(x, address) first", "TASSIGN(x, address) first",
         "give %x an address: `addr = ...`"),
        ("convert with tcvt first", "convert with TCVT first", "convert with tcvt first"),
    ],
)  # fmt: skip
def test_words(fix: str, cpp: str, text: str) -> None:
    assert (in_words(fix, "cpp"), in_words(fix, "mlir"), in_words(fix, "")) == (cpp, text, fix)


def test_no_fix_of_a_rule_speaks_python_in_cpp() -> None:
    root = Path(ptokit.__file__).parent
    texts = [file.read_text() for folder in ("isa", "program", "machine") for file in (root / folder).rglob("*.py")]
    fixes = [match[1] for text in texts for match in re.finditer(r"""fix=f?"([^"\n]*)\"""", text)]
    left = {fix for fix in fixes if PYTHON.search(in_words(fix, "cpp"))}
    assert len(fixes) > 50 and not left
