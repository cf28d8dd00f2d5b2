"""Kernels of C++ sources: compiled, recorded with the arrays of a launch, and launched like any other."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import numpy as np

from ptokit.cxx.child import RecordLimits
from ptokit.cxx.compile import TARGETS, Build, CompileError, CompileOptions, NoCompilerError, compile_source
from ptokit.cxx.database import database_entry
from ptokit.cxx.names_in_source import SourceTexts
from ptokit.cxx.problems import OWN_CODE, problem_findings
from ptokit.cxx.program import program_of
from ptokit.cxx.record import ArrayArgument, EntryError, ScalarArgument, record
from ptokit.cxx.recording import RecordedArray, RecordedLaunch, Recording
from ptokit.cxx.source import CppEntry, Parameter
from ptokit.engine.llvm import store
from ptokit.engine.runnable import Run
from ptokit.engine.storage import Storage
from ptokit.engines import AUTO
from ptokit.finding import Finding, VerifyError, Where, suggestion
from ptokit.isa.dtype import DType, dtype
from ptokit.lang.arguments import Arguments, array_argument, is_integer
from ptokit.lang.context import Mode
from ptokit.lang.cpp_edits import edited_texts
from ptokit.lang.faults import public
from ptokit.lang.launch import grid_of, mode_of
from ptokit.lang.launcher import Launchable, Launcher
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.traced import Traced
from ptokit.lang.values import Informer
from ptokit.lang.where import refuse
from ptokit.machine.proposal import Patch
from ptokit.program.ir import Argument, Program
from ptokit.program.repair import Edit, Unpatchable

ANY = ("void", "uint8_t", "unsigned char", "char", "int8_t", "GM_ADDR")
"""Types of pointers to elements of any type."""
PLACE = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<message>[^\n]*)", re.M
)
MISSING = re.compile("No such file or directory|file not found")
"""What compilers say of a header that is in none of their folders."""
INCLUDE_FIX = "name the header's folder: -I DIR, or a compile_commands.json beside the source"
WHOLE = {"int": "int32", "unsigned": "uint32", "unsigned int": "uint32", "long": "int64", "size_t": "uint64",
         "unsigned long": "uint64", "long long": "int64", "short": "int16", "char": "int8"}  # fmt: skip
"""C++ types of scalars that are not among the spellings of element types."""
NULLS = ("ffts", "stream")
"""Words in the names of pointers that no array is passed for."""
WORKSPACE = 1 << 16
"""Bytes of memory for a pointer that no array is passed for."""
NO_ENTRY = 'write an explicit instantiation, or a function extern "C" void launch(..., void* stream)'
"""What a source lacks if nothing in it can be run."""
MOST_RECORDINGS = 8
"""Recordings that are kept."""


def compile_findings(error: CompileError, target: str) -> tuple[Finding, ...]:
    """A compiler's first errors as findings."""
    found = [
        Finding("error", OWN_CODE, f"the compiler refuses the source: {match['message']}", target=target,
                where=Where(match["file"], int(match["line"]), int(match["column"]) if match["column"] else None))
        for match in PLACE.finditer(str(error))
    ]  # fmt: skip
    found = [replace(each, fix=INCLUDE_FIX) if MISSING.search(each.message) else each for each in found]
    return tuple(found[:3]) or (Finding("error", OWN_CODE, str(error), target=target),)


# --- sources


class LibrariesOnDisk:
    """Compiled libraries in the cache of machine code."""

    def load(self, key: str) -> bytes | None:
        """The library of a key; None if there is none."""
        found = store.load(key)
        return found.code if found is not None and found.facts == KIND else None

    def save(self, key: str, library: bytes) -> None:
        """Keep a library, if possible."""
        store.save(key, store.Entry(KIND, library))


KIND = {"kind": "C++ library"}
LIBRARIES = LibrariesOnDisk()


