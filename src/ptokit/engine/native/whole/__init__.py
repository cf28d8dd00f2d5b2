"""Gathers and scatters over whole arrays.

| file | what it knows |
|---|---|
| `moves.py` | a call, prepared once for each kind: check, resolve, then one of the strategies |
| `strategies.py` | strategies that divide lanes among threads, and how one is chosen |
| `phases.py`, `partition.py`, `private.py`, `sums.py` | the native functions of the strategies |
| `runs.py` | the strategy for lanes whose rows form arithmetic progressions |
| `bags.py` | bags of gathered rows, reduced: of one table, or of many in one launch |
| `updates.py` | gradients summed by row, stored or applied |
| `short.py` | little work in one call from Python, through no ctypes |
| `mover.py`, `block.py` | the rows that those move; their arguments, machine code, and units of work of one launch |
"""
