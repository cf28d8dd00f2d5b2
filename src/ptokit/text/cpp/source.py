"""A program as one C++ source for the vendor's toolchain: A2/A3, A5, or the CPU simulator.

It is verified for the target and its headers first; an auto program gets addresses and flags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from ptokit.finding import Finding, VerifyError
from ptokit.isa.opaque import is_in_cpp
from ptokit.isa.policy import TileType
from ptokit.program.budget import Use, has_simt, memory_findings
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, SUBBLOCK_IDX
from ptokit.program.instr_calls import call_of
from ptokit.program.ir import Argument, CrossFlag, Float, Integer, Program, instructions, walk
from ptokit.program.order import order, order_events
from ptokit.program.place import BLOCK, footprint, place
from ptokit.program.verify import verify
from ptokit.program.verify_call import Options, header_findings
from ptokit.target import PROFILES, Profile
from ptokit.target.profile import VECTOR_CORE
from ptokit.text.cpp.barriers import with_barriers
from ptokit.text.cpp.body import INDENT, KernelBody, Ready, kind_of
from ptokit.text.cpp.expr import HELPERS, comment, place_text
from ptokit.text.cpp.header_checks import cores, crossing_findings, program_findings, value_findings
from ptokit.text.cpp.scatter import flatten
from ptokit.text.cpp.types import header_call, pointer_of


def prepare(program: Program, profile: Profile, options: Options, dyn_ub: int | None) -> Ready:
    """Verify a program for a target and its headers; an auto program gets addresses and flags.

    In C++ every tile is bound to an address, so nothing is allocated at compile time (MG-BUDG-08).
    """
    tiles, simt = _end_of_tiles(program, profile, dyn_ub), has_simt(program, profile)
    asked = _dynamic(profile, tiles) if dyn_ub is None else dyn_ub
    _raise_errors(verify(program, profile, replace(options, dyn_ub=asked, bound=True)))
    _raise_errors([*_header_findings(program, profile), *value_findings(program, profile)])
    placed = flatten(place(program, profile, dyn_ub, bound=True).program, profile, tiles)
    workspace = _end_of_tiles(placed, profile, dyn_ub)
    used = workspace + _workspace_size(placed, profile)
    asked = _dynamic(profile, used) if dyn_ub is None else dyn_ub
    title = program.name if used == tiles else f"{program.name} with the workspaces of its instructions"
    _raise_errors([
        *memory_findings(title, {TileType.Vec: Use(used)}, profile, asked, simt=simt),
        *program_findings(placed, profile, used, has_workspace=used > tiles),
    ])  # fmt: skip
    flagged = _flagged(placed, profile, workspace)
    _raise_errors(crossing_findings(flagged, profile))
    return Ready(flagged, workspace, asked)


def _flagged(placed: Program, profile: Profile, workspace: int) -> Program:
    """A program with addresses, with the flags and barriers of auto mode."""
    return order_events(with_barriers(order(placed, profile), profile, workspace), profile)


def _end_of_tiles(program: Program, profile: Profile, dyn_ub: int | None) -> int:
    """The first free address of UB behind the tiles."""
    return -(-footprint(program, profile, dyn_ub, bound=True).get(TileType.Vec, Use(0)).end // BLOCK) * BLOCK


def _raise_errors(findings: Iterable[Finding]) -> None:
    if errors := [finding for finding in dict.fromkeys(findings) if finding.level == "error"]:
        raise VerifyError(errors)


def _workspace_size(program: Program, profile: Profile) -> int:
    """Bytes of the largest workspace; vector instructions run one after the other and share it."""
    needing = (instr for instr in instructions(program.body) if instr.workspace is None)
    workspaces = (header_call(program, instr, profile).workspace for instr in needing)
    return max((scratch.nbytes for scratch in workspaces if scratch), default=0)


def _dynamic(profile: Profile, used: int) -> int:
    """The dynamic UB that a launch requests: none while that is safe."""
    ub = profile.ub
    return used if ub and ub.has_dynamic and used > (ub.safe or 0) else 0


def _header_findings(program: Program, profile: Profile) -> Iterator[Finding]:
    for instr in instructions(program.body):
        if instr.opaque_form and not is_in_cpp(instr.name, instr.opaque_form):
            message = f"{instr.name} on {profile.name}: the C++ headers have no call for it"
            fix = "convert to another form"
            yield Finding("error", "CP-HDR-01", message, fix=fix, where=instr.where, target=profile.name)
            continue
        for finding in header_findings(call_of(program, instr, profile), "error"):
            yield finding.at(instr.where)


BLOCKS = {BLOCK_IDX: "get_block_idx", BLOCK_NUM: "get_block_num", SUBBLOCK_IDX: "get_subblockid"}


def emit_unchecked(program: Program, profile: Profile) -> str:
    """The program as C++, word for word, whatever a target and its headers make of it."""
    end = _end_of_tiles(program, profile, None)
    ready = Ready(_flagged(place(program, profile, bound=True).program, profile, end), end, 0)
    return "\n".join(_File(ready, profile).lines()) + "\n"


def emit(program: Program, profile: Profile, options: Options | None = None, *, dyn_ub: int | None = None) -> str:
    """The program as C++. An auto program gets its addresses and flags first; a manual one keeps its own.

    Raises a `VerifyError` for what the target rejects, and for what its headers reject or compute differently.
    `dyn_ub` is the dynamic UB of the launch in bytes; by default, what the tiles need.
    """
    if profile.headers is None:
        known = ", ".join(name for name, other in PROFILES.items() if other.headers)
        raise ValueError(f"there is no C++ for {profile.name}; choose one of {known}")
    options = options or Options()
    asked = options.dyn_ub if dyn_ub is None else dyn_ub
    if asked and not (profile.ub and profile.ub.has_dynamic):
        raise ValueError(f"a launch on {profile.name} has no dynamic UB to ask for: leave dyn_ub out")
    ready = prepare(program, profile, options, asked)
    return "\n".join(_File(ready, profile).lines()) + "\n"


class _File:
    """One source: the head, the kernel, and its launch."""

    def __init__(self, ready: Ready, profile: Profile) -> None:
        self.ready, self.program, self.profile = ready, ready.program, profile
        self.body = KernelBody(ready, profile)
        self.identifiers = self.body.identifiers
        self.kernel = self.identifiers.of(self.program.name, "kernel")

    def lines(self) -> Iterator[str]:
        """The whole text."""
        body = self.body.lines()
        yield from self._head()
        yield from self._helpers()
        yield f"__global__ AICORE void {self.kernel}({', '.join(self._parameters('__gm__ '))}) {{"
        yield from self._guarded(body)
        yield "}"
        if self.profile.cores:
            yield from self._launcher()

    def _head(self) -> Iterator[str]:
        place = f" ({place_text(self.program.where)})" if self.program.where else ""
        yield f"// {self.kernel}{place} for {self.profile.name}, written by ptokit."
        yield from (comment(f"{name} = {value}") for name, value in self.program.constants)
        yield from ("#include <cstdint>", "", "#include <pto/pto-inst.hpp>", "", "using namespace pto;", "")

    def _helpers(self) -> Iterator[str]:
        for name, (function, code, about) in HELPERS.items():
            if name in self.body.expressions.helpers:
                yield comment(about)
                yield f"static AICORE inline int64_t {function}(int64_t a, int64_t b) {{ {code} }}"
                yield ""

    def _parameters(self, memory: str) -> Iterator[str]:
        """The parameters: a pointer for each memory, and numbers."""
        if self._base:
            yield f"{memory}uint64_t* {self._base}"
        for argument in self.program.arguments:
            if not isinstance(argument, Argument):
                number = "int64_t" if isinstance(argument, Integer) else argument.dtype.cpp
                yield f"{number} {self._name(argument)}"
            elif pointer_of(self.program, argument) is argument:
                yield f"{memory}{argument.dtype.cpp}* {self._name(argument)}"
        yield from (f"int64_t {self.identifiers.of(var)}" for var in self.body.open_variables())

    def _name(self, argument: Argument | Integer | Float) -> str:
        return self.identifiers.of(argument.name, kind_of(argument))

    def _guarded(self, lines: list[str]) -> Iterator[str]:
        """The body, for the core that has the tiles, or for both."""
        used_cores = cores(self.program, self.profile)
        guarded = self.profile.cores if self.body.has_both_cores else used_cores
        tests = " || ".join(f"defined({core.macro})" for core in guarded)
        if used_cores:
            yield f"#if {tests}"
        yield from self._vector_cores()
        used = self.body.expressions.used
        yield from (
            f"{INDENT}const int64_t {self.identifiers.of(var)} = {BLOCKS[var]}();" for var in BLOCKS if var in used
        )
        yield from lines
        if used_cores:
            yield "#endif"

    def _vector_cores(self) -> Iterator[str]:
        """A block has two vector cores, and the kernel has the work of one: the other only sets and waits, or ends."""
        name, cross = self.body.first_vector, self.profile.headers.cross if self.profile.headers else None
        if not name or cross is None:
            return
        if self._base:
            yield f"{INDENT}{cross.base}(reinterpret_cast<uint64_t>({self._base}));"
        yield f"#if defined({VECTOR_CORE.macro})"
        if cross.both_vectors:
            yield f"{INDENT}const bool {name} = get_subblockid() == 0;"
        else:
            yield f"{INDENT}if (get_subblockid() != 0) {{"
            yield f"{INDENT * 2}return;"
            yield f"{INDENT}}}"
        yield "#endif"

    @cached_property
    def _base(self) -> str:
        """The parameter with the memory of the flags between the cores, if there is one and the kernel uses it."""
        cross = self.profile.headers.cross if self.profile.headers else None
        used = any(isinstance(stmt, CrossFlag) for stmt in walk(self.program.body))
        return self.identifiers.fresh("ffts_addr") if cross and cross.base and used else ""

    def _launcher(self) -> Iterator[str]:
        """A function for the host; the simulator calls the kernel itself."""
        dynamic = self.ready.dyn_ub
        parameters = list(self._parameters(""))
        arguments = ", ".join(parameter.split()[-1] for parameter in parameters)
        launch = self.identifiers.fresh(f"launch_{self.kernel}")
        yield ""
        yield f"void {launch}({', '.join(('uint32_t blocks', 'void* stream', *parameters))}) {{"
        if dynamic:
            yield f"{INDENT}constexpr uint32_t kDynUbBytes = {dynamic};"
        yield f"{INDENT}{self.kernel}<<<blocks, {'kDynUbBytes' if dynamic else 'nullptr'}, stream>>>({arguments});"
        yield "}"
