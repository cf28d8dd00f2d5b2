"""Launches of programs that were compiled to machine code.

| file | contents |
|---|---|
| `thread.py` | a thread that runs blocks: its callback to Python |
| `thread_count.py` | how many threads pay with deferred scatters |
| `ledger.py`, `launching.py` | deferred scatters; blocks divided among threads |
| `executable.py` | a program compiled, recompiled for numbers that had no code, launched |
"""
