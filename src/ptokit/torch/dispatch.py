"""Operators of PyTorch's library, and the shortest way to each: its dispatcher takes longer than a small gather.

The short way is for calls that nothing intercepts and no profiler records. PyTorch has no public functions that say
whether a transform, a dispatch mode, a tracer or a profiler is active. Where a version lacks one of the
private ones that do so, all calls go through the dispatcher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from ptokit.brief import brief, named
from ptokit.finding import Fix, OutOfBoundsError, VerifyError
from ptokit.isa.policy import PtoEnum
from ptokit.lang.launch import check_threads
from ptokit.lang.tensor import is_integer

NAMESPACE = "ptokit"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")
TAGS = [
    getattr(torch.Tag, name)
    for name in ("pt2_compliant_tag", "needs_exact_strides", "cudagraph_unsafe")
    if hasattr(torch.Tag, name)
]
"""What PyTorch is told of all operators; older versions have only the first. Most policies cannot be captured in a CUDA
graph."""
DISPATCH_KEYS = ("CPU", "CUDA")
PLAIN = {torch.Tensor, torch.nn.Parameter}
Context = Any
Batch = Sequence[int | None]

is_compiling, is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled
_is_traced = getattr(torch.compiler, "is_dynamo_compiling", is_compiling)
_has_overrides = torch.overrides.has_torch_function
_has_override = getattr(torch.overrides, "has_torch_function_unary", lambda tensor: _has_overrides((tensor,)))


def _private(owner: Any, name: str) -> Callable[[], Any]:
    """A private function of PyTorch that says whether something is active; if it is gone, that may always be so."""
    return getattr(owner, name, lambda: True)


_is_transformed = _private(torch._C, "_are_functorch_transforms_active")
_is_tracing = _private(torch._C, "_is_tracing")
_has_dispatch_modes = _private(torch._C, "_len_torch_dispatch_stack")
is_profiled = _private(torch.autograd, "_profiler_enabled")


class TensorOperator:
    """An operator: registered with PyTorch, and called directly where nothing but autograd could intercept it."""

    def __init__(
        self, name: str, schema: str, run: Callable[..., Any], shape: Callable[..., Any], operands: slice
    ) -> None:
        """The kernel that all devices share, the shapes of results, and which arguments are tensors, or None."""
        LIBRARY.define(name + schema, tags=TAGS)
        self.overload = getattr(getattr(torch.ops, NAMESPACE), name).default
        arguments = self.overload._schema.arguments
        self._defaults = [argument.default_value for argument in arguments]
        self._threads = next((at for at, argument in enumerate(arguments) if argument.name == "threads"), None)

        def run_filled(*given: Any) -> Any:
            """With the arguments that PyTorch leaves out, because they have their defaults."""
            return run(*given, *self._defaults[len(given) :])

        for device in DISPATCH_KEYS:
            LIBRARY.impl(name, run_filled, device)
        self._name = f"{NAMESPACE}::{name}"
        torch.library.register_fake(self._name, shape, lib=LIBRARY)
        self.run, self._operands = run, operands
        self._apply: Any = None
        self._transformed: Any = None

    def differentiate(
        self,
        save: Callable[..., None],
        backward: Callable[..., Any],
        batch: Callable[..., Any],
        forward_mode: Callable[..., Any] | None = None,
    ) -> None:
        """The gradient, what `vmap` does, and tangents of results by those of the operands, if there are such."""
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

        def tangent(ctx: Context, *tangents: Any) -> Any:
            if forward_mode is None:
                raise NotImplementedError(f"{self._name} has no forward-mode derivative; use reverse mode")
            return forward_mode(ctx, *tangents[:operands])

        def forward_alone(*given: Any) -> Any:
            return overload(*given)

        def batched(info: Any, dims: Batch, *given: Any) -> Any:
            return batch(self, info, dims, *given)

        shared = {"backward": staticmethod(backward), "jvp": staticmethod(tangent)}
        base = (torch.autograd.Function,)
        # options travel as one argument: PyTorch looks at each one several times
        of_packed = {**shared, "forward": staticmethod(forward), "backward": staticmethod(backward_of_packed)}
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
        if (at := self._threads) is not None and given[at] is not None:  # before a call is looked up
            given = (*given[:at], check_threads(given[at]), *given[at + 1 :])
        if _is_transformed():
            call = self.overload if self._transformed is None else self._transformed.apply
            return call(*map(_plain, given))
        follows, tensors = False, given[self._operands]
        for each in tensors:
            if each is not None:
                if type(each) not in PLAIN:
                    return self.overload(*map(_plain, given))
                if not (each.is_cpu or each.is_cuda):
                    _check_devices(tensors, each.device)
                    return self.overload(*map(_plain, given))
                follows = follows or each.requires_grad
        if _is_intercepted(tensors) or is_profiled():
            return self.overload(*map(_plain, given))
        if self._apply and ((follows and is_grad_enabled()) or has_tangent(tensors)):
            return self._apply(*tensors, tuple(map(_plain, given[self._operands.stop :])))
        return self.run(*given)


def is_watched(*tensors: Any) -> bool:
    """Whether anything but backward gets to see a call: a compiler, a transform, a mode, a tracer, a profiler, a type
    of its own, or forward mode."""
    if _is_traced() or _is_transformed() or _has_dispatch_modes() or _is_tracing() or is_profiled():
        return True
    for each in tensors:
        if type(each) not in PLAIN and each is not None:
            return True
    return _has_override(tensors[0]) or getattr(forward_ad, "_current_level", 0) >= 0


def _plain(argument: Any) -> Any:
    """An argument as the dispatcher and gradients take it."""
    if isinstance(argument, PtoEnum):
        return argument.text
    return index(argument) if isinstance(argument, np.integer) else argument


def _is_intercepted(tensors: Sequence[Tensor | None]) -> bool:
    """Whether a mode, a tracer or a type of its own gets to see a call with these tensors."""
    return _has_overrides(tensors) or _has_dispatch_modes() or _is_tracing()


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
    if is_compiling() or _is_transformed() or _is_intercepted(tensors):
        return False
    return all(each is None or type(each) in PLAIN for each in tensors)


def _check_devices(tensors: Sequence[Tensor | None], device: torch.device) -> None:
    """Refuse a call if only some of its tensors are on a device without kernels, such as meta."""
    for each in tensors:
        if each is not None and each.device != device:
            raise ValueError(f"the tensors of a call are on one device; found {each.device} and {device}")


def check_tensor(name: str, given: object) -> None:
    """Refuse what is not a tensor; None stands for one that is not given."""
    if given is not None and not isinstance(given, Tensor):
        raise TypeError(f"{name} is a tensor; found {named(type(given).__name__)}: use torch.as_tensor({name})")


def whole_number(name: str, given: Any) -> int:
    """An integer, as Python's own; a bool or a float that is equal to one is refused."""
    if is_compiling():
        return given
    if not is_integer(given):
        raise TypeError(f"{name} is an integer; found {brief(given)}")
    return index(given)


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
        raise OutOfBoundsError([replace(found.headed(f"{name}: ", operand), operand=operand, fix=fix)]) from None
    except VerifyError as problem:
        (found,) = problem.findings
        if found.operand != "indices":
            raise
        own = operand.partition(".")[0]
        advice = found.fix.renamed("indices", own) if isinstance(found.fix, Fix) else found.fix
        raise VerifyError([replace(found.headed(f"{name}: ", f"{own}: "), operand=own, fix=advice)]) from None


