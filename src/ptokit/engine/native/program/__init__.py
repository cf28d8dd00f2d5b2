"""Whole programs as machine code, and how they are launched.

| file | what it knows |
|---|---|
| `symbolic.py`, `sample.py` | numbers that remember what was asked of them, and which ones to ask with |
| `variant.py` | what an instruction does at such numbers, and for which others that holds |
| `slots.py`, `stage.py`, `expressions.py` | where all of a block lies, how code reaches it, whole numbers in code |
| `instruction.py`, `emitter.py` | one instruction; all statements, as one function over blocks |
| `forward.py`, `poison.py` | tiles that need not be filled at all, tiles that must be poison first |
| `thread.py` | a thread's state and arena, and the way back to Python |
| `independent.py`, `thread_count.py` | which blocks may run in parallel; how many threads pay where scatters wait |
| `ledger.py`, `launching.py` | scatters written down for later; blocks shared out among threads |
| `executable.py` | a program compiled, compiled again where numbers had no code, launched |
"""
