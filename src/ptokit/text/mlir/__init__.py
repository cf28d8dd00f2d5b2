"""MLIR text with the dialect `pto`: read into operations, printed in one canonical form, made into trees.

| file | what it knows |
|---|---|
| `module.py` | a whole text: reading, and printing for versions of the grammar |
| `ir.py` | operations as their text says them |
| `parser.py` | names of values, regions and blocks, over the tokens of `text/cursor.py` |
| `reader.py` | text to operations; how reading continues after errors |
| `writer.py`, `comments.py` | operations to text, comments included |
| `builtin.py` | ops of MLIR itself |
| `verbatim.py` | ops with unknown syntax |
| `dialect.py`, `shapes.py` | the ops of `pto` as a table, by the shapes of their text; `ins(...) outs(...)` |
| `pieces.py` | what the shapes of `text/ops.py` are made of |
| `types.py`, `attributes.py`, `floats.py` | types, attributes, numbers bit for bit |
| `to_tree.py`, `from_tree.py` | operations and types as a tree, a tree as operations |
"""

from ptokit.text.limits import MAX_BYTES as MAX_BYTES
from ptokit.text.limits import MAX_DEPTH as MAX_DEPTH
from ptokit.text.mlir.from_tree import module_of as module_of
from ptokit.text.mlir.module import Module as Module
from ptokit.text.mlir.module import parse_module as parse_module
from ptokit.text.mlir.module import print_module as print_module
from ptokit.text.mlir.module import read_module as read_module
from ptokit.text.mlir.to_tree import is_level_two as is_level_two
from ptokit.text.mlir.to_tree import unit_of as unit_of