class CppSource:
    """A C++ source with its builds, one for each target."""

    def __init__(self, file: str, options: CompileOptions) -> None:
        self.file, self.options = file, options
        self._builds: dict[str, Build] = {}
        self.texts = SourceTexts(dict(options.texts))

    def build(self, target: str) -> Build:
        """The source compiled for a target. Raises VerifyError; ImportError if there is no compiler."""
        if target not in self._builds:
            try:
                self._builds[target] = build = compile_source(Path(self.file), target, self.options, kept=LIBRARIES)
            except NoCompilerError as error:
                raise ImportError(str(error)) from None
            except CompileError as error:
                raise VerifyError(compile_findings(error, target)) from error
            weakref.finalize(self, build.close)
        return self._builds[target]

    def first_build(self, target: str = "") -> Build:
        """The build for a target, or for the first that can be built."""
        for name in (target,) if target else TARGETS:
            try:
                return self.build(name)
            except VerifyError:
                if target or name == [*TARGETS][-1]:
                    raise
        raise AssertionError

    def changed(self, texts: Mapping[str, str]) -> CppSource:
        """The source with other texts in some of its files."""
        merged = {**dict(self.options.texts), **texts}
        return CppSource(self.file, replace(self.options, texts=tuple(sorted(merged.items()))))


def entries_of(build: Build, given: Sequence[str] = ()) -> list[CppEntry]:
    """The entries that are judged: those that the given arguments suffice for, functions that launch kernels before
    kernels."""
    taking = [entry for entry in build.entries if {*given} <= {each.name for each in entry.parameters}]
    ready = [entry for entry in taking if all(_is_given(each) or each.name in given for each in entry.parameters)]
    for entries in (ready, taking, build.entries):
        for kind in ("launch", "kernel"):
            if found := [entry for entry in entries if entry.kind == kind]:
                return found
    return []


def _is_given(parameter: Parameter) -> bool:
    return _kind(parameter) in ("array", "null")


def entries_named(build: Build, name: str) -> list[CppEntry]:
    """The entries of a name: with all of it, without its namespaces, or without its template arguments."""
    for kept in (str, _without_namespaces, _without_arguments, _base_name):
        if found := [entry for entry in build.entries if _compact(kept(entry.name)) == _compact(name)]:
            return found
    names = [entry.name for entry in build.entries]
    raise ValueError(f"{build.source.name} has no entry {name}; it has {_list(names)}{suggestion(name, names)}")


def _compact(name: str) -> str:
    return name.replace(" ", "")


def _without_arguments(name: str) -> str:
    return name.partition("<")[0]


def _without_namespaces(name: str) -> str:
    head, bracket, arguments = name.partition("<")
    return head.rpartition("::")[2] + bracket + arguments


def _base_name(name: str) -> str:
    return _without_namespaces(_without_arguments(name))


def chosen_entry(build: Build, name: str | None, given: Sequence[str] = ()) -> CppEntry:
    """The entry of a name, or the only one that the given arguments suffice for."""
    found = entries_of(build, given) if name is None else entries_named(build, name)
    if len(found) != 1:
        names = _list([entry.name for entry in found])
        what = (
            f"has several entries: {names}; name one with --entry or function="
            if found
            else f"has no entry: {NO_ENTRY}"
        )
        raise ValueError(f"{build.source.name} {what}")
    return found[0]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


@public
def load_cpp(
    file: str,
    function: str | None = None,
    target: str | None = None,
    options: CompileOptions | None = None,
) -> CppKernel:
    """A kernel of a C++ source: `function` names one of several entries. Without `options`, those of the source's
    compile database are used."""
    Path(file).stat()  # raises for a file that there is not
    source, target = source_of(file, target, options)
    build = source.first_build(target or "")
    return CppKernel(source, chosen_entry(build, function), build.target)


@public
def load_entries(file: str, target: str | None = None) -> list[CppKernel]:
    """The kernels of all entries of a C++ source that are judged: functions that launch kernels, else kernels."""
    source, target = source_of(file, target)
    build = source.first_build(target or "")
    return [CppKernel(source, entry, build.target) for entry in entries_of(build)]


