"""Which core pipes and statements belong to.

A pipe is named with its core: `AIV.MTE2`. If both vector cores of a block run a program, the cores of a block are
`AIC`, `AIV0` and `AIV1`; its statements still say `AIV`, and each of the two runs all of them. A flag belongs to the
core that it states, else to every core that has both of its pipes; a barrier likewise. A flag between pipes of two
cores, and a `CrossFlag`, hands over from one core to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, takewhile

from ptokit.isa.barriers import inside
from ptokit.isa.instruction import Call
from ptokit.isa.kernel import Effect, Pair
from ptokit.isa.policy import TileType, division
from ptokit.program import ir
from ptokit.program.expr import Var, variables
from ptokit.program.instr_calls import call_of, effects
from ptokit.target import PROFILES, SCALAR, VECTOR, Core, Profile
from ptokit.target.profile import CROSS_IDS, CUBE_CORE, VECTOR_CORE

ONE_CORE = (Core("host", frozenset(TileType), (SCALAR,), ""),)
"""The core of a target without cores."""
CORES = (CUBE_CORE, VECTOR_CORE)
OTHER = {CUBE_CORE.name: VECTOR_CORE.name, VECTOR_CORE.name: CUBE_CORE.name}
"""For each core, the core that it hands over to."""


@cache
def core_of(pipe: str) -> str:
    """The core of a pipe: `AIV` of `AIV.MTE2`."""
    return pipe.rpartition(".")[0]


@cache
def unit_of(pipe: str) -> str:
    """A pipe without its core: `MTE2` of `AIV.MTE2`."""
    return pipe.rpartition(".")[2]


@cache
def kind_of(core: str) -> str:
    """What a core of a block is: `AIV` for `AIV1`."""
    return core.rstrip("01")


@cache
def vector_of(core: str) -> int:
    """Which vector core of its block a core is; 0 for a cube core."""
    return int(core.endswith("1"))


def kind_pipe(pipe: str) -> str:
    """A pipe of a core of a block as statements name it: `AIV.V` for `AIV1.V`."""
    return f"{kind_of(core_of(pipe))}.{unit_of(pipe)}"


def own_event(stmt: ir.Stmt, number: int) -> int:
    """The event id that a statement states for a flag, by its number."""
    is_shared = isinstance(stmt, ir.CrossFlag) and stmt.event != number
    return number % CROSS_IDS if is_shared else number


def in_block(core: str, vector_cores: int) -> tuple[str, ...]:
    """The cores of a block that are of a kind."""
    is_divided = core == VECTOR_CORE.name and vector_cores > 1
    return tuple(f"{core}{k}" for k in range(vector_cores)) if is_divided else (core,)


def own_pipe(pipe: str, core: str, vector_cores: int) -> str:
    """A pipe of a statement that a core of a block runs; the cube core works with the first vector core."""
    is_divided = vector_cores > 1 and core_of(pipe) == VECTOR_CORE.name
    return f"{VECTOR_CORE.name}{vector_of(core)}.{unit_of(pipe)}" if is_divided else pipe


def vectors_of(stmt: ir.Stmt) -> tuple[int, ...]:
    """The vector cores whose UB a statement of a cube core concerns."""
    if isinstance(stmt, ir.TileDecl | ir.Assign):
        return (0, 1)
    if not isinstance(stmt, ir.Instr):
        return (0,)
    return division((*stmt.modifiers, dict(stmt.attributes).get("acc_to_vec"))).vectors


CrossKey = tuple[str, int]
"""A flag between the cores of a block: the kind of core that sets it, and its number."""


def cross_keys(flag: ir.CrossFlag, core: str, event: int, *, both: bool) -> tuple[CrossKey, ...]:
    """The flags that a core of a block sets or waits for. Those with the second vector core have numbers from
    `CROSS_IDS` on. `both`: the cube core sets the flags of both vector cores by one call, and waits for both."""
    setter = ends_of(flag)[0]
    if flag.core == VECTOR_CORE.name:
        return ((setter, event + vector_of(core) * CROSS_IDS),)
    return ((setter, event), (setter, event + CROSS_IDS)) if both else ((setter, event),)


def cross_name(key: CrossKey, vector_cores: int) -> str:
    """A flag between cores as messages name it: `3 of AIV1`."""
    if vector_cores < 2:
        return f"{key[1]} of {key[0]}"
    vector, event = divmod(key[1], CROSS_IDS)
    name = f"{VECTOR_CORE.name}{vector}"
    return f"{event} of {name}" if key[0] == VECTOR_CORE.name else f"{event} of {key[0]} for {name}"


def has_set(pipe: str, key: CrossKey) -> bool:
    """Whether a pipe is one of the core that sets a flag between the cores."""
    core = core_of(pipe)
    return kind_of(core) == key[0] and (core == key[0] or vector_of(core) == key[1] // CROSS_IDS)


def is_waited_by(pipe: str, key: CrossKey) -> bool:
    """Whether a pipe is one of the core that waits for a flag between the cores."""
    core = core_of(pipe)
    return kind_of(core) == OTHER[key[0]] and (core == kind_of(core) or vector_of(core) == key[1] // CROSS_IDS)


def pipes_of(profile: Profile) -> tuple[str, ...]:
    """All pipes of a target, with their cores: `AIV.S`."""
    return tuple(f"{core.name}.{pipe}" for core in profile.cores or ONE_CORE for pipe in core.pipes)


def pipe_of(pipe: str, core: Core, profile: Profile) -> str:
    """A pipe with its core; `core` is that of the instruction, for pipes that several cores have."""
    return f"{(profile.owner(pipe) or core).name}.{pipe}"


def home_of(locs: Iterable[TileType], profile: Profile) -> Core:
    """The core of an instruction, by its tiles."""
    return profile.core_of(locs) if profile.cores else ONE_CORE[0]


def owners(*pipes: str) -> tuple[str, ...]:
    """The cores that have all of these pipes."""
    return tuple(core.name for core in CORES if {*pipes} <= {*core.pipes})


def stated_core(core: str, *pipes: str) -> str:
    """The core that a flag or a barrier states: none if it is the only one that has the pipes, or none has them all."""
    return core if owners(*(pipe for pipe in pipes if pipe != "ALL")) not in ((), (core,)) else ""


def is_crossing(stmt: ir.Stmt) -> bool:
    """Whether a statement sets or waits for something on the other core."""
    return isinstance(stmt, ir.CrossFlag) or (isinstance(stmt, ir.Flag) and not owners(stmt.src, stmt.dst))


def ends_of(flag: ir.Flag | ir.CrossFlag) -> tuple[str, str]:
    """The core that sets a flag between two cores, and the core that waits for it."""
    if isinstance(flag, ir.Flag):
        return owners(flag.src)[0], owners(flag.dst)[0]
    own = kind_of(flag.core)
    return (own, OTHER[own]) if flag.action == "set" else (OTHER[own], own)


def fenced_pipes(barrier: ir.Barrier, profile: Profile) -> tuple[str, ...]:
    """The pipes, with their cores, whose instructions a barrier keeps from overlapping."""
    if barrier.pipe != profile.overlapping:
        return ()
    return tuple(f"{core}.{barrier.pipe}" for core in owners(barrier.pipe) if barrier.core in ("", core))


def is_refused(barrier: ir.Barrier, profile: Profile) -> bool:
    """Whether the target's compiler refuses a barrier: on the vector pipe, where that orders itself (A-73)."""
    return barrier.pipe == VECTOR and bool(profile.pipes) and profile.overlapping != VECTOR


