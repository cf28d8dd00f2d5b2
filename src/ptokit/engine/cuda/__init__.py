"""The CUDA engine: `engine/llvm` code on a GPU of NVIDIA. llvmlite makes PTX, CuPy loads and launches it.

| file or folder | contents |
|---|---|
| `ptx.py`, `device.py` | LLVM text to PTX; a GPU: kernels, memory, copies, streams |
| `stage.py` | a program as a kernel: a block of the program is a block of threads |
| `resident.py` | arrays of the host on a device, and of a device on the host |
| `deferred.py` | scatters that blocks record, and that take effect afterwards |
| `executable.py` | a program made ready: compiled, launched; the statements that kernels leave to Python |
| `whole/` | gathers and scatters over whole arrays |
"""
