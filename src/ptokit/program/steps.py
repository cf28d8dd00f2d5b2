"""The steps of an instruction on its target: pipes touch operands, and pipes wait for pipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from ptokit.isa.instruction import Call
from ptokit.isa.kernel import Effect, Pair
from ptokit.program.calls import effects
from ptokit.program.cores import core_of, pipe_of, unit_of
from ptokit.target import SCALAR, Core, Profile


@dataclass(frozen=True)
class Sync:
    """The pipe `dst` waits until `src` has done everything issued to it so far."""

    src: str
    dst: str


@dataclass(frozen=True)
class PipeWork:
    """A pipe's part of an instruction: the operands that it reads and writes."""

    pipe: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


Step = Sync | PipeWork


def steps(call: Call, profile: Profile) -> tuple[Step, ...]:
    """The steps of an instruction in order; none if the target has no pipes.

    The flags inside an instruction (for each row, between its stages) order its own work only. They appear here as each
    pipe of its body waiting for the one before.
    """
    own, touched = call.kernel.handshake, effects(call)
    pipes = tuple(dict.fromkeys((*own.body, *(effect.pipe for effect in touched)))) if profile.pipes else ()
    work: list[Step] = [_touch(pipe, touched) for pipe in pipes]
    for k, (first, then) in reversed(list(enumerate(pairwise(pipes), 1))):
        work.insert(k, Sync(first, then))
    return (*_syncs(own.before), *work, *_syncs(own.after))


def on_cores(found: tuple[Step, ...], core: Core, profile: Profile) -> tuple[Step, ...]:
    """The steps with the core of every pipe; `core` is that of the instruction."""
    return tuple(_on_core(step, core, profile) for step in found)


def _on_core(step: Step, core: Core, profile: Profile) -> Step:
    if isinstance(step, Sync):
        return Sync(pipe_of(step.src, core, profile), pipe_of(step.dst, core, profile))
    return replace(step, pipe=pipe_of(step.pipe, core, profile))


def in_use(found: tuple[Step, ...], pipes: Sequence[str]) -> tuple[Step, ...]:
    """The steps on these pipes. Work of another core, which has no operands, is done by the first core."""
    home = core_of(pipes[0]) if pipes else ""
    known: list[Step] = []
    for step in found:
        if isinstance(step, PipeWork):
            known.append(step if step.pipe in pipes else replace(step, pipe=f"{home}.{unit_of(step.pipe)}"))
        elif step.src in pipes and step.dst in pipes:
            known.append(step)
    return tuple(known)


def own_pairs(call: Call) -> set[Pair]:
    """The pipe pairs whose flags the instruction uses by itself."""
    own = call.kernel.handshake
    return {*own.before, *own.after, *own.each_row, *own.between, *own.after_fill}


def _touch(pipe: str, touched: tuple[Effect, ...]) -> PipeWork:
    here = [effect for effect in touched if effect.pipe == pipe]
    reads = tuple(effect.operand for effect in here if effect.access != "write")
    writes = tuple(effect.operand for effect in here if effect.access != "read")
    return PipeWork(pipe, reads, writes)


def _syncs(pairs: tuple[Pair, ...]) -> tuple[Sync, ...]:
    return tuple(Sync(*pair) for pair in pairs)


def gate(of: tuple[Step, ...], pipe: str) -> str:
    """The pipe that should wait, ahead of an instruction, for what its work on `pipe` needs.

    If the instruction itself first waits for another pipe, it is that pipe: a row gather of A2/A3 waits V to S, so the
    documents ask for a flag from MTE2 to V after the load of its indices (MG-SYNC-01, MG-SYNC-04).
    """
    opening = [step for step in takewhile(lambda step: isinstance(step, Sync), of) if isinstance(step, Sync)]
    return next((sync.src for sync in opening if _carries(opening, sync.src, pipe)), pipe)


def _carries(opening: list[Sync], src: str, pipe: str) -> bool:
    """Whether the opening makes `pipe` wait for `src`, perhaps through other pipes."""
    late = {src}
    for sync in opening:
        if sync.src in late:
            late.add(sync.dst)
    return bool(late & {SCALAR, pipe})
