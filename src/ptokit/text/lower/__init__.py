"""From a tree of operations to a `Program`: functions, loops and branches become statements, calls are written out.

| file | what it knows |
|---|---|
| `program.py` | the program of a text: which function it is, and what remains to be done at the end |
| `lowering.py` | the program on its way: values, names, bodies |
| `arguments.py`, `statements.py`, `control.py`, `arithmetic.py`, `instructions.py` | the operations, by kind |
| `operands.py` | what a value may stand for, and operands made of it |
"""

from ptokit.text.lower.program import lower, mode_of

__all__ = ["lower", "mode_of"]