def source_of(
    file: str, target: str | None = None, options: CompileOptions | None = None
) -> tuple[CppSource, str | None]:
    """A source, and the target that it is compiled for first."""
    if options is None:
        stated = database_entry(Path(file))
        options = CompileOptions().with_stated(stated)
        target = target or stated.target
    return CppSource(file, options), target


# --- kernels


@dataclass(frozen=True)
class RecordedLaunches:
    """What an entry did with some arguments: the program and the grid of each launch."""

    recording: Recording
    traced: tuple[Traced, ...]
    grids: tuple[int, ...]
    allocated: Mapping[str, np.ndarray[Any, Any]]
    """Device memory that the host code allocated."""
    remarks: tuple[Finding, ...]


class CppKernel(Launchable):
    """An entry of a C++ source: `kernel[grid](x, y, target="a5")`. The grid of a launch function is its own."""

    targets = tuple(TARGETS)

    def __init__(self, source: CppSource, entry: CppEntry, target: str, grid: int = 1) -> None:
        super().__init__(entry.name, None)
        self.source, self.entry, self.target, self.grid = source, entry, target, grid
        self.parameters = {name: _kind(each) for name, each in self._named().items() if not each.is_stream}
        """The parameters in order, and their kinds: `array`, `integer`, `float`, or `null` for a pointer that no array
        need be passed for."""
        self._recorded: dict[tuple[Any, ...], RecordedLaunches | VerifyError] = {}

    def _named(self) -> dict[str, Parameter]:
        return {each.name or f"p{number}": each for number, each in enumerate(self.entry.parameters)}

    def __getitem__(self, grid: object) -> Launcher:
        """The kernel over a grid of blocks."""
        return CppLauncher(self.over(grid_of(grid)), grid_of(grid))

    def over(self, grid: int) -> CppKernel:
        """The kernel over a grid."""
        if grid == self.grid:
            return self
        other = CppKernel(self.source, self.entry, self.target, grid)
        return other

    def dtype(self, name: str) -> DType | None:
        """The element type of a parameter; None if it takes any."""
        return _element(self._named()[name])

    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """Sort the arguments of a launch by kind."""
        positional = dict(zip(self.parameters, args, strict=False))
        unknown = [name for name in keywords if name not in self.parameters]
        if unknown or len(args) > len(self.parameters):
            what = f"unknown {', '.join(unknown)}" if unknown else "too many arguments"
            raise TypeError(f"{self.name}: {what}; it takes {self._listed()}")
        given = {**positional, **keywords}
        if missing := self.missing(given):
            raise TypeError(f"{self.name}: missing {', '.join(missing)}; it takes {self._listed()}")
        tensors, integers, floats = dict[str, GlobalTensor](), dict[str, int](), dict[str, object]()
        for name, kind in self.parameters.items():
            value = given.get(name)
            if kind == "null" and value is None:
                continue
            if kind in ("array", "null"):
                tensors[name] = self._tensor(name, value)
            elif kind == "integer":
                if not is_integer(value):
                    raise refuse("KN-17", f"`{name}` takes a whole number; found {value!r}", "pass an int", name)
                integers[name] = int(cast("int", value))
            else:
                floats[name] = float(cast("float", value))
        return Arguments(tensors, integers, floats)

    def _tensor(self, name: str, value: object) -> GlobalTensor:
        tensor = value if isinstance(value, GlobalTensor) else array_argument(name, value)
        expected = self.dtype(name)
        if not tensor.array.flags.c_contiguous:
            raise refuse("KN-17", f"`{name}` must be contiguous", "pass np.ascontiguousarray(a)", name)
        if expected is not None and tensor.dtype is not expected:
            fix = f'pass an array of {expected}: a.astype("{expected}")'
            raise refuse("KN-17", f"`{name}` holds {expected} in the source; found {tensor.dtype}", fix, name)
        return tensor

    def _listed(self) -> str:
        return ", ".join(f"{name} ({kind})" for name, kind in self.parameters.items()) or "no arguments"

    def missing(self, given: Mapping[str, object]) -> list[str]:
        """The required arguments that are not among these."""
        return [name for name, kind in self.parameters.items() if kind != "null" and name not in given]

    # --- recordings

    def recorded(self, arguments: Arguments, mode: Mode) -> RecordedLaunches:
        """What the entry does with these arguments. Raises VerifyError."""
        family = mode.profile.family
        target = family if family in TARGETS else self.target
        key = (target, self.grid, *_content(arguments))
        if key not in self._recorded:
            if len(self._recorded) >= MOST_RECORDINGS:
                self._recorded.clear()
            try:
                self._recorded[key] = self._record(arguments, target)
            except VerifyError as refusal:
                self._recorded[key] = refusal
        found = self._recorded[key]
        if isinstance(found, VerifyError):
            raise VerifyError(found.findings)
        return found

    def reach(self, keywords: Mapping[str, object]) -> dict[str, int]:
        """How far the calls of the entry reach into each array: bytes from its start."""
        arguments = self.bind((), keywords)
        try:
            recording = self._recording(arguments, self.target)
        except VerifyError:
            return {}
        names = [each.name for each in recording.launches[0].arguments] if recording.launches else []
        found = dict.fromkeys(names, 0)
        for call in recording.calls:
            for operand in call.operands:
                if isinstance(operand, RecordedArray) and operand.argument is not None:
                    name = names[operand.argument]
                    found[name] = max(found[name], _end(operand))
        return found

    def _recording(self, arguments: Arguments, target: str) -> Recording:
        build = self.source.build(target)
        grid = self.grid if self.entry.kind == "kernel" else None
        informer = Informer(target)
        try:
            return record(
                build, self.entry.name, [*self._passed(arguments)], grid, RecordLimits(), inform=informer.inform
            )
        except EntryError as error:
            raise VerifyError([Finding("error", OWN_CODE, str(error), target=target)]) from error

    def _record(self, arguments: Arguments, target: str) -> RecordedLaunches:
        recording = self._recording(arguments, target)
        found = problem_findings(recording)
        if any(problem.fatal for problem in recording.problems):
            raise VerifyError(finding.on(target) for finding in found)
        if not recording.launches:
            message = f"{self.name} launched no kernel"
            raise VerifyError(
                [
                    Finding(
                        "error",
                        OWN_CODE,
                        message,
                        fix="give arguments with which it does, or name another entry",
                        target=target,
                    )
                ]
            )
        programs = [self._program(recording, launch, arguments) for launch in recording.launches]
        return RecordedLaunches(
            recording,
            tuple(Traced(program, {}) for program in programs),
            tuple(launch.grid for launch in recording.launches),
            _allocated(recording, arguments),
            found,
        )

    def _program(self, recording: Recording, launch: RecordedLaunch, arguments: Arguments) -> Program:
        program = program_of(recording, launch, self.source.texts)
        shared = arguments.shared()
        if not shared:
            return program
        joined = (
            replace(each, memory=shared.get(each.array, "")) if isinstance(each, Argument) else each
            for each in program.arguments
        )
        return replace(program, arguments=tuple(joined))

    def _passed(self, arguments: Arguments) -> Iterator[ArrayArgument | ScalarArgument]:
        for name, parameter in self._named().items():
            kind = _kind(parameter)
            if name in arguments.tensors:
                yield ArrayArgument(name, cast("Any", arguments.tensors[name].array))
            elif kind == "null" and parameter.is_stream:
                yield ScalarArgument(name, "uint64", None)
            elif kind == "null":
                yield ArrayArgument(name, np.zeros(WORKSPACE, np.uint8))
            else:
                value = arguments.integers[name] if kind == "integer" else arguments.constants[name]
                yield ScalarArgument(name, _scalar(parameter).name, cast("float", value))

    def launches(self, arguments: Arguments, mode: Mode, grid: int) -> list[tuple[Launchable, int]]:
        """The launches that the entry makes, each with its grid."""
        recorded = self.recorded(arguments, mode)
        return [(CppLaunch(self, number, recorded), grid) for number, grid in enumerate(recorded.grids)]

    def trace(self, arguments: Arguments, mode: Mode) -> Traced:
        """The program of the first launch."""
        return self.recorded(arguments, mode).traced[0]

    def own_grid(self, arguments: Arguments, mode: Mode) -> int | None:
        """The number of blocks that a launch function states: of its only launch, or of the largest."""
        try:
            return max(self.recorded(arguments, mode).grids) if self.entry.kind == "launch" else None
        except VerifyError:
            return None

    def remarks(self, arguments: Arguments, mode: Mode) -> tuple[Finding, ...]:
        """What the recording says besides its launches."""
        return self.recorded(arguments, mode).remarks

    def rewritten(self, program: Program, edits: Sequence[Edit]) -> Patch:
        """The kernel with edits of its program made in its source."""
        before = {file: self.source.texts.text(file) for file in _files(program)}
        if missing := [file for file, text in before.items() if not text]:
            raise Unpatchable(f"{missing[0]} cannot be read")
        after = edited_texts(before, program, edits)
        return Patch({file: before[file] for file in after}, after, self.with_texts(after))

    def with_texts(self, texts: Mapping[str, str], *, written: bool = False) -> CppKernel:
        """The kernel of the source with these texts."""
        return CppKernel(self.source.changed(texts), self.entry, self.target, self.grid) if texts else self

    def run_untraced(self, *_: object) -> None:
        """C++ has no Python function to run."""
        raise ValueError(f"{self.name}: debug=True runs a kernel's Python function; this one is C++")


