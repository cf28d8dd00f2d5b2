"""Gathers and scatters over whole arrays on a GPU.

| file | contents |
|---|---|
| `moves.py` | a call, prepared once for each kind: which kernels, in which order; their text |
| `check.py` | the check of indices, and how the host learns of its result; scratch memory for later calls |
| `kinds.py`, `site.py` | what their code depends on, rows in pieces of up to 16 bytes; a kernel that is being written |
| `direct.py` | kernels of rows, each by itself; of indices |
| `grouping.py` | lanes by rows: memory, and kernels that bring them together |
| `segments.py` | kernels that combine rows with their lanes: few of a row; many |
| `bag_launches.py` | bags of gathered rows, reduced, of one table or many |
| `bag_source.py` | gradients of bags, passed to the rows: what lanes read through bags |
| `update_calls.py` | gradients summed by row, stored or applied: the kernels, and their call |
| `combining.py` | values combined one after the other, in registers; in any order, in memory |
"""