def busy_pipes(program: ir.Program, instr: ir.Instr, profile: Profile) -> frozenset[str]:
    """The pipes that work for an instruction; none if the target has no route for it."""
    home = home_of((program.tiles[use.tile].spec.loc for use in instr.tiles), profile)
    return frozenset(pipe_of(e.pipe, home, profile) for e in effects(call_of(program, instr, profile)))


class StatementCores:
    """The cores that run each statement of a program."""

    def __init__(
        self, program: ir.Program, profiles: Sequence[Profile] = (), busy: Mapping[int, frozenset[str]] | None = None
    ) -> None:
        """On all targets with cores, unless `profiles` are given; `busy` are the pipes of instructions, if they are
        known for one target, by identity."""
        self.program, self._busy = program, busy or {}
        self._profiles = profiles or [each for each in PROFILES.values() if each.cores and each.is_family]
        self._known: dict[int, frozenset[str]] = {}
        self._by_tile: dict[str, set[str]] = {}
        statements = list(ir.walk(program.body))
        for stmt in statements:
            if isinstance(stmt, ir.Instr):
                cores = self._known[id(stmt)] = self._instruction(stmt)
                for use in stmt.tiles:
                    self._by_tile.setdefault(use.tile, set()).update(cores)
            elif isinstance(stmt, ir.CrossFlag):
                self._known[id(stmt)] = frozenset((stmt.core,))
        self.all = frozenset[str]().union(*self._known.values())
        self._readers: dict[Var, set[str]] = {}
        """The cores that need the value of each variable."""
        before = -1
        while before != (before := sum(map(len, self._readers.values()))):
            for stmt in reversed(statements):
                self._note_reads(stmt)

    def _instruction(self, instr: ir.Instr) -> frozenset[str]:
        if instr.opaque_form and not instr.operands:
            return frozenset()
        known = self._busy.get(id(instr))
        pipes = [known] if known is not None else [busy_pipes(self.program, instr, each) for each in self._profiles]
        home = home_of((self.program.tiles[use.tile].spec.loc for use in instr.tiles), self._profiles[0])
        return frozenset(core_of(pipe) for each in pipes for pipe in each) or frozenset((home.name,))

    def _note_reads(self, stmt: ir.Stmt) -> None:
        declares = isinstance(stmt, ir.TileDecl)
        cores = self.users(stmt.name) if declares else self.of(stmt)
        for expr in ir.expressions(stmt):
            for var in variables(expr):
                self._readers.setdefault(var, set()).update(cores)

    def users(self, tile: str) -> frozenset[str]:
        """The cores whose instructions use a tile."""
        return frozenset(self._by_tile.get(tile, ()))

    def of(self, stmt: ir.Stmt) -> frozenset[str]:
        """The cores that run a statement. A declaration needs none."""
        known = self._known.get(id(stmt))
        if known is not None:
            return known
        if isinstance(stmt, ir.Flag | ir.Barrier) and stmt.core:
            return frozenset((stmt.core,))
        match stmt:
            case ir.Flag():
                shared = frozenset(owners(stmt.src, stmt.dst))
                end = ends_of(stmt)[stmt.action == "wait"] if not shared else ""
                return shared & self.all if shared else frozenset((end,))
            case ir.Barrier():
                return self.all if stmt.pipe == "ALL" else self.all.intersection(owners(stmt.pipe))
            case ir.Assign():
                return self.users(stmt.tile)
            case ir.LoadScalar():
                return frozenset(self._readers.get(stmt.result, ()))
            case ir.TileDecl():
                return frozenset()
            case _:
                return frozenset[str]().union(*(self.of(inner) for block in ir.children(stmt) for inner in block))