class CppLaunch(Launchable):
    """One launch that an entry makes."""

    def __init__(self, owner: CppKernel, number: int, recorded: RecordedLaunches | None = None) -> None:
        super().__init__(owner.name, None)
        self.owner, self.number, self._fixed = owner, number, recorded
        self._last = recorded
        if recorded is not None and len(recorded.traced) > 1:
            self.name = f"{owner.name}, launch {number + 1} of {len(recorded.traced)}"

    @property
    def parameters(self) -> dict[str, str]:
        """Those of the entry."""
        return self.owner.parameters

    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """Sort the arguments of the entry."""
        return self.owner.bind(args, keywords)

    def missing(self, given: Mapping[str, object]) -> list[str]:
        """The required arguments of the entry that are not among these."""
        return self.owner.missing(given)

    def trace(self, arguments: Arguments, mode: Mode) -> Traced:
        """The program of the launch."""
        self._last = self._fixed or self.owner.recorded(arguments, mode)
        if self.number >= len(self._last.traced):
            raise Unpatchable("the changed source makes fewer launches")
        return self._last.traced[self.number]

    def storages(self, arguments: Arguments) -> dict[str, Storage]:
        """The memory of each argument of the program: views of one array share it."""
        assert self._last is not None
        found: dict[str, Storage] = {}
        for name, argument in self._last.traced[self.number].program.tensors.items():
            tensor = arguments.tensors.get(argument.array)
            array = tensor.array if tensor is not None else self._last.allocated[argument.array]
            found[name] = _storage(cast("Any", array), argument.dtype)
        return found

    def rewritten(self, program: Program, edits: Sequence[Edit]) -> Patch:
        """The launch with edits of its program made in the source."""
        patch = self.owner.rewritten(program, edits)
        return replace(patch, kernel=CppLaunch(patch.kernel, self.number))

    def with_texts(self, texts: Mapping[str, str], *, written: bool = False) -> CppLaunch:
        """The launch of the source with these texts."""
        return CppLaunch(self.owner.with_texts(texts), self.number)

    def run_untraced(self, *_: object) -> None:
        """C++ has no Python function to run."""
        self.owner.run_untraced()


