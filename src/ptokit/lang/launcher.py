"""What can be launched over a grid, and the launch: verify, then run every block."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from ptokit.engine.storage import Storage
from ptokit.finding import VerifyError
from ptokit.lang.arguments import Arguments
from ptokit.lang.context import Mode
from ptokit.lang.launch import Collector, Run, check_options, grid_of, mode_of, refuse_inside
from ptokit.lang.traced import Traced
from ptokit.lang.where import refuse
from ptokit.program.expr import Var


class Launchable(ABC):
    """A kernel, wherever its program comes from: `kernel[grid](arrays..., target="a5")`."""

    def __init__(self, name: str, module: str | None) -> None:
        self.name = name
        self.module = module
        self.warned: dict[Any, Any] = {}
        """The hazards that were shown, as Python's warnings remember them."""

    def __getitem__(self, grid: object) -> Launcher:
        """The kernel over a grid of so many blocks."""
        return Launcher(self, grid_of(grid))

    def __call__(self, /, *args: object, **options: object) -> None:
        """A kernel needs a grid."""
        raise refuse("KN-17", f"{self.name} is launched over a grid", f"write {self.name}[blocks](...)")

    @abstractmethod
    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """Sort what a launch was given."""

    def bind_for_check(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """Sort what a check was given, which runs nothing."""
        return self.bind(args, keywords)

    @abstractmethod
    def trace(self, arguments: Arguments, mode: Mode) -> Traced:
        """The program for these arguments."""

    def storages(self, arguments: Arguments) -> dict[str, Storage]:
        """The memory of each array argument of the program."""
        return {name: tensor.storage for name, tensor in arguments.tensors.items()}

    @abstractmethod
    def run_untraced(self, arguments: Arguments, mode: Mode, grid: int, collector: Collector) -> None:
        """Run the author's own function for every block, with real values."""


class Launcher:
    """A kernel with its grid, ready to be called."""

    __slots__ = ("grid", "kernel")

    def __init__(self, kernel: Launchable, grid: int) -> None:
        self.kernel = kernel
        self.grid = grid

    def __call__(
        self,
        /,
        *args: object,
        target: str | None = None,
        engine: str = "auto",
        threads: int | None = None,
        strict: bool | None = None,
        header: bool | None = None,
        dyn_ub: int | None = None,
        launch: str = "standard",
        options: object = None,
        debug: bool = False,
        **keywords: Any,
    ) -> Run:
        """Verify and run: the kernel's own arguments by position or name, and how to launch it.

        `target`, `strict`, `header` and `dyn_ub` are those of the current target unless given. `debug=True` runs the
        function untraced, with real values.
        """
        refuse_inside("a launch")
        check_options(engine, threads, launch, options)
        mode = mode_of(target, header, strict, dyn_ub)
        arguments = self.kernel.bind(args, keywords)
        collector = Collector(self.kernel.module, self.kernel.warned)
        run = self._run_untraced if debug else self._run
        seconds = run(arguments, mode, collector)
        return Run(tuple(collector.found), "reference", seconds, mode.profile.name, self.grid)

    def _run(self, arguments: Arguments, mode: Mode, collector: Collector) -> float:
        kernel = self.kernel
        traced = kernel.trace(arguments, mode)
        verdict = traced.verdict(mode, self.grid)
        if verdict.errors:
            raise VerifyError(verdict.errors)
        storages = kernel.storages(arguments)
        for name in traced.writes:
            if not storages[name].writable:
                raise ValueError(f"{kernel.name}: {name} is read-only; pass a writable array")
        if verdict.remarks:
            collector(verdict.remarks)
        integers = {Var(name): value for name, value in arguments.integers.items()}
        began = time.perf_counter()
        traced.executable(mode).launch(storages, integers, self.grid, collector)
        return time.perf_counter() - began

    def _run_untraced(self, arguments: Arguments, mode: Mode, collector: Collector) -> float:
        began = time.perf_counter()
        self.kernel.run_untraced(arguments, mode, self.grid, collector)
        return time.perf_counter() - began
