"""Launches of programs that were compiled to machine code.

| file | contents |
|---|---|
| `thread.py` | a thread that runs blocks: its callback to Python |
| `launching.py` | blocks divided among threads |
| `executable.py` | a program compiled, recompiled for numbers that had no code, launched |
"""
