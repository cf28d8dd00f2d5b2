"""C++ kernels: compiled against ptokit's own headers, run, recorded."""
