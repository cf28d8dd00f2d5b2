"""Launches of programs that were compiled to machine code.

| file | contents |
|---|---|
| `executable.py` | threads that run blocks; a program compiled, recompiled for numbers that had no code, launched |
"""
