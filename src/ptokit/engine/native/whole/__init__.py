"""Gathers and scatters over whole arrays.

| file | what it knows |
|---|---|
| `moves.py` | a call, prepared once for each kind: check, resolve, then one of the strategies |
| `strategies.py` | strategies that divide lanes among threads, and how one is chosen |
| `regular.py` | the strategy for lanes whose rows form arithmetic progressions |
| `phases.py`, `partition.py`, `private.py`, `runs.py`, `sums.py` | the native functions of the strategies |
| `bags.py`, `bag_calls.py` | bags of gathered rows, reduced: the native function, and its call |
| `updates.py`, `update_calls.py` | gradients summed by row, stored or applied: the native functions, and their call |
| `table_bags.py` | bags of many tables in one launch |
| `short.py` | little work in one call from Python, through no ctypes |
| `mover.py`, `block.py` | the rows that those move; their arguments, and units of work that one launch does |
"""
