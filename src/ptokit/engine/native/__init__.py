"""The native engine: moves and programs as LLVM code. llvmlite is imported nowhere else, and only when code is needed.

| file or folder | what it knows |
|---|---|
| `emit.py`, `jit.py`, `store.py` | LLVM text with operators; text to machine code, cached; machine code on disk |
| `workers.py` | threads that wait for work, and how a run of them is stopped |
| `numbers.py`, `address.py` | arithmetic on elements; layouts as address arithmetic |
| `resolve.py`, `move.py` | the index stage: values read once, checked, remapped; then the moves themselves |
| `compute/` | computing operations |
| `whole/` | moves over whole arrays, and how they are divided among threads |
| `program/` | whole programs |
"""
