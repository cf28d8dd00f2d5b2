"""The native engine: `engine/llvm` code on the CPU. It imports llvmlite only when code is needed.

| file or folder | contents |
|---|---|
| `jit.py` | LLVM text to machine code, cached |
| `host.py` | the processor: what pays on it, by architecture, by its caches, or measured |
| `workers.py`, `openmp.py` | threads that wait for work, and how a run of them is stopped; the threads of PyTorch |
| `whole/` | moves over whole arrays, and how they are divided among threads |
| `program/` | launches of whole programs |
"""
