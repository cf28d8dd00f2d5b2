"""Checks before a kernel runs: findings, memory and pipes for each target, and the program as text. Launches that are
watched: what they would do on the machine, on copies of their arrays.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Any, cast

import numpy as np

from ptokit.engine.gpu import on_gpu
from ptokit.engine.storage import address_of
from ptokit.engines import download
from ptokit.finding import NAME, Finding, Judged, VerifyError, by_level, counted, findings_html, summary
from ptokit.isa.policy import TileType
from ptokit.lang.arrays import Array, as_array, is_foreign
from ptokit.lang.context import Mode, current
from ptokit.lang.faults import finding_of, public, raised_in_user_code
from ptokit.lang.launch import LAUNCH_OPTIONS, Traced, check_options, grid_of, mode_of, observers, refuse_inside
from ptokit.lang.launcher import Launchable, quiet_report
from ptokit.lang.tensor import Arguments, GlobalTensor
from ptokit.machine.report import MachineOptions, MachineReport, is_enough
from ptokit.markup import Displayed, Markup, badge, box, clipped, table
from ptokit.program.budget import Use, has_simt
from ptokit.program.expr import Expr
from ptokit.program.ir import Assign, Program, walk
from ptokit.program.order import order
from ptokit.program.place import footprint, place
from ptokit.program.show import show as show_program
from ptokit.program.verify import pipes_used
from ptokit.target import families, families_with_pipes

WIDTH = 80
MOST_TILES = 32
"""Tiles that a notebook shows."""


@dataclass(frozen=True)
class Placed:
    """A tile and its addresses."""

    name: str
    memory: str
    addresses: tuple[Expr, ...]
    nbytes: int
    """Bytes of one copy."""


@dataclass(frozen=True, repr=False)
class TargetReport(Judged, Displayed):
    """The result of a check on one target."""

    target: str
    findings: tuple[Finding, ...]
    memory: dict[str, tuple[int, int | None]]
    """By memory: bytes used, and bytes available."""
    tiles: tuple[Placed, ...]
    pipes: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Whether the target accepts the kernel: no error, no hazard, and every instruction is modelled."""
        return self.ok and self.modelled

    @property
    def refused(self) -> bool:
        """Whether the target refuses the kernel: a finding is an error, and a launch raises it."""
        return any(finding.level == "error" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """`accepted`, `refused`, `not accepted` because of hazards, or `not judged`: an instruction is not modelled."""
        if self.accepted:
            return "accepted"
        return "refused" if self.refused else "not judged" if self.ok else "not accepted"

    def __repr__(self) -> str:
        return f"<TargetReport {self.target}: {summary(self.findings)}>"

    def __str__(self) -> str:
        lines = [f"{self.target}: {self.verdict}"]
        lines += [f"  {name}: {_bytes(used, size)}" for name, (used, size) in self.memory.items()]
        lines += [_wrapped(_placed(tile), "    ") for tile in self.tiles]
        if self.pipes:
            lines.append(f"  pipes: {', '.join(self.pipes)}")
        for finding in self.findings:
            message, *fix = str(finding).split("\n")
            lines += [_wrapped(message, "  "), *(_wrapped(line.strip(), "      ") for line in fix)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        tiles = [_placed(tile).partition(": ")[::2] for tile in self.tiles]
        places = table(tiles, ("tile", "addresses"), MOST_TILES) if tiles else ""
        return box(self.target, _verdicts([self]), places, findings_html(self.findings))


@dataclass(frozen=True, repr=False)
class Report(Judged, Displayed):
    """The results of a check, by target."""

    kernel: str
    grid: int
    targets: dict[str, TargetReport]

    def __getitem__(self, target: str) -> TargetReport:
        """The report of one target."""
        return self.targets[target]

    @property
    def findings(self) -> tuple[Finding, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The findings of all targets."""
        return tuple(finding for report in self.targets.values() for finding in report.findings)

    @property
    def accepted(self) -> tuple[str, ...]:
        """The targets that accept the kernel."""
        return tuple(name for name, report in self.targets.items() if report.accepted)

    def __repr__(self) -> str:
        return f"<Report {self.kernel[:NAME]} on {', '.join(self.targets)}: {summary(self.findings)}>"

    def __str__(self) -> str:
        head = f"{self.kernel} over {counted(self.grid, 'block')}"
        return "\n\n".join([head, *map(str, self.targets.values())])

    def _repr_html_(self) -> str:
        """The results in a notebook: a row for each target, then the findings."""
        title = f"{clipped(self.kernel, NAME)} over {counted(self.grid, 'block')}"
        return box(title, _verdicts(self.targets.values()), findings_html(self.findings))


def _verdicts(reports: Iterable[TargetReport]) -> Markup:
    """Targets in a notebook, a row for each."""
    rows = [
        (
            report.target,
            badge(report.verdict, "good" if report.accepted else "bad"),
            ", ".join(by_level(report.findings)),
            ", ".join(f"{name} {_bytes(used, size)}" for name, (used, size) in report.memory.items()),
            ", ".join(report.pipes),
        )
        for report in reports
    ]
    return table(rows, ("target", "verdict", "findings", "memory", "pipes"))


def _bytes(used: int, size: int | None) -> str:
    return f"{used:,} bytes" if size is None else f"{used:,} of {size:,} bytes ({used / size:.0%})"


def _placed(tile: Placed) -> str:
    places = ", ".join(f"{a:#x}..{a + tile.nbytes:#x}" if isinstance(a, int) else str(a) for a in tile.addresses)
    return f"{tile.name}: {places}"


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + "    ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


@public
def check(
    kernel: Launchable,
    /,
    *args: object,
    grid: object = 1,
    target: str = "all",
    header: bool | None = None,
    strict: bool | None = None,
    dyn_ub: int | None = None,
    **keywords: Any,
) -> Report:
    """Verify a kernel on one target or on all; nothing is executed.

    Takes the kernel's arguments as a launch does, and the options that select the rules. Of a recorded kernel whose
    blocks are unlike each other and very many, some are verified; with `options` that name blocks, all are.
    """
    options = keywords.get("options")
    enough = not isinstance(options, MachineOptions) or options.blocks is None or is_enough(options.blocks)
    blocks, arguments = grid_of(grid), _arguments("pto.check", kernel, args, keywords)
    names = kernel.targets or families() if target == "all" else (target,)
    modes = [mode_of(name, header, strict, dyn_ub) for name in names]
    found = [_report(kernel, arguments, mode, blocks, enough) for mode in modes]
    return Report(kernel.name, found[0][1] or blocks, {report.target: report for report, _ in found})


def _arguments(what: str, kernel: Launchable, args: tuple[object, ...], keywords: dict[str, Any]) -> Arguments:
    if not isinstance(kernel, Launchable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"{what} takes a kernel, got {type(kernel).__name__}: a function under @pto.kernel, with grid= as an option"
        )
    refuse_inside(what)
    given = {name: keywords.pop(name) for name in LAUNCH_OPTIONS if name in keywords}
    check_options(
        **{name: value for name, value in given.items() if name in ("engine", "threads", "launch", "options")}
    )
    return kernel.bind_for_check(args, keywords)


def _report(
    kernel: Launchable, arguments: Arguments, mode: Mode, grid: int, enough: bool
) -> tuple[TargetReport, int | None]:
    """The report on a target, and the grid that the kernel states itself."""
    target = mode.profile.name
    try:
        launches = kernel.launches(arguments, mode, grid, enough=enough)
        traced = [(each.trace(arguments, mode), blocks, _own_mode(each, mode)) for each, blocks in launches.made]
    except VerifyError as refusal:
        return TargetReport(target, refusal.findings, {}, (), ()), refusal.grid
    except (Exception, SystemExit) as problem:
        where = raised_in_user_code(problem)
        if where is None:
            raise
        return TargetReport(target, (finding_of(problem, where),), {}, (), ()), None
    reports = [_report_of(each, arguments, own, blocks) for each, blocks, own in traced]
    found = (*launches.findings, *(each for report in reports for each in report.findings))
    return replace(_joined(reports), findings=found), launches.grid


def _own_mode(kernel: Launchable, mode: Mode) -> Mode:
    """The mode with the dynamic UB that a launch in a source asks for."""
    options = mode.options
    if kernel.dyn_ub is None or options.dyn_ub is not None:
        return mode
    return mode_of(mode.profile.name, options.header, options.strict, kernel.dyn_ub)


def _joined(reports: Sequence[TargetReport]) -> TargetReport:
    """The reports of launches as one: the most of each memory, all tiles and pipes."""
    if len(reports) == 1:
        return reports[0]
    memory: dict[str, tuple[int, int | None]] = {}
    for report in reports:
        for name, use in report.memory.items():
            memory[name] = max(memory.get(name, use), use, key=lambda each: each[0])
    tiles = dict.fromkeys(tile for report in reports for tile in report.tiles)
    pipes = dict.fromkeys(pipe for report in reports for pipe in report.pipes)
    return replace(reports[0], memory=memory, tiles=tuple(tiles), pipes=tuple(pipes))


def _report_of(traced: Traced, arguments: Arguments, mode: Mode, grid: int) -> TargetReport:
    profile = mode.profile
    placement = place(traced.program, profile, mode.options.dyn_ub)
    verdict = traced.checked(mode, grid, arguments.numbers) if arguments.integers else traced.verdict(mode, grid)
    used = footprint(traced.program, profile, mode.options.dyn_ub, grid)
    simt = has_simt(traced.program, profile)
    return TargetReport(
        profile.name,
        (*verdict.errors, *verdict.non_errors),
        {_name(loc, mode): (use.end, _limit(loc, use, mode, simt)) for loc, use in used.items()},
        _tiles(placement.program, mode),
        pipes_used(traced.program, profile),
    )


def _name(loc: TileType, mode: Mode) -> str:
    """The memory's name; the location on the simulator, whose memories are all host memory."""
    memory = mode.profile.memories[loc]
    return loc.text if memory.size is None else memory.name


def _limit(loc: TileType, use: Use, mode: Mode, simt: bool) -> int | None:
    """Bytes that tiles may use."""
    requested = mode.options.dyn_ub or 0
    budget = mode.profile.budget(use.static, requested, simt=simt) if loc is TileType.Vec else None
    return budget.available if budget else mode.profile.memories[loc].size


def _tiles(program: Program, mode: Mode) -> tuple[Placed, ...]:
    moved: dict[str, tuple[Expr, ...]] = {name: tile.addresses for name, tile in program.tiles.items()}
    for stmt in walk(program.body):
        if isinstance(stmt, Assign):
            moved[stmt.tile] += (stmt.address,)
    return tuple(
        Placed(name, mode.profile.memories[tile.spec.loc].name, moved[name], tile.spec.nbytes)
        for name, tile in program.tiles.items()
    )


@public
def show(
    kernel: Launchable,
    /,
    *args: object,
    target: str | None = None,
    grid: object = 1,
    dyn_ub: int | None = None,
    **keywords: Any,
) -> None:
    """Print the program of a kernel as a target runs it: with the addresses and flags that auto mode adds."""
    arguments, mode = _arguments("pto.show", kernel, args, keywords), mode_of(target, dyn_ub=dyn_ub)
    for launched, _ in kernel.launches(arguments, mode, grid_of(grid)).made:
        program = place(launched.trace(arguments, mode).program, mode.profile, mode.options.dyn_ub).program
        print(show_program(order(program, mode.profile), mode.profile.name))
    if not mode.profile.pipes:
        others = " and ".join(families_with_pipes())
        print(f"({mode.profile.name} has no pipes and needs no flags; {others} do)")


# --- launches that are watched


LINE = 64
"""Bytes to which copies of arrays keep their alignment."""


def with_copies(args: Sequence[object], keywords: Mapping[str, Any]) -> tuple[Sequence[object], Mapping[str, Any]]:
    """Arguments of a launch by position and by name, with copies of their arrays."""
    copies = copied([*args, *keywords.values()])
    return copies[: len(args)], dict(zip(keywords, copies[len(args) :], strict=True))


def copied(values: Sequence[object]) -> list[object]:
    """Arguments of a launch with copies of their arrays; the copies share memory as the arrays do."""
    arrays = {k: array for k, value in enumerate(values) if (array := array_of(value)) is not None}
    copies = dict(zip(arrays, _copies(list(arrays.values())), strict=True))
    return [
        _over(value, copies[k]) if isinstance(value, GlobalTensor) else copies.get(k, value)
        for k, value in enumerate(values)
    ]


def array_of(value: object) -> Array | None:
    """The array of an argument; None if it has none."""
    if isinstance(value, GlobalTensor):
        return value.array
    return as_array(cast("object", value)) if isinstance(value, np.ndarray) or is_foreign(value) else None


def _copies(arrays: Sequence[Array]) -> list[Array]:
    ends = [array.bounds if on_gpu(array) else np.lib.array_utils.byte_bounds(array) for array in arrays]
    bounds = [(first, max(end, first + 1)) for first, end in ends]  # an empty array has an address, too
    memories = [_memory(first, end) for first, end in _joined_ranges(bounds)]
    found: list[Array] = []
    for array, (first, _) in zip(arrays, bounds, strict=True):
        start, memory = next((start, memory) for start, memory in memories if start <= first < start + memory.size)
        begin = address_of(array) - start
        copy = np.ndarray(array.shape, array.dtype, memory, begin, array.strides)
        copy[...] = download(array) if on_gpu(array) else array
        copy.flags.writeable = array.flags.writeable
        found.append(copy)
    return found


def _joined_ranges(bounds: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of addresses, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(bounds):
        if found and first < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return found


def _memory(first: int, end: int) -> tuple[int, Array]:
    """New bytes for a range of addresses, with the same alignment."""
    memory = np.zeros(end - first + LINE, np.uint8)
    skipped = (first - memory.ctypes.data) % LINE
    return first, memory[skipped : skipped + end - first]


def _over(tensor: GlobalTensor, array: Array) -> GlobalTensor:
    """The same tensor over another array."""
    kind: dict[str, Any] = {"layout": tensor.layout, "dtype": tensor.dtype}
    if tensor.is_plain or not array.flags.c_contiguous:
        return GlobalTensor(array, **kind)
    copy = GlobalTensor(array, shape=tensor.shape5, stride=tensor.stride5, **kind)
    copy.spec = tensor.spec  # with extents that are known at run time
    return copy


PASSED_ON = ("target", "strict", "header", "dyn_ub", "launch")
"""Options of a launch that also apply on the machine."""
_PAUSED: ContextVar[bool] = ContextVar("ptokit_paused", default=False)


@contextmanager
def paused() -> Generator[None, None, None]:
    """Launches in this block are not watched."""
    token = _PAUSED.set(True)
    try:
        yield
    finally:
        _PAUSED.reset(token)


def machine_report(
    kernel: Launchable, grid: int, arrays: Sequence[object], options: Mapping[str, Any]
) -> MachineReport:
    """A launch on the machine; options that only the machine has become `MachineOptions`."""
    parameters = getattr(kernel, "parameters", ())
    own = {field.name for field in fields(MachineOptions)} - {*PASSED_ON, *parameters}
    chosen = replace(options.get("options") or MachineOptions(), **only(options, own))
    rest = {name: value for name, value in options.items() if name not in own and name != "options"}
    return quiet_report(kernel[grid], *arrays, options=chosen, **rest)


def only(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of the options that have these names."""
    return {name: options[name] for name in names if name in options}


@dataclass(frozen=True)
class WatchedLaunch:
    """A launch that is about to be made."""

    kernel: Launchable
    grid: int
    args: Sequence[object]
    keywords: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def target(self) -> str:
        """The target that it names, or the current one."""
        return self.options.get("target") or current().name

    def on(self, target: str, **changed: Any) -> WatchedLaunch:
        """The same launch on another target, with some options changed."""
        return replace(self, options={**self.options, "target": target, **changed})

    def snapshot(self) -> WatchedLaunch:
        """The same launch with copies of its arrays, and with a kernel that later changes of globals do not concern."""
        copies, named = with_copies(self.args, self.keywords)
        return replace(self, kernel=self.kernel.definition.snapshot(), args=copies, keywords=named)

    def checked(self) -> TargetReport:
        """The report of a check, which runs nothing."""
        common = {**only(self.options, PASSED_ON), "target": self.target}
        (report,) = check(self.kernel, *self.args, grid=self.grid, **common, **self.keywords).targets.values()
        return report

    def report(self) -> MachineReport:
        """The report of the machine, on copies of the arrays."""
        copies, named = with_copies(self.args, self.keywords)
        common = {**only(self.options, (*PASSED_ON, "options")), "target": self.target}
        return machine_report(self.kernel, self.grid, copies, {**common, **named})

    def content(self) -> object:
        """All that the machine's findings depend on: launches with equal content have the same findings.

        The traced program stands for globals and closures.
        """
        mode = mode_of(self.target, *(self.options.get(name) for name in ("header", "strict", "dyn_ub")))
        traced = self.kernel.trace(self.kernel.bind(self.args, self.keywords), mode)
        values = (*self.args, *self.keywords.values())
        chosen = tuple(repr(self.options.get(name)) for name in ("launch", "options"))
        return traced, mode, chosen, self.grid, (*self.keywords,), tuple(map(_content, values))


def _content(value: object) -> object:
    array = array_of(value)
    if array is None:
        return type(value), repr(value)
    kind = value.spec if isinstance(value, GlobalTensor) else None
    flat = download(array) if on_gpu(array) else np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    place = address_of(array), array.strides, array.flags.writeable
    return type(value), kind, array.dtype, array.shape, place, blake2b(flat.data, digest_size=16).digest()


class LaunchWatcher:
    """Calls a function before every launch, except launches that this function makes."""

    def __init__(self, look: Callable[[WatchedLaunch], None]) -> None:
        self._look = look

    def observe(
        self,
        kernel: Launchable,
        grid: int,
        args: Sequence[object],
        keywords: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        """Called before a launch."""
        if not _PAUSED.get():
            with paused():
                self._look(WatchedLaunch(kernel, grid, args, keywords, options))

    @contextmanager
    def watching(self) -> Generator[None, None, None]:
        """Launches in this block are watched."""
        observers.append(self.observe)
        try:
            yield
        finally:
            observers.remove(self.observe)
