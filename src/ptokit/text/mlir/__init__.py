"""MLIR text with the dialect `pto`, on xDSL: read into operations, printed in one canonical form, made into trees.

| file | what it knows |
|---|---|
| `module.py` | a whole text: reading, printing, and what is said of a text that cannot be read |
| `lexer.py`, `reader.py`, `writer.py`, `comments.py` | text to operations and back, comments included |
| `loose.py` | ops in a form that nobody knows |
| `dialect.py`, `shapes.py` | the ops as a table, each by the shape of its text |
| `ops.py`, `pieces.py`, `destinations.py` | what shapes are made of: ops with parts, pieces, `ins(...) outs(...)` |
| `types.py`, `attributes.py`, `floats.py` | types, attributes, floating-point numbers bit for bit |
| `func.py`, `versions.py` | functions and branches with nothing lost; versions of the grammar |
| `to_tree.py`, `draft.py` | operations as a tree; a tree as text |
"""

from ptokit.text.limits import MAX_BYTES, MAX_DEPTH
from ptokit.text.mlir.draft import draft
from ptokit.text.mlir.module import Module, Version, print_module, read_module
from ptokit.text.mlir.to_tree import is_level_two, unit_of

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "Module",
    "Version",
    "draft",
    "is_level_two",
    "print_module",
    "read_module",
    "unit_of",
]
