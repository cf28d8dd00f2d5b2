"""Operators of PyTorch's library, and the shortest way to each: its dispatcher takes longer than a small gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ptokit.brief import named
from ptokit.finding import OutOfBoundsError

NAMESPACE = "ptokit"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")
TAGS = [getattr(torch.Tag, name) for name in ("pt2_compliant_tag", "needs_exact_strides") if hasattr(torch.Tag, name)]
"""What PyTorch is told of all operators; older versions do not have the second."""
DEVICES = ("CPU", "CUDA")
PLAIN = {torch.Tensor, torch.nn.Parameter}
Context = Any
Batch = Sequence[int | None]

is_compiling, is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled
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
        self._apply: Any = None
        self._transformed: Any = None

    def differentiate(self, save: Callable[..., None], backward: Callable[..., Any], batch: Callable[..., Any]) -> None:
        """The gradient, and what `vmap` does."""
        backward = _of_resolved(backward)
        torch.library.register_autograd(self._name, backward, setup_context=save, lib=LIBRARY)
        self.batch(batch)
        run, overload = self.run, self.overload

        operands = self._operands.stop

        def forward(ctx: Context, *packed: Any) -> Any:
            given = (*packed[:-1], *packed[-1])
            made = run(*given)
            save(ctx, given, made)
            return made

        def backward_of_packed(ctx: Context, *grads: Any) -> Any:
            return *backward(ctx, *grads)[:operands], None

        def forward_alone(*given: Any) -> Any:
            return overload(*given)

        def batched(info: Any, dims: Batch, *given: Any) -> Any:
            return batch(self, info, dims, *given)

        shared = {"backward": staticmethod(backward)}
        base = (torch.autograd.Function,)
        # options travel as one argument: PyTorch looks at each one several times
        of_packed = {"forward": staticmethod(forward), "backward": staticmethod(backward_of_packed)}
        eager: Any = type(f"{self._name} in eager mode", base, of_packed)
        self._apply = eager.apply
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
        if is_compiling():
            return self.overload(*given)
        if _is_transformed():
            return self.overload(*given) if self._transformed is None else self._transformed.apply(*given)
        follows, tensors = False, given[self._operands]
        for each in tensors:
            if each is not None:
                if type(each) not in PLAIN:
                    return self.overload(*given)
                if not (each.is_cpu or each.is_cuda):
                    _check_devices(tensors, each.device)
                    return self.overload(*given)
                follows = follows or each.requires_grad
        if _dispatch_modes() or _function_modes() or _tracing_state() is not None:
            return self.overload(*given)
        if follows and self._apply and is_grad_enabled():
            return self._apply(*given[self._operands], given[self._operands.stop :])
        return self.run(*given)


def _of_resolved(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient that gets no tensors that are conjugated or negated lazily."""

    def of_plain(ctx: Context, *grads: Tensor | None) -> Any:
        return backward(ctx, *map(_resolved, grads))

    return of_plain


def _resolved(grad: Tensor | None) -> Tensor | None:
    if grad is None or not (grad.is_conj() or grad.is_neg()):
        return grad
    return grad.resolve_conj().resolve_neg()


def is_plain(*tensors: Tensor | None) -> bool:
    """Whether nothing but autograd could intercept a call with these tensors."""
    if is_compiling() or _is_transformed() or _dispatch_modes() or _function_modes() or _tracing_state() is not None:
        return False
    return all(each is None or type(each) in PLAIN for each in tensors)


def _check_devices(tensors: Sequence[Tensor | None], device: torch.device) -> None:
    """Refuse tensors of which only some are on a device without kernels, such as meta."""
    for each in tensors:
        if each is not None and each.device != device:
            raise ValueError(f"the tensors of a call are on one device; found {each.device} and {device}")


def check_tensor(name: str, given: object) -> None:
    """Refuse what is not a tensor; None stands for one that is not given."""
    if given is not None and not isinstance(given, Tensor):
        raise TypeError(f"{name} is a tensor; found {named(type(given).__name__)}: use torch.as_tensor({name})")


def renamed(name: str, operand: str, fix: str, call: Callable[..., Any], *given: Any) -> Any:
    """A call by a function that has no policies: an index that is refused is named as the function's own operand.

    Compiled code has the errors of the operators.
    """
    if is_compiling():
        return call(*given)
    try:
        return call(*given)
    except OutOfBoundsError as problem:
        (found,) = problem.findings
        message = f"{name}: {operand}{found.message.partition('indices')[2]}"
        raise OutOfBoundsError([replace(found, message=message, operand=operand, fix=fix)]) from None


def check_memory(tensor: Tensor) -> None:
    """Refuse a tensor whose storage was freed: PyTorch's own operators would end the process."""
    if tensor.layout is torch.strided and tensor.numel() and not tensor.data_ptr():
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} has no memory; its storage was freed")


def needs_grad(*tensors: Tensor | None) -> bool:
    """Whether autograd must record a call with these."""
    return is_grad_enabled() and any(each is not None and each.requires_grad for each in tensors)


def is_followed(tensor: Tensor) -> bool:
    """Whether a gradient of a tensor may be asked for; where this cannot be known, as in compiled code, it may."""
    return (tensor.requires_grad and is_grad_enabled()) or is_compiling() or _is_transformed()
