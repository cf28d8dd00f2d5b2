"""The arguments of a launch: arrays, integers and constants, and the signature that they form."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from ptokit.brief import brief
from ptokit.engine.storage import Storage
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.policy import GlobalLayout, PtoEnum
from ptokit.lang.arrays import gpu_of, is_foreign
from ptokit.lang.faults import refuse
from ptokit.lang.tensor import GlobalTensor
from ptokit.program.expr import ExtentVar, Var

Signature = tuple[Any, ...]


@dataclass(frozen=True)
class Arguments:
    """The arguments of a launch, by kind and name."""

    tensors: dict[str, GlobalTensor]
    integers: dict[str, int]
    constants: dict[str, object]
    floats: dict[str, Storage] = field(default_factory=dict)

    @property
    def signature(self) -> Signature:
        """Everything that the traced program depends on."""
        tensors = [(tensor.spec, tensor.shape) for tensor in self.tensors.values()]
        constants = map(repr, self.constants.values())  # 1, 1.0 and True are equal, 0.0 and -0.0 too
        return (*self.tensors, *tensors, *constants, *self.shared().items())

    @cached_property
    def lengths(self) -> dict[Var, int]:
        """The first extents of plain arrays: no stride depends on them."""
        return {
            first_extent(name): tensor.shape[0]
            for name, tensor in self.tensors.items()
            if tensor.is_plain and tensor.layout is GlobalLayout.ND
        }

    @property
    def family(self) -> Signature:
        """The signature without these lengths."""
        tensors = [
            (tensor.dtype, tensor.shape[1:], tensor.stride5[5 - len(tensor.shape) :])
            if first_extent(name) in self.lengths
            else (tensor.spec, tensor.shape)
            for name, tensor in self.tensors.items()
        ]  # fmt: skip
        return (*self.tensors, *tensors, *map(repr, self.constants.values()), *self.shared().items())

    @property
    def numbers(self) -> dict[Var, int]:
        """The integers, as variables of the program."""
        return {Var(name): value for name, value in self.integers.items()}

    @cached_property
    def gpu(self) -> int | None:
        """The GPU that has the arrays; None for the host."""
        return gpu_of({f"`{name}`": tensor.array for name, tensor in self.tensors.items()})

    def shared(self) -> dict[str, str]:
        """Arguments that share memory with an earlier one, and the first that does, directly or through others."""
        roots = [tensor.storage.root for tensor in self.tensors.values()]
        if len({id(root) for root in roots if root is not None}) == len(roots):  # the common case
            return {}
        owner: dict[str, str] = {}
        for name, tensor in self.tensors.items():
            overlapped = {owner[other] for other in owner if tensor.storage.overlaps(self.tensors[other].storage)}
            first = next((other for other in owner if other in overlapped), name)
            owner[name] = first
            if len(overlapped) > 1:
                owner = {other: first if own in overlapped else own for other, own in owner.items()}
        return {name: own for name, own in owner.items() if name != own}


@lru_cache(maxsize=1024)
def first_extent(name: str) -> ExtentVar:
    """The first extent of an array argument, as a variable of the program."""
    return ExtentVar(f"{name}.shape[0]")


def is_integer(value: object) -> bool:
    """Whether a value is an integer, and not a bool or an array."""
    if type(value) is int:
        return True
    return not getattr(value, "shape", ()) and hasattr(value, "__index__") and not isinstance(value, bool)


PLAIN = (int, float, str, bool, DType, PtoEnum, type(None))


def constant(name: str, value: object) -> Any:
    """A constant as a plain Python value, or a refusal."""
    if isinstance(value, np.generic) and isinstance(cast("Any", value).item(), PLAIN):  # np.float64 is a float
        return cast("Any", value).item()
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, tuple):
        return tuple(constant(name, part) for part in cast("tuple[object, ...]", value))
    if isinstance(value, np.dtype):
        return dtype(cast("object", value))
    message = f"the constant `{name}` must be a number, a string, an element type or a tuple of these"
    fix = "pass arrays as arguments without pto.const"
    raise refuse("KN-17", f"{message}; found {type(cast('object', value)).__name__}", fix)


def array_argument(name: str, value: object) -> GlobalTensor:
    """An array argument, over its own memory, or a refusal."""
    if isinstance(value, np.ndarray):
        return _shared(name, cast("object", value))
    if isinstance(value, bool | float | str | list | type(None)):
        message = f"`{name}` takes an array or a whole number; found {brief(cast('object', value))}"
        raise refuse("KN-17", message, f"pass an array, or make it a constant: `{name}: pto.const`", name)
    if not (hasattr(value, "__array_interface__") or is_foreign(value)):
        raise refuse("KN-17", f"`{name}` takes an array; found {type(value).__name__}", "pass a NumPy array", name)
    return _shared(name, value)


def _shared(name: str, array: object) -> GlobalTensor:
    try:
        return GlobalTensor(array)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"`{name}`: {problem}") from None
