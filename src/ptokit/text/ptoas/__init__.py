"""PTO-AS, the plain form of the documents: read into a tree, printed in one canonical spelling.

unit = read_ptoas(text, "lookup.ptoas")
print_ptoas(unit)                 # a fixed point: reading it again prints the same
format_ptoas(text)                # the same with every comment

The grammar is in docs/ptoas.md. A text that cannot be read raises a TextError.

| file | what it knows |
|---|---|
| `statement.py` | text to tokens, by the cursor of MLIR; tokens to statements |
| `types.py` | types, numbers and words, in all spellings of the documents |
| `shapes.py` | opcodes, operand orders, suffixes and keys, as tables |
| `reader.py`, `builder.py` | statements to operations |
| `scope.py` | values, and the inference of those that are not declared |
| `writer.py` | operations to text |
"""

from __future__ import annotations

from ptokit.text.errors import joined
from ptokit.text.ptoas.reader import PtoasReader
from ptokit.text.ptoas.writer import print_unit
from ptokit.text.tree import Unit


def read_ptoas(text: str | bytes, file: str = "<text>") -> Unit:
    """Read a text. A kernel without a name has that of the file."""
    return _whole(PtoasReader(text, file).unit())


def parse_ptoas(text: str | bytes, file: str = "<text>") -> Unit:
    """Read what can be read of a text. The tree has the errors of the rest."""
    return PtoasReader(text, file).unit()


def _whole(unit: Unit) -> Unit:
    if unit.errors:
        raise joined(unit.errors)
    return unit


def print_ptoas(unit: Unit) -> str:
    """The canonical text of a tree, with the comments of its operations."""
    return print_unit(unit, {})


def format_ptoas(text: str | bytes, file: str = "<text>") -> str:
    """The canonical text of a text, with all its comments."""
    reader = PtoasReader(text, file)
    return print_unit(_whole(reader.unit()), reader.notes)