class CppLauncher(Launcher):
    """An entry with its grid, ready to be called."""

    __slots__ = ()

    def __call__(self, /, *args: object, target: str | None = None, engine: str = AUTO, **keywords: Any) -> Run:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Record the entry with these arguments, then run its launches one after the other."""
        kernel = cast("CppKernel", self.kernel)
        target = target or kernel.target
        own = {name: keywords[name] for name in kernel.parameters if name in keywords}
        mode = mode_of(target)
        arguments = kernel.bind(args, own)
        remarks = kernel.remarks(arguments, mode)  # before a launch changes the arrays
        runs = [
            Launcher(launched, grid)(*args, target=target, engine=engine, **keywords)
            for launched, grid in kernel.launches(arguments, mode, self.grid)
        ]
        last = next((run for run in runs if _is_faulty(run)), runs[-1])
        more = [finding for run in runs if run is not last for finding in run.findings]
        return replace(last, findings=(*remarks, *last.findings, *more))


def _is_faulty(run: Run) -> bool:
    return any(finding.level != "note" for finding in run.findings)


def _files(program: Program) -> list[str]:
    """The files of a program's statements and of the calls that lead to them."""
    from ptokit.program.ir import walk

    places = (where for stmt in walk(program.body) if stmt.where for where in stmt.where.path)
    return [*dict.fromkeys(where.file for where in places)]


