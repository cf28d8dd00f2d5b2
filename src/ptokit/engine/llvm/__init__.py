"""LLVM code for the moves, computations and programs of tiles, for every kind of chip.

| file or folder | contents |
|---|---|
| `compiled.py`, `store.py` | code that LLVM makes of text: in memory, on disk |
| `emit.py` | what code depends on of a processor; LLVM text with operators, in phases that lanes share |
| `numbers.py`, `address.py` | arithmetic on elements; layouts as address arithmetic |
| `resolve.py` | the index stage: values read once, checked, remapped |
| `move.py`, `shared_move.py` | moves of one thread; moves that lanes share |
| `bag_code.py`, `row_code.py` | bags of gathered rows, reduced; gradients of rows, summed, stored and applied |
| `compute/` | computing operations |
| `program/` | whole programs as one function over blocks |
"""
