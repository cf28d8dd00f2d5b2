"""A pytest plugin: with `-p tests.engine.cuda.emulation`, tests of the native engine run the CUDA engine instead.

Its kernels run on the CPU; with `PTOKIT_TEST_GPU=1` on a GPU. At the end it says how many launches the reference engine
had to finish.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ptokit.engine.cuda import device as devices
from ptokit.engine.cuda import executable as cuda_executable
from ptokit.engine.cuda.executable import CudaExecutable
from ptokit.engine.native.program import executable
from ptokit.engine.runnable import NATIVE
from tests.engine.cuda.emulated import EMULATED, ON_GPU, device_under_test

counts: Counter[str] = Counter()


class EmulatedExecutable(CudaExecutable):
    """The CUDA engine in the place of the native one."""

    engine = NATIVE
    chip = EMULATED

    def small(self, *given: Any) -> Any:
        return None if ON_GPU else super().small(*given)

    def launch(self, *given: Any) -> str:
        counts["launches"] += 1
        return super().launch(*given)


def pytest_configure() -> None:
    from tests.engine.native import launches

    device = device_under_test()
    devices.current = lambda: device
    executable.NativeExecutable = launches.NativeExecutable = EmulatedExecutable
    launches.NATIVE = (2, 2)  # of a launch that fails, later blocks may have written
    hosted = cuda_executable.hosted

    def counted(*given: Any) -> Any:
        counts["finished by the reference engine"] += 1
        return hosted(*given)

    cuda_executable.hosted = counted


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what ran where."""
    terminalreporter.write_line(", ".join(f"{count} {what}" for what, count in counts.items()))