def _content(arguments: Arguments) -> Iterator[object]:
    """What a recording depends on."""
    for name, tensor in arguments.tensors.items():
        array = cast("Any", tensor.array)
        yield name, array.shape, array.dtype.str, blake2b(array.tobytes()).digest()
    yield tuple(arguments.integers.items())
    yield tuple(arguments.constants.items())
    yield tuple(arguments.shared().items())


def _allocated(recording: Recording, arguments: Arguments) -> dict[str, np.ndarray[Any, Any]]:
    """Zeros for the memory that host code allocates."""
    named = {each.name: each for launch in recording.launches for each in launch.arguments if each.shape is not None}
    return {
        name: np.zeros(each.shape or (1,), dtype(each.dtype).numpy)
        for name, each in named.items()
        if name not in arguments.tensors
    }


def _end(array: RecordedArray) -> int:
    """Bytes from the start of an argument to the end of a tensor in it."""
    last = sum(max(count - 1, 0) * step for count, step in zip(array.shape, array.stride, strict=True))
    try:
        size = dtype(array.dtype).size
    except TypeError:  # of less than a byte
        size = 1
    return array.offset + (last + 1) * size


def _storage(array: np.ndarray[Any, Any], kind: DType) -> Storage:
    """The memory of an array as elements of a type."""
    flat = array.reshape(-1).view(np.uint8)
    whole = flat[: flat.size // kind.size * kind.size]
    return Storage(whole.view(kind.bits), kind, array)


def _plain_type(parameter: Parameter) -> str:
    words = re.sub(r"\b(?:const|volatile|__gm__|__restrict__|std::)\b|::", " ", parameter.type).replace("*", " ")
    return " ".join(words.split())


def _element(parameter: Parameter) -> DType | None:
    """The element type of a pointer; None for bytes, which may be of any type."""
    name = _plain_type(parameter)
    if name in ANY:
        return None
    try:
        return dtype(WHOLE.get(name, name))
    except TypeError:
        return None


def _scalar(parameter: Parameter) -> DType:
    try:
        return dtype(WHOLE.get(_plain_type(parameter), _plain_type(parameter)))
    except TypeError:
        return dtype("int64")


def _kind(parameter: Parameter) -> str:
    """`array`, `integer`, `float`, or `null` for a pointer that no array is passed for."""
    if "*" in parameter.type or _plain_type(parameter) == "GM_ADDR" or parameter.is_stream:
        is_null = parameter.is_stream or any(word in parameter.name.lower() for word in NULLS)
        return "null" if is_null else "array"
    return "float" if _scalar(parameter).is_float else "integer"
