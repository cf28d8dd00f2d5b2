"""Gathers and scatters over whole arrays, and of what kernels have written down.

| file | what it knows |
|---|---|
| `calls.py` | a call, prepared once for each kind: check, resolve, then one of the ways |
| `strategies.py` | the ways to share lanes among threads, and which one is taken |
| `phases.py`, `partition.py`, `sums.py` | the native functions behind those ways |
| `mover.py`, `block.py` | the rows that those move, and what they are told |
"""