def called_by(name: str, call: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """A call by a module, whose name its refusals have."""
    if is_compiling():
        return call(*given, **options)
    try:
        return call(*given, **options)
    except (OutOfBoundsError, VerifyError) as problem:
        findings = [finding.headed(f"{name}: ", *finding.heads[1:]) for finding in problem.findings]
        raise type(problem)(findings) from None


def check_memory(tensor: Tensor) -> None:
    """Refuse a tensor whose storage was freed: PyTorch's own operators would end the process."""
    if tensor.layout is torch.strided and tensor.numel() and not tensor.data_ptr():
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} has no memory; its storage was freed")


def needs_grad(*tensors: Tensor | None) -> bool:
    """Whether autograd must record a call with these."""
    if is_grad_enabled() and any(each is not None and each.requires_grad for each in tensors):
        return True
    return has_tangent(tensors)


def has_tangent(tensors: Sequence[Tensor | None]) -> bool:
    """Whether forward mode follows one of some tensors."""
    if getattr(forward_ad, "_current_level", 0) < 0:
        return False
    return any(each is not None and forward_ad.unpack_dual(each).tangent is not None for each in tensors)


def keep(ctx: Context, *tensors: Tensor | None) -> None:
    """Keep tensors for both modes of differentiation."""
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)


def is_followed(tensor: Tensor) -> bool:
    """Whether a gradient of a tensor may be asked for; where this cannot be known, as in compiled code, it may."""
    return (tensor.requires_grad and is_grad_enabled()) or is_compiling() or _is_transformed()
