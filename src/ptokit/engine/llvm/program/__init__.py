"""Whole programs as one function over blocks.

| file | contents |
|---|---|
| `sample.py` | sample values for the numbers of a launch |
| `slots.py`, `stage.py`, `expressions.py` | the memory of a block, how code addresses it, whole numbers in code |
| `execution.py`, `emitter.py` | one instruction; all statements, as one function over blocks |
| `tiles.py` | instructions lowered at sample values; tiles without memory, in registers, that must be poisoned |
| `pipelines.py` | loops of products whose loads run ahead |
| `independent.py` | which blocks may run in parallel; scatters that may be deferred |
| `compiler.py` | a program, and the numbers that its code is made for |
| `fallback.py` | the memory of a block in Python, and steps of the reference engine over it |
"""
