"""Launches of programs that were compiled to machine code.

| file | contents |
|---|---|
| `launching.py` | threads that run blocks: their callback to Python, how blocks are divided |
| `executable.py` | a program compiled, recompiled for numbers that had no code, launched |
"""