def with_needed_cores(program: ir.Program) -> ir.Program:
    """The program without the cores of flags and barriers if it is for one core, and without those of another."""
    if not any(isinstance(stmt, ir.Flag | ir.Barrier) and stmt.core for stmt in ir.walk(program.body)):
        return program
    cores = StatementCores(program).all
    if len(cores) > 1:
        return program

    def change(stmt: ir.Stmt) -> ir.Stmt | tuple[ir.Stmt, ...]:
        if isinstance(stmt, ir.Loop | ir.Branch):
            return stmt if any(ir.children(stmt)) else ()
        if not isinstance(stmt, ir.Flag | ir.Barrier) or not stmt.core:
            return stmt
        return replace(stmt, core="") if stmt.core in cores or not cores else ()

    return replace(program, body=ir.transform(program.body, change))


class Cores:
    """The cores that a program uses on a target, by its tiles, its flags and the pipes of its instructions."""

    def __init__(self, program: ir.Program, profile: Profile) -> None:
        statements = list(ir.walk(program.body))
        self.profile = profile
        homes: set[Core] = set()
        busy: dict[int, frozenset[str]] = {}
        for instr in program.instructions:
            if instr.tiles or not instr.opaque_form:  # without tiles, it may be of any core
                homes.add(home_of((program.tiles[use.tile].spec.loc for use in instr.tiles), profile))
            busy[id(instr)] = busy_pipes(program, instr, profile)
        self._busy = set[str]().union(*busy.values())
        """Pipes with their cores that instructions work on."""
        flags = [stmt for stmt in statements if isinstance(stmt, ir.Flag)]
        fixed = {core.name for flag in flags for pipe in (flag.src, flag.dst) if (core := profile.owner(pipe))}
        cores = profile.cores or ONE_CORE
        crossing = {core for stmt in statements if isinstance(stmt, ir.CrossFlag) for core in ends_of(stmt)}
        names = {*(core.name for core in homes), *fixed, *crossing, *map(core_of, self._busy)}
        vectors = self.vector_cores = program.vector_cores if profile.cores else 1
        kinds = sorted(names) or [cores[0].name]
        self.names = tuple(core for kind in kinds for core in in_block(kind, vectors))
        blocks = [own for core in cores if core.name in kinds for own in in_block(core.name, vectors)]
        known = pipes_of(profile)
        self.pipes = tuple(f"{own}.{unit_of(p)}" for own in blocks for p in known if core_of(p) == kind_of(own))
        self._busy = {own_pipe(pipe, core, vectors) for pipe in self._busy for core in self.names}
        self._busy |= {f"{core}.{SCALAR}" for core in self.names}
        first = next((core for core in cores if core in homes), cores[0]).name
        self.scalar = f"{in_block(first, vectors)[0]}.{SCALAR}"
        """The scalar pipe of the first core that has an instruction."""
        self._statements = StatementCores(program, [profile], busy) if profile.cores else None
        self._pairs: dict[int, list[tuple[str, str]]] = {}

    def pipes_for(self, core: str) -> tuple[str, ...]:
        """The pipes of a program that has one vector core; else those of a core of the block first."""
        own = tuple(pipe for pipe in self.pipes if core_of(pipe) == core)
        return (*own, *(pipe for pipe in self.pipes if pipe not in own)) if self.vector_cores > 1 else self.pipes

    def scalars(self, stmt: ir.LoadScalar, core: str = "") -> tuple[str, ...]:
        """The scalar pipes that read a number from global memory: of every core that needs it, or of one."""
        if core:
            return (f"{core}.{SCALAR}",)
        cores = self._statements.of(stmt) if self._statements else ()
        return tuple(f"{core}.{SCALAR}" for core in self.names if kind_of(core) in cores) or (self.scalar,)

    def pairs(self, flag: ir.Flag, core: str = "") -> list[tuple[str, str]]:
        """The pipes of a flag with their cores: of each core that has both and uses them, else those of two cores. With
        `core`, those of that core, or of both."""
        known = self._pairs.get(id(flag))
        if known is None:
            fitting = [core for core in owners(flag.src, flag.dst) if flag.core in ("", core)]
            shared = [core for core in self.names if kind_of(core) in fitting]
            used = [core for core in shared if {f"{core}.{flag.src}", f"{core}.{flag.dst}"} <= self._busy]
            pairs = [(core, core) for core in used or shared]
            if is_crossing(flag):
                src, dst = (in_block(end, self.vector_cores) for end in ends_of(flag))
                pairs = [(one, other) for one in src for other in dst]
            known = self._pairs[id(flag)] = [(f"{a}.{flag.src}", f"{b}.{flag.dst}") for a, b in pairs]
        return [pair for pair in known if core in ("", *map(core_of, pair))] if core else known


