"""ptokit: write, check and simulate PTO tile programs that move data by index.

>>> import numpy as np, ptokit as pto
>>> table = pto.GlobalTensor(np.arange(64, dtype="float32").reshape(8, 8))
>>> idx = pto.Tile("vec", "int32", 1, 8, valid=(1, 2)).write([[5, 2]])
>>> dst = pto.Tile("vec", "float32", 2, 8)
>>> _ = pto.mgather(dst, table, idx)
>>> dst.read()[:, 0]
array([40., 16.], dtype=float32)
"""

from typing import TYPE_CHECKING

from ptokit._version import __version__ as __version__
from ptokit.brief import brief
from ptokit.finding import Finding, HazardWarning, OutOfBoundsError, UnmodelledWarning, VerifyError, Where
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.operand import dyn
from ptokit.isa.policy import BLayout, Pad, SLayout, TileType
from ptokit.isa.policy import GlobalLayout as Layout
from ptokit.lang import instructions
from ptokit.lang.context import target
from ptokit.lang.dispatch import Event, tassign
from ptokit.lang.faults import public
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile

if TYPE_CHECKING:
    from ptokit.engine.runnable import Run
    from ptokit.lang.check import Report, TargetReport, check, show
    from ptokit.lang.control import (  # isort: skip
        barrier, block_idx, block_num, const, load_scalar, otherwise, range, set_flag, sync_set, sync_wait, wait_flag,
        when,
    )  # fmt: skip
    from ptokit.lang.instructions import *  # noqa: F403
    from ptokit.lang.kernel import Kernel, kernel
    from ptokit.lang.live import cases
    from ptokit.lang.loaded import TextKernel, load
    from ptokit.lang.prove import Proof, TargetProof, prove
    from ptokit.lang.shaped import shaped
    from ptokit.lang.traced_integers import cdiv, max, min
    from ptokit.machine.report import MachineOptions
    from ptokit.ops import gather, gather_along, gather_nd, scatter, scatter_along, scatter_nd
    from ptokit.sharded.messages import ShardedError
    from ptokit.sharded.table import ShardedTable
    from ptokit.sweeps.run import sweep
    from ptokit import traces as traces  # isort: skip
    from ptokit.traces.file import IndexTrace
    from ptokit.traces.recording import record_indices

__all__ = [
    "BLayout", "DType", "Event", "Finding", "GlobalTensor", "HazardWarning", "IndexTrace", "Kernel", "Layout",
    "MachineOptions", "OutOfBoundsError", "Pad", "Proof", "Report", "Run", "SLayout", "ShardedError", "ShardedTable",
    "TargetProof", "TargetReport", "TextKernel", "Tile", "TileType", "UnmodelledWarning", "VerifyError", "Where",
    "barrier", "block_idx", "block_num", "cases", "cdiv", "check", "const", "dtype", "dyn", "gather", "gather_along",
    "gather_nd", "kernel", "load", "load_scalar", "max", "min", "otherwise", "prove", "range", "record_indices",
    "scatter", "scatter_along", "scatter_nd", "set_flag", "shaped", "show", "sweep", "sync_set", "sync_wait", "target",
    "tassign", "wait_flag", "when",
]  # fmt: skip
__all__ += instructions.__all__


LATER = {
    "lang.control": ("barrier", "block_idx", "block_num", "const", "load_scalar", "otherwise", "range", "set_flag",
                     "sync_set", "sync_wait", "wait_flag", "when"),
    "lang.traced_integers": ("cdiv", "max", "min"),
    "lang.kernel": ("Kernel", "kernel"),
    "lang.live": ("cases",),
    "engine.runnable": ("Run",),
    "machine.report": ("MachineOptions",),
    "lang.loaded": ("TextKernel", "load"),
    "lang.check": ("Report", "TargetReport", "check", "show"),
    "lang.prove": ("Proof", "TargetProof", "prove"),
    "lang.shaped": ("shaped",),
    "ops": ("gather", "gather_along", "gather_nd", "scatter", "scatter_along", "scatter_nd"),
    "sharded.messages": ("ShardedError",),
    "sharded.table": ("ShardedTable",),
    "sweeps.run": ("sweep",),
    "traces.file": ("IndexTrace",),
    "traces.recording": ("record_indices",),
}  # fmt: skip
"""Names that are loaded when they are first used, by module; the others of `__all__` are instructions and enums."""


PACKAGES = ("traces",)
"""Public packages that are loaded when they are first used."""
OPAQUE_HINT = "; ptokit knows {} by its effects only: programs in text may have it, Python has no function for it"


@public
def __getattr__(name: str) -> object:
    """Load kernels, instructions and calls on whole arrays when they are first used: importing stays quick."""
    from importlib import import_module

    from ptokit.finding import suggestion
    from ptokit.isa.catalog import INSTRUCTIONS
    from ptokit.isa.opaque import opaque_rows

    if name in PACKAGES:
        return import_module(f"ptokit.{name}")
    home = next((file for file, names in LATER.items() if name in names), "lang.instructions")
    module = import_module(f"ptokit.{home}")
    if name not in __all__ and name not in INSTRUCTIONS and name not in module.enums():
        is_opaque = name in opaque_rows()
        hint = OPAQUE_HINT.format(name) if is_opaque else "" if name.startswith("_") else suggestion(name, __all__)
        raise AttributeError(f"module 'ptokit' has no attribute {brief(name)}{hint}", name=name, obj=None)
    value = getattr(module, name)
    if name in __all__:  # others may leave the catalogue
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *PACKAGES})
