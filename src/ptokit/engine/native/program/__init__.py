"""Whole programs as machine code, and how they are launched.

| file | what it knows |
|---|---|
| `symbolic.py` | numbers that record the decisions taken on them, and sample values for them |
| `variant.py` | an instruction lowered at sample values, and the conditions under which that is valid |
| `slots.py`, `stage.py`, `expressions.py` | the memory of a block, how code addresses it, whole numbers in code |
| `instruction.py`, `emitter.py` | one instruction; all statements, as one function over blocks |
| `forward.py`, `poison.py` | tiles that are never materialised, tiles that must be poisoned first |
| `thread.py` | a thread's state and arena, and the fallback to Python |
| `independent.py`, `thread_count.py` | which blocks may run in parallel; how many threads pay with deferred scatters |
| `ledger.py`, `launching.py` | deferred scatters; blocks divided among threads |
| `executable.py` | a program compiled, recompiled for numbers that had no code, launched |
"""
