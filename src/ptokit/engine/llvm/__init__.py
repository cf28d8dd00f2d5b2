"""LLVM code for the moves, computations and programs of tiles, for every kind of chip.

| file or folder | contents |
|---|---|
| `emit.py` | LLVM text with operators |
| `numbers.py`, `address.py` | arithmetic on elements; layouts as address arithmetic |
| `resolve.py`, `move.py` | the index stage: values read once, checked, remapped; then the moves themselves |
| `compute/` | computing operations |
| `program/` | whole programs as one function over blocks |
"""
