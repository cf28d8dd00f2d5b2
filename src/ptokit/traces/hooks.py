"""The calls that are recorded: functions of ptokit are wrapped while a block runs, those of torch seen by a mode.

Blocks of several threads and tasks overlap in any order: the first that begins installs the hooks, and the last that
ends removes them. Outside such blocks nothing is wrapped, and calls cost what they always cost.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

from ptokit import ops
from ptokit.traces.described import array_call, functions, operator
from ptokit.traces.recorder import IndexRecorder

CALLS = ("gather", "scatter", "gather_along", "scatter_along", "gather_nd", "scatter_nd")
"""Functions of ptokit that are recorded."""


class _ThreadMode:
    """How torch's calls of a thread are seen: one mode for all recorders, which only the thread itself can enter."""

    def __init__(self) -> None:
        self.is_begun_inside = False
        """Whether the thread has started while indices were recorded."""
        self._mode: Any = None

    @property
    def is_seen(self) -> bool:
        """Whether calls are recorded now."""
        return bool(_blocks) and (self.is_begun_inside or any(thread is self for _, thread in [*_blocks]))

    def settle(self) -> None:
        """Enter the mode or leave it, by the blocks that run; called in the thread itself. A mode that another has been
        entered above stays, and sees nothing."""
        torch: Any = sys.modules.get("torch")
        if not hasattr(torch, "overrides"):  # it is not imported, or not yet
            return
        if self.is_seen and self._mode is None:
            self._mode = torch_mode(torch, self)
            self._mode.__enter__()
        elif self._mode is not None and not self.is_seen and torch.overrides._get_current_function_mode() is self._mode:
            self._mode.__exit__(None, None, None)
            self._mode = None


_lock = threading.RLock()
_blocks: list[tuple[IndexRecorder, _ThreadMode]] = []
"""The recorders of the blocks that run, and the threads in which these began."""
_hooks = ExitStack()
"""What removes the hooks that are installed."""
_here = threading.local()


def _this_thread() -> _ThreadMode:
    if not hasattr(_here, "mode"):
        _here.mode = _ThreadMode()
    return _here.mode


def _see(describe: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Show a call to all recorders."""
    for recorder, _ in [*_blocks]:
        recorder.see(describe, *args, **options)


@contextmanager
def observed(recorder: IndexRecorder) -> Generator[None, None, None]:
    """Calls in this block are recorded. It may end in another thread than it began in."""
    own = recorder, _this_thread()
    try:
        with _lock:
            _blocks.append(own)
            if len(_blocks) == 1:
                for hook in (*map(_wrapped, CALLS), _threads_seen(), _torch_seen()):
                    _hooks.enter_context(hook)
            _this_thread().settle()
        yield
    finally:
        with _lock:
            _blocks.remove(own)
            if not _blocks:
                _hooks.close()
            _this_thread().settle()


@contextmanager
def _wrapped(name: str) -> Generator[None, None, None]:
    """A function of ptokit that shows its arguments to the recorders, under all its public names."""
    original: Callable[..., Any] = getattr(ops, name)
    signature = inspect.signature(original)

    @wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        _see(array_call, name, signature, args, options)
        return original(*args, **options)

    homes = [vars(sys.modules[module]) for module in ("ptokit", "ptokit.ops")]
    before = [home.get(name) for home in homes]
    for home in homes:
        home[name] = call
    yield
    for home, value in zip(homes, before, strict=True):
        if home.get(name) is not call:  # the program has replaced it
            continue
        if value is None:
            del home[name]  # it is loaded again when it is first used
        else:
            home[name] = value


@contextmanager
def _threads_seen() -> Generator[None, None, None]:
    """Threads that start from now on are seen."""
    run = threading.Thread.run

    def run_seen(self: threading.Thread) -> None:
        thread = _this_thread()
        thread.is_begun_inside = bool(_blocks)
        thread.settle()
        try:
            run(self)
        finally:
            thread.is_begun_inside = False
            thread.settle()

    threading.Thread.run = run_seen
    yield
    if threading.Thread.run is run_seen:
        threading.Thread.run = run


# --- calls of torch


@contextmanager
def _torch_seen() -> Generator[None, None, None]:
    """Lookups of torch are seen, from its import on. What it has compiled runs eagerly: compiled code calls no
    functions."""
    finder, stance = _TorchFinder(), None
    if (torch := sys.modules.get("torch")) is None:
        sys.meta_path.insert(0, finder)
    elif "torch._dynamo" in sys.modules:
        stance = torch.compiler.set_stance("force_eager")
    yield
    if stance is not None:
        stance.__exit__(None, None, None)
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)


class _TorchFinder(MetaPathFinder):
    """Sees the calls of torch in the thread that imports it."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> Any:
        """Find torch as without this finder."""
        del path, target
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            execute = loader.exec_module

            def execute_and_settle(module: ModuleType) -> None:
                execute(module)
                _this_thread().settle()

            loader.exec_module = execute_and_settle
        return spec


def torch_mode(torch: Any, thread: _ThreadMode) -> Any:
    """A mode of torch that shows the arguments of lookups to the recorders."""
    from torch.overrides import TorchFunctionMode  # pyright: ignore[reportMissingImports]

    described, in_gradient = functions(torch), torch._C._current_graph_task_id

    class LookupMode(TorchFunctionMode):  # pyright: ignore[reportUntypedBaseClass]
        """Sees every function of torch that is called in its thread."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if thread.is_seen:
                describe = described.get(func) or operator(func, args)
                if describe is not None and not (torch.compiler.is_compiling() or in_gradient() >= 0):
                    _see(describe, *args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    return LookupMode()
