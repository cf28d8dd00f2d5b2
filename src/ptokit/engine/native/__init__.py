"""The native engine: `engine/llvm` code on the CPU. It imports llvmlite only when code is needed.

| file or folder | contents |
|---|---|
| `jit.py`, `store.py` | LLVM text to machine code, cached; machine code on disk |
| `workers.py` | threads that wait for work, and how a run of them is stopped |
| `whole/` | moves over whole arrays, and how they are divided among threads |
| `program/` | launches of whole programs |
"""
