"""Proofs of kernels: what holds for every launch, and a smallest launch that shows what does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter, process_time
from typing import Any

import numpy as np

from ptokit.finding import Finding, Judged, OutOfBoundsError, VerifyError, counted
from ptokit.lang.arrays import as_array
from ptokit.lang.check import copied
from ptokit.lang.context import Mode
from ptokit.lang.faults import public
from ptokit.lang.launch import Traced, check_options, grid_of, mode_of, refuse_inside
from ptokit.lang.launcher import Launchable, quiet_report
from ptokit.lang.shaped import Shapes, shapes_of
from ptokit.lang.tensor import Arguments
from ptokit.machine.report import MachineOptions
from ptokit.markup import Displayed
from ptokit.program import ir
from ptokit.program.expr import Var, evaluate
from ptokit.proof.accesses import memory_of
from ptokit.proof.outcome import ProofOutcome, uses_blocks
from ptokit.proof.outcome import prove as prove_program
from ptokit.target import families_with_pipes

SECONDS = 5.0
"""For one target: the default of `seconds`."""
VALUES = (0, 1, 2, 3, 4, 5, 7, 8, 20)
"""Numbers that a counterexample is searched with."""
FILLS = (*VALUES, 1 << 10, 1 << 20)
"""Numbers that arrays are filled with whose elements decide slices, loops and branches."""
GRIDS = (1, 2, 3, 4)


@dataclass(frozen=True)
class Counterexample:
    """A launch that shows a fault."""

    grid: int
    numbers: Mapping[str, int]
    """Integer arguments and lengths."""
    data: Mapping[str, int]
    """ArrayProof that were filled with one number."""

    def __str__(self) -> str:
        numbers = [f"{name} = {value}" for name, value in self.numbers.items()]
        filled = [f"{name} full of {value}" for name, value in self.data.items()]
        return ", ".join([counted(self.grid, "block"), *numbers, *filled])


@dataclass(frozen=True, repr=False)
class TargetProof(Judged, Displayed):
    """What is proved on one target."""

    target: str
    verdict: str
    """`proved`, `refuted` or `unproved`."""
    findings: tuple[Finding, ...]
    """Of a refuted kernel: what the counterexample shows. Else what is not proved, as notes."""
    covers: tuple[str, ...] = ()
    """For what a proof holds."""
    excludes: tuple[str, ...] = ()
    """What it says nothing of."""
    counterexample: Counterexample | None = None
    seconds: float = 0.0
    states: int = 0

    def __repr__(self) -> str:
        return f"<TargetProof {self.target}: {self.verdict}>"

    def __str__(self) -> str:
        lines = [f"{self.target}: {self.verdict}"]
        lines += [f"  for {', '.join(self.covers)}"] if self.covers and self.verdict != "refuted" else []
        lines += [f"  not judged: {each}" for each in self.excludes]
        lines += [f"  shown by a launch with {self.counterexample}"] if self.counterexample else []
        for finding in self.findings:
            lines += [f"  {line}" for line in str(finding).split("\n")]
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Proof(Judged, Displayed):
    """The proofs of a kernel, by target."""

    kernel: str
    targets: dict[str, TargetProof]

    def __getitem__(self, target: str) -> TargetProof:
        """The proof for one target."""
        return self.targets[target]

    @property
    def findings(self) -> tuple[Finding, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The findings of all targets."""
        return tuple(finding for proof in self.targets.values() for finding in proof.findings)

    @property
    def verdict(self) -> str:
        """The worst of all targets: `refuted`, `unproved` or `proved`."""
        verdicts = {proof.verdict for proof in self.targets.values()}
        return next(verdict for verdict in ("refuted", "unproved", "proved") if verdict in verdicts)

    def __repr__(self) -> str:
        return f"<Proof {self.kernel}: {', '.join(f'{p.target} {p.verdict}' for p in self.targets.values())}>"

    def __str__(self) -> str:
        return "\n\n".join([self.kernel, *map(str, self.targets.values())])


