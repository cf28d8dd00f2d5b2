"""From a tree of operations to a `Program`: functions, loops and branches become statements, calls are inlined.

| file | what it knows |
|---|---|
| `program.py` | the program of a text: its function, and the last steps |
| `lowering.py` | the state of a lowering: values and their meaning, names, bodies |
| `statements.py`, `control.py`, `arithmetic.py`, `instructions.py` | the operations, by kind |
| `opaque.py` | operations that programs have by their effects only |
"""

from ptokit.text.lower.program import kernels, lower, mode_of

__all__ = ["kernels", "lower", "mode_of"]
