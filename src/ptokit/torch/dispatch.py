"""Operators of PyTorch's library, and the shortest way to each: its dispatcher takes longer than a small gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

NAMESPACE = "ptokit"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")
TAGS = [getattr(torch.Tag, name) for name in ("pt2_compliant_tag", "needs_exact_strides") if hasattr(torch.Tag, name)]
"""What PyTorch is told of all operators; older versions do not have the second."""
DEVICES = ("CPU", "CUDA")
PLAIN = (torch.Tensor, torch.nn.Parameter, type(None))
Context = Any
Batch = Sequence[int | None]

_is_transformed: Callable[[], bool] = torch._C._are_functorch_transforms_active
_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_function_modes: Callable[[], int] = torch._C._len_torch_function_stack
_tracing_state: Callable[[], object] = torch._C._get_tracing_state


class TensorOperator:
    """An operator: registered with PyTorch, and called directly where nothing but autograd could intercept it."""

    def __init__(
        self, name: str, schema: str, run: Callable[..., Any], shape: Callable[..., Any], operands: slice
    ) -> None:
        """The kernel that all devices share, the shapes of results, and which arguments are tensors, or None."""
        LIBRARY.define(name + schema, tags=TAGS)
        for device in DEVICES:
            LIBRARY.impl(name, run, device)
        self._name = f"{NAMESPACE}::{name}"
        torch.library.register_fake(self._name, shape, lib=LIBRARY)
        self.run, self._operands = run, operands
        self.overload = getattr(getattr(torch.ops, NAMESPACE), name).default
        self._defaults = [each.default_value for each in self.overload._schema.arguments]
        self._eager: Any = None
        self._transformed: Any = None

    def differentiate(self, save: Callable[..., None], backward: Callable[..., Any], batch: Callable[..., Any]) -> None:
        """The gradient, and what `vmap` does."""
        torch.library.register_autograd(self._name, backward, setup_context=save, lib=LIBRARY)
        self.batch(batch)
        run, overload = self.run, self.overload

        def forward(ctx: Context, *given: Any) -> Any:
            made = run(*given)
            save(ctx, given, made)
            return made

        def forward_alone(*given: Any) -> Any:
            return overload(*given)

        def batched(info: Any, dims: Batch, *given: Any) -> Any:
            return batch(self, info, dims, *given)

        shared = {"backward": staticmethod(backward)}
        base = (torch.autograd.Function,)
        self._eager = type(f"{self._name} in eager mode", base, {"forward": staticmethod(forward), **shared})
        transformed = {"forward": forward_alone, "setup_context": save, "vmap": batched}
        shared |= {name: staticmethod(each) for name, each in transformed.items()}
        self._transformed = type(f"{self._name} in transforms", base, shared)

    def batch(self, rule: Callable[..., Any]) -> None:
        """What `vmap` does, with the function to call; arguments that PyTorch leaves out are filled in."""

        def filled(info: Any, dims: Batch, *given: Any) -> Any:
            more = self._defaults[len(given) :]
            return rule(self.overload, info, [*dims, *(None for _ in more)], *given, *more)

        torch.library.register_vmap(self._name, filled, lib=LIBRARY)

    def __call__(self, *given: Any) -> Any:
        """Call it with all its arguments."""
        if torch.compiler.is_compiling():
            return self.overload(*given)
        if _is_transformed():
            return self.overload(*given) if self._transformed is None else self._transformed.apply(*given)
        tensors = given[self._operands]
        for each in tensors:
            if type(each) not in PLAIN:
                return self.overload(*given)
        if _dispatch_modes() or _function_modes() or _tracing_state() is not None:
            return self.overload(*given)
        return self._eager.apply(*given) if self._eager and needs_grad(*tensors) else self.run(*given)


def needs_grad(*tensors: Tensor | None) -> bool:
    """Whether autograd must record a call with these."""
    return torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in tensors)


def is_followed(tensor: Tensor) -> bool:
    """Whether a gradient of a tensor may be asked for; where this cannot be known, as in compiled code, it may."""
    return needs_grad(tensor) or torch.compiler.is_compiling() or _is_transformed()
