"""Gathers and scatters over whole arrays on a GPU.

| file | contents |
|---|---|
| `calls.py` | a call, prepared once for each kind: which kernels, in which order |
| `kernels.py` | the kernels |
| `pieces.py` | rows in pieces of up to 16 bytes, and layouts that count in them |
| `sums.py`, `atomics.py` | values combined one after the other, in registers; in any order, in memory |
"""