# --- steps of an instruction on its pipes


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
    fences: bool = False
    """Whether it has a barrier inside, on a pipe whose instructions may overlap."""
    late: tuple[str, ...] = ()
    """The operands that it touches behind that only."""
    ends: bool = False
    """Whether it ends with a barrier."""


Step = Sync | PipeWork


def steps(call: Call, profile: Profile) -> tuple[Step, ...]:
    """The steps of an instruction in order; none if the target has no pipes.

    The flags inside an instruction (for each row, between its stages) order its own work only. They appear here as each
    pipe of its body waiting for the one before, unless the pipes are those of several routes.
    """
    own, touched = call.route_kernel.handshake, effects(call)
    pipes = tuple(dict.fromkeys((*own.body, *(effect.pipe for effect in touched)))) if profile.pipes else ()
    work: list[Step] = [
        _fenced(_touch(pipe, touched), call) if pipe == profile.overlapping else _touch(pipe, touched) for pipe in pipes
    ]
    ordered = pairwise(pipes) if own.is_ordered else ()
    for k, (first, then) in reversed(list(enumerate(ordered, 1))):
        work.insert(k, Sync(first, then))
    return (*_syncs(own.before), *work, *_syncs(own.after))


def on_cores(found: tuple[Step, ...], core: Core, profile: Profile) -> tuple[Step, ...]:
    """The steps with the core of every pipe; `core` is that of the instruction."""
    return tuple(_on_core(step, core, profile) for step in found)


def _on_core(step: Step, core: Core, profile: Profile) -> Step:
    if isinstance(step, Sync):
        return Sync(pipe_of(step.src, core, profile), pipe_of(step.dst, core, profile))
    return replace(step, pipe=pipe_of(step.pipe, core, profile))


def own_steps(found: tuple[Step, ...], core: str, vector_cores: int) -> tuple[Step, ...]:
    """The steps as a core of a block runs them."""

    def own(step: Step) -> Step:
        if isinstance(step, Sync):
            return Sync(own_pipe(step.src, core, vector_cores), own_pipe(step.dst, core, vector_cores))
        return replace(step, pipe=own_pipe(step.pipe, core, vector_cores))

    return tuple(map(own, found))


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
    own = call.route_kernel.handshake
    return {*own.before, *own.after, *own.each_row, *own.between, *own.after_fill}


def _touch(pipe: str, touched: tuple[Effect, ...]) -> PipeWork:
    here = [effect for effect in touched if effect.pipe == pipe]
    reads = tuple(effect.operand for effect in here if effect.access != "write")
    writes = tuple(effect.operand for effect in here if effect.access != "read")
    return PipeWork(pipe, reads, writes)


def _fenced(work: PipeWork, call: Call) -> PipeWork:
    """Work with the barriers that the headers have inside."""
    found = inside(call)
    late = () if found.first is None else tuple({*work.reads, *work.writes}.difference(found.first))
    return replace(work, fences=found.first is not None, late=late, ends=found.ends)


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
