"""The CUDA engine: `engine/llvm` code on a GPU of NVIDIA. llvmlite makes PTX, CuPy loads and launches it.

| file | contents |
|---|---|
| `ptx.py` | LLVM text to PTX |
| `stage.py` | a program as a kernel: a block of the program is a block of threads |
"""
