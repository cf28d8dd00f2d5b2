"""The native engine: moves and programs as LLVM code. llvmlite is imported nowhere else, and only when code is needed.

| file | what it knows |
|---|---|
| `jit.py` | LLVM text to machine code, once for each key |
| `store.py` | machine code on disk |
| `workers.py` | threads that wait for work, and how a run of them is stopped |
| `compute.py` | computing operations: each by name, for which types, one loop nest each |
| `walk.py` | regions lane by lane, or in vectors where they lie so |
| `elements.py`, `transcendental.py`, `convert.py` | arithmetic on elements, `exp` and `log`, conversions |
| `rows.py`, `masks.py`, `cube.py` | rows reduced, comparisons and selections, matrix products |
| `resolve.py` | the index stage: values read once, checked, remapped |
| `whole.py`, `strategies.py` | whole-array moves, the ways to share them among threads, and which one is taken |
| `phases.py`, `mover.py`, `block.py` | the native functions behind those ways, the rows they move, what they are told |
"""
