"""The CUDA engine: `engine/llvm` code on a GPU of NVIDIA. llvmlite makes PTX, CuPy loads and launches it.

| file | contents |
|---|---|
| `device.py` | a GPU: kernels, memory, copies |
| `ptx.py` | LLVM text to PTX |
| `resident.py` | arrays of the host on a device |
| `stage.py` | a program as a kernel: a block of the program is a block of threads |
"""