@public
def prove(
    kernel: Launchable,
    /,
    *args: object,
    grid: object = None,
    target: str = "all",
    seconds: float = SECONDS,
    header: bool | None = None,
    strict: bool | None = None,
    dyn_ub: int | None = None,
    **keywords: Any,
) -> Proof:
    """Prove that a kernel is right for every launch: order, flags, bounds, memory.

    Takes the kernel's arguments as a launch does; an array may be `pto.shaped(...)`, with lengths that are any number.
    Without `grid` the proof is for all grids. What cannot be proved within `seconds` for each target is searched for a
    launch that shows a fault, on the machine.
    """
    refuse_inside("pto.prove")
    check_options()
    shapes = shapes_of(args, keywords)
    names = [name for name in (kernel.targets or families_with_pipes()) if target in ("all", name)] or [target]
    blocks = None if grid is None else grid_of(grid)
    found: dict[str, TargetProof] = {}
    for name in names:
        mode = mode_of(name, header, strict, dyn_ub)
        found[name] = _Attempt(kernel, shapes, mode, blocks, seconds).result()
    return Proof(kernel.name, found)


class _Attempt:
    """The proof of a kernel for one target."""

    def __init__(self, kernel: Launchable, shapes: Shapes, mode: Mode, grid: int | None, seconds: float) -> None:
        self.kernel, self.shapes, self.mode, self.grid, self.seconds = kernel, shapes, mode, grid, seconds
        self.began = process_time()

    def result(self) -> TargetProof:
        """The verdict."""
        name, began = self.mode.profile.name, perf_counter()
        try:
            outcomes, programs = self._outcomes()
        except (VerifyError, OutOfBoundsError) as refusal:
            return TargetProof(name, "refuted", tuple(each.on(name) for each in refusal.findings))
        open_ = tuple(dict.fromkeys(finding for outcome in outcomes for finding in outcome.open))
        covers = tuple(dict.fromkeys(each for outcome in outcomes for each in outcome.covers))
        excludes = tuple(dict.fromkeys(each for outcome in outcomes for each in outcome.excludes))
        states = sum(outcome.states for outcome in outcomes)
        shown = self._counterexample(programs) if open_ else None
        verdict = "refuted" if shown else "unproved" if open_ else "proved"
        example, findings = shown or (None, open_)
        seconds = perf_counter() - began
        return TargetProof(name, verdict, findings, covers, excludes, example, seconds, states)

    def _outcomes(self) -> tuple[list[ProofOutcome], list[ir.Program]]:
        arguments, mode = self.kernel.bind_for_check(*self.shapes.sample()), self.mode
        made = self.kernel.launches(arguments, mode, self.grid or 1, enough=True)
        outcomes: list[ProofOutcome] = []
        programs: list[ir.Program] = []
        errors = [finding for finding in made.findings if finding.is_fault]
        for each, blocks in made.made:
            program, bounds, facts = self._program(each, arguments)
            grid = self.grid if made.grid is None else blocks
            verdict = (
                Traced(program).checked(mode, grid or 1, {})
                if not facts
                else each.trace(arguments, mode).verdict(mode, grid or 1)
            )
            errors += [*verdict.errors, *(finding for finding in verdict.non_errors if finding.is_fault)]
            programs.append(program)
            if not errors:
                left = self.seconds - (process_time() - self.began)
                outcomes.append(
                    prove_program(
                        program, mode.profile, mode.options, grid=grid, bounds=bounds, facts=facts, seconds=left
                    )
                )
        if errors:
            raise VerifyError(errors)
        return outcomes, programs

    def _program(self, kernel: Launchable, arguments: Arguments) -> tuple[ir.Program, dict[Any, Any], tuple[Any, ...]]:
        """The program of a launch, with bounds and facts of its lengths."""
        if not self.shapes.names:
            return kernel.trace(arguments, self.mode).program, {}, ()
        program, conditions = kernel.general(arguments, self.mode)
        parameters = list(getattr(kernel, "parameters", ()))
        return self.shapes.applied(parameters, program, conditions, arguments.lengths)

    # --- a launch that shows a fault

    def _counterexample(self, programs: Sequence[ir.Program]) -> tuple[Counterexample, tuple[Finding, ...]] | None:
        end = process_time() + self.seconds
        for example, args, keywords in self._launches(programs):
            if process_time() > end:
                return None
            findings = self._findings(example, args, keywords)
            if findings:
                return example, findings
        return None

    def _findings(
        self, example: Counterexample, args: Sequence[object], keywords: Mapping[str, object]
    ) -> tuple[Finding, ...]:
        """The faults of a launch on the machine."""
        name = self.mode.profile.name
        options = MachineOptions(checks=("order", "memory", "blocks"))
        try:
            report = quiet_report(self.kernel[example.grid], *args, target=name, options=options, **keywords)
        except (VerifyError, OutOfBoundsError) as refusal:
            return tuple(each.on(name) for each in refusal.findings if each.is_fault)
        return tuple(each for each in report.findings if each.is_fault)

    def _launches(
        self, programs: Sequence[ir.Program]
    ) -> Iterator[tuple[Counterexample, Sequence[object], Mapping[str, object]]]:
        """Launches to try, the smallest first."""
        numbers = sorted(
            {each.name for program in programs for each in program.arguments if isinstance(each, ir.Integer)}
        )
        loaded = sorted({
            memory_of(program, stmt.source)
            for program in programs for stmt in ir.walk(program.body) if isinstance(stmt, ir.LoadScalar)
        })  # fmt: skip
        many = self.grid is None and any(map(uses_blocks, programs))
        grids = GRIDS if many else (self.grid or 1,)
        chosen = [name for name in numbers if self.shapes.is_free(name)]
        lengths = sorted(self.shapes.names)
        zeros = {name: 0 for program in programs for name, each in program.tensors.items() if each.dtype.is_integer}
        fills = FILLS if loaded else (0,)
        ranges = [[self.shapes.within(name, value) for value in VALUES] for name in lengths]
        tries = product(grids, fills, *[VALUES] * len(chosen), *[sorted({*each}) for each in ranges])
        for grid, fill, *values in sorted(tries, key=_size):
            given = dict(zip([*chosen, *lengths], values, strict=True))
            args, keywords = self.shapes.sample({name: given[name] for name in lengths})
            data = zeros | dict.fromkeys(loaded, fill)
            args, keywords = self._with(programs, args, keywords, given, data)
            yield Counterexample(grid, given, data), args, keywords

    def _made(self, program: ir.Program, values: Mapping[str, object], numbers: Mapping[str, int]) -> dict[str, object]:
        """Arrays of zeros, and numbers, for arguments that were not given."""
        known = {Var(name): number for name, number in numbers.items()}
        missing = {*self.kernel.missing(values)}
        return {
            each.name: np.zeros([max(0, evaluate(dim, known)) for dim in each.shape], each.dtype.numpy)
            if isinstance(each, ir.Argument)
            else numbers.get(each.name, 0)
            for each in program.arguments
            if each.name in missing
        }

    def _with(
        self,
        programs: Sequence[ir.Program],
        args: Sequence[object],
        keywords: Mapping[str, object],
        numbers: Mapping[str, int],
        data: Mapping[str, int],
    ) -> tuple[Sequence[object], dict[str, object]]:
        """Copies of the arguments, with other numbers, and with arrays full of a number."""
        names = list(getattr(self.kernel, "parameters", {}))
        values = dict(zip(names, args, strict=False)) | dict(keywords) if names else dict(keywords)
        for program in programs:
            values = self._made(program, values, numbers) | values
        own = copied(list(values.values()))
        changed = {name: numbers.get(name, value) for name, value in zip(values, own, strict=True)}
        for name, number in data.items():
            array = as_array(changed[name]) if isinstance(changed.get(name), np.ndarray) else None
            if array is not None:
                array[...] = number
        rest = [] if names else copied(list(args))
        return rest, changed


def _size(launch: tuple[Any, ...]) -> tuple[int, ...]:
    grid, fill, *values = launch
    return sum(values) + grid + fill, grid, *values
