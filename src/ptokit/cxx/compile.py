"""Compiling a C++ kernel with a host compiler against ptokit's headers. The compiler runs with limits."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from ptokit.brief import brief
from ptokit.cxx.database import MOST_CHARACTERS, PATH_OPTIONS, DatabaseEntry, find_database, is_passable, options_of
from ptokit.cxx.entries import GLOBAL, CppEntry, TooManyTokensError, find_entries
from ptokit.cxx.folders import generated_headers, remove_abandoned, temporary_prefix
from ptokit.cxx.includes import SourceFiles, SpecialFileError, read_files, write_rewritten
from ptokit.cxx.names import INCLUDE, OWN, files, macros_of, used_in
from ptokit.cxx.names_in_source import SourceTexts
from ptokit.cxx.processes import CompileError, CompileLimits, run
from ptokit.cxx.repository import GRANTED, folders_of, is_within, repository_of, system_folders
from ptokit.target import compiler_of, families_in_cpp

CORE_MACROS = {"vector": ("VEC",), "cube": ("CUBE",), "any": ("VEC", "CUBE")}
"""The ends of the macros that choose a core; `any`: the source is the same for every core and is compiled once."""
RECORDERS: dict[tuple[str, ...], str] = {}
"""The keys of recorders by their command, their compiler and the folders of the system."""
COMPILED_RECORDERS: dict[str, bytes] = {}
"""Those of this process, by their keys."""
STANDARD = "gnu++20"
DEBUG = ("-O0", "-gdwarf-4", "-g1", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-fno-inline")
"""What a recorded call needs to find its place: `lines.py` reads this version of line tables."""
UNCHECKED = "-fno-sanitize=undefined"
"""Zig checks for undefined behaviour unless told not to, and ends the process."""
PLAIN = ("-fPIC", "-w", "-fno-strict-aliasing", "-fno-delete-null-pointer-checks", "-ftemplate-depth=512", UNCHECKED)
OF_MESSAGES = {"gcc": ("-fno-diagnostics-show-caret", "-fdiagnostics-column-unit=byte"), "clang": ()}
"""GCC reads the file that a `#line` names to show a line of it, and to count columns."""
ANNOUNCED = {
    "gcc": ("-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0"),
    "clang": ("-fsanitize=thread", "-mllvm", "-tsan-instrument-func-entry-exit=0",
              "-mllvm", "-tsan-instrument-read-before-write=1"),
}  # fmt: skip
"""With these a compiler calls the recorder before each load and store."""
WRAPPED = tuple(f"-Wl,--wrap={name}" for name in ("memcpy", "memmove", "memset"))
LINK = ("-shared", "-g1", "-Wl,-z,lazy", *WRAPPED, UNCHECKED)
"""A function that no source defines matters only when it is called: some compilers bind all at once unless told so. The
recorder sees what these copy and fill."""
RUNTIME = OWN / "ptokit" / "runtime.cpp"
BUILTINS = "ptokit/builtins.hpp"
"""What is read before a source."""
FORMAT = 6
"""Of kept libraries; it grows when a library is made in another way."""
NOT_INSTALLED = "is not installed"
UNSEEN = re.compile("No such file or directory|file not found|Permission denied|cannot open")
"""What compilers say of a file that they do not find, or may not read."""
OF_CORE = re.compile(r"\binline constexpr bool compiles_(cube|vector) = (true|false);")
"""What `pipe.hpp` says of the core that it is compiled for."""
UNQUOTABLE = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')
"""Characters of a file's name that an #include cannot state, or that compilers write in another way."""
UNDECLARED = re.compile("not declared|not been declared|undeclared|not a member|no member")
"""What compilers say of a name that nothing declares."""
OLDEST = {"gcc": 11, "clang": 15}
"""The oldest versions whose C++20 suffices."""
PATIENCE = 8
"""For a compiler that compiles its own libraries when it is first used."""


@dataclass(frozen=True)
class Compiler:
    """A host compiler."""

    command: tuple[str, ...]
    family: str
    """`gcc` or `clang`."""
    version: int
    patience: int = 1
    """What the limit of its time is multiplied by."""
    remark: str = ""
    """Why the compiler that $CXX names is not used."""


@dataclass(frozen=True)
class CompileOptions:
    """What the user passes to the compiler."""

    flags: tuple[str, ...] = ()
    """`-I`, `-D`, `-U`, `-include` and others, as for any compiler."""
    standard: str = ""
    """`c++20`; older standards than C++20 are raised to it."""
    entries: tuple[str, ...] = ()
    """Entries that there must be: `launch<float, 64>`."""
    core: str = ""
    """`vector` or `cube` if the source is for one core; empty: what the source asks for."""
    texts: tuple[tuple[str, str], ...] = ()
    """Files, and texts that replace theirs."""
    left_out: tuple[str, ...] = ()
    """Paths of a compile database that are not used."""
    headers: tuple[Path, ...] = ()
    """Folders of headers that replace those of ptokit."""
    limits: CompileLimits = field(default_factory=CompileLimits)

    def with_stated(self, stated: DatabaseEntry) -> CompileOptions:
        """With the options of a compile database; the own ones win: folders are searched first, macros come last."""
        flags = (*self.flags, *stated.flags, *self.flags)
        return replace(self, flags=flags, core=self.core or stated.core or "", left_out=stated.left_out)


@dataclass(frozen=True)
class CppLibrary:
    """A shared library: the source, compiled for a core, with the recorder."""

    core: str
    """`vector`, `cube`, or `any`: the source does not ask for its core."""
    path: Path
    entries: tuple[str, ...] = ()
    """The names of those that it has."""


@dataclass(frozen=True)
class Build:
    """A compiled source. Its files are removed by `close`, or at the end of a `with`."""

    source: Path
    target: str
    libraries: tuple[CppLibrary, ...]
    entries: tuple[CppEntry, ...]
    folder: Path
    texts: SourceTexts = field(default_factory=SourceTexts, repr=False)
    copies: dict[Path, Path] = field(default_factory=dict, repr=False)
    """Files that were rewritten before they were compiled; debug information names the originals."""
    own: tuple[str, ...] = ()
    """Folders of headers that are not the user's."""
    changeable: frozenset[Path] = frozenset()
    """The source and what it includes of its repository, without what is behind links: files that repairs may write."""
    unused: tuple[str, ...] = ()
    """Templates of kernels that nothing instantiates."""

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class KeptLibraries(Protocol):
    """Libraries that were compiled before, by a key of 64 hexadecimal digits."""

    def load(self, key: str) -> bytes | None:
        """The library of a key; None if there is none."""
        ...

    def save(self, key: str, library: bytes) -> None:
        """Keep a library, if possible."""
        ...


class NoCompilerError(CompileError):
    """There is no compiler that is new enough."""


def find_compiler(command: str = "") -> Compiler:
    """The compiler that a command names; else that of $CXX, g++, clang++, or the wheel `ziglang`."""
    if command:
        words = tuple(command.split())
        found, problem = _asked(words)
        if found is None:
            raise CompileError(problem)
        return found
    candidates = [tuple(os.environ["CXX"].split())] if os.environ.get("CXX", "").split() else []
    candidates += [
        ("g++",),
        ("clang++",),
        *((f"g++-{n}",) for n in range(16, 10, -1)),
        *((f"clang++-{n}",) for n in range(22, 14, -1)),
    ]
    remark = old = ""
    for words in candidates:
        found, problem = _asked(words)
        if found is not None:
            return replace(found, remark=remark and f"{remark}; {' '.join(words)} is used")
        if words == candidates[0] and os.environ.get("CXX", "").split():
            remark = f"CXX={os.environ['CXX']} cannot be used: {problem}"
        old = old or ("" if problem.endswith(NOT_INSTALLED) else f" that is new enough ({problem})")
    if importlib.util.find_spec("ziglang") is not None:
        found = Compiler((sys.executable, "-m", "ziglang", "c++"), "clang", 19, PATIENCE)
        return replace(found, remark=remark and f"{remark}; that of the wheel `ziglang` is used")
    raise NoCompilerError(
        f"no C++ compiler was found{old}: install g++ (11 or newer) or clang++ (15 or newer), "
        "set CXX, or install one as a wheel: pip install 'ptokit[cxx]'"
    )


def _asked(words: tuple[str, ...]) -> tuple[Compiler | None, str]:
    """What a command is, if it is a compiler that is new enough; else why not."""
    program = shutil.which(words[0])
    if program is None:
        return None, f"{words[0]} {NOT_INSTALLED}"
    text = _version_text((program, *words[1:]))
    family = "clang" if "clang" in text.lower() or "zig" in " ".join(words) else "gcc"
    number = re.search(r"(?:clang version |\) |version )(\d+)\.", text)
    version = int(number[1]) if number else 0
    if version >= OLDEST[family]:
        return Compiler(words, family, version, PATIENCE if "zig" in " ".join(words) else 1), ""
    return None, f"{words[0]} is {family} {version or 'of an unknown version'}; at least {OLDEST[family]} is needed"


@cache
def _version_text(words: tuple[str, ...]) -> str:
    try:
        return subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""


def compile_source(
    source: Path,
    target: str = "a2a3",
    options: CompileOptions | None = None,
    compiler: Compiler | None = None,
    kept: KeptLibraries | None = None,
) -> Build:
    """Compile a source into libraries that record what it does; `kept` ones are not compiled again. Raises
    `CompileError`."""
    options = options or CompileOptions()
    remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=temporary_prefix()))
    try:
        return _Compilation(source, target, options, compiler or find_compiler(), folder.resolve(), kept).build()
    except BaseException as problem:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(problem, CompileError):
            problem.fix = _fix(source, options, str(problem))
        raise


def _fix(source: Path, options: CompileOptions, message: str) -> str:
    """What may help a compiler that does not find or read a file."""
    outside = f"files outside of {repository_of(source)} are read from folders that -I names"
    if not UNSEEN.search(message):
        return ""
    if options.left_out:
        return f"{outside}; the compile database names {brief(options.left_out[0])}: repeat it with -I"
    if not re.search(r":\d+: (?:fatal )?error: ", message) and "Permission denied" in message:
        return f"a compiler uses its own folders and those of the system; {GRANTED}=/folder:/other gives it more"
    if re.search("Permission denied|Error: file not found|cannot open", message):  # of a compiler, assembler, linker
        return outside
    beside = "" if find_database(source) else ", or a compile_commands.json beside the source"
    return f"name the header's folder: -I DIR{beside}"


def precompile(target: str, options: CompileOptions, folder: Path, text: str) -> tuple[Path, ...]:
    """Have GCC read what comes before a source, and a text behind it, for each core: the folder of headers that must
    then come first, with what it made of them. None with Clang. Raises `CompileError`."""
    compiler, file = find_compiler(), folder / BUILTINS
    if compiler.family != "gcc":
        return ()
    made = file.with_name(f"{file.name}.gch")
    made.mkdir(parents=True)
    build = _Compilation(RUNTIME, target, options, compiler, folder, None)
    file.write_text(f'#include "{build.builtins()}"\n{text}\n', encoding="utf-8")
    build.precompile(file, made)
    return (folder,)


class _Compilation:
    """One source on its way to its libraries."""

    def __init__(
        self,
        source: Path,
        target: str,
        options: CompileOptions,
        compiler: Compiler,
        folder: Path,
        kept: KeptLibraries | None,
    ) -> None:
        if not compiler_of(target):
            raise CompileError(f"C++ kernels are compiled for {' or '.join(families_in_cpp())}; found {brief(target)}")
        if not source.is_file():
            raise CompileError(f"{source} {'is no regular file' if source.exists() else 'does not exist'}")
        _check_words(source, options)
        self.source, self.target, self.options = source.resolve(), target, options
        more = {name: getattr(options.limits, name) * compiler.patience for name in ("seconds", "still")}
        self.limits = replace(options.limits, **more)
        self.compiler, self.folder, self.kept = compiler, folder, kept
        self.unused: set[str] = set()
        self.preprocessed: dict[str, str] = {}
        """The text of the source for each core."""
        self.used = used_in(())
        """The macros that have only the functions that the source calls."""
        self.generated = generated_headers()
        self.readable = _readable(self.source, options)
        self.files = source_files(self.source, options)

    def build(self) -> Build:
        copies = write_rewritten(self.files, self.folder)
        entries = self.entries()
        mains = {
            CppLibrary(core, self.folder / f"{core}.so", tuple(each.name for each in found)): self._main(
                core, copies.get(self.source), found
            )
            for core, found in entries.items()
            if found or not any(entries.values())
        }
        keys = {library: self._key(library.core, main) for library, main in mains.items()} if self.kept else {}
        missing = {
            library: main for library, main in mains.items() if not self._loaded(library.path, keys.get(library))
        }
        self._libraries(missing)
        for library in missing if self.kept else ():
            self._save(library, keys[library])
        every = {entry.name: entry for found in entries.values() for entry in found}
        repository = [repository_of(self.source)]
        changeable = frozenset(path for path in self.files.texts if is_within(path, repository)) - self.files.linked
        texts = shown_texts(self.source, self.options)
        built = tuple(mains), tuple(every.values())
        own = tuple(map(str, (INCLUDE, self.generated, *self.options.headers)))
        unused = tuple(sorted(self.unused))
        return Build(self.source, self.target, *built, self.folder, texts, copies, own, changeable, unused)

    def cores(self) -> tuple[str, ...]:
        """The cores that the source is compiled for."""
        if self.options.core:
            return (self.options.core,)
        return ("vector", "cube") if self.files.asks_for_cores else ("any",)

    def entries(self) -> dict[str, list[CppEntry]]:
        """The functions that can be run, for each core."""
        cores = self.cores()
        commands = [[*self.command(core), f"-D__global__={GLOBAL}", "-E", str(self.source)] for core in cores]
        texts = self._run(commands, keep=True)
        self.used = used_in((*texts, *self.files.texts.values()))
        if len(cores) > 1 and _without_core(texts[0]) == _without_core(texts[1]):  # it asks, and does not care
            cores, texts = ("any",), texts[:1]
        self.preprocessed = dict(zip(cores, texts, strict=True))
        included = [path for path in self.files.texts if not is_within(path, (INCLUDE, self.generated))]
        try:
            found = {core: find_entries(text, included) for core, text in self.preprocessed.items()}
        except TooManyTokensError as problem:
            raise CompileError(str(problem)) from None
        self.unused = {each.name for entries in found.values() for each in entries if each.kind == "template"}
        found = {core: [each for each in entries if each.kind != "template"] for core, entries in found.items()}
        names = {entry.name for entries in found.values() for entry in entries}
        for name in self.options.entries:
            if name not in names:
                raise CompileError(_no_entry(name, names))
        return found

    def command(self, core: str) -> list[str]:
        """The compiler with the options of a core."""
        flags = [flag for flag in self.options.flags if not flag.startswith(("-std=", "--std="))]
        macros = [f"-D{name}" for name in (*macros_of(self.target, *CORE_MACROS[core]), *self.used)]
        return [
            *self._own_command(_standard(self.options), *ANNOUNCED[self.compiler.family], *macros),
            "-include", str(self.builtins()),
            *(_without_precompiled(flags) if self.compiler.family == "clang" else flags), "-I", str(self.generated),
            "-iquote", str(self.source.parent),
        ]  # fmt: skip

    def _own_command(self, standard: str, *macros: str) -> list[str]:
        """The compiler without options of the user's. What it includes first has declarations: GCC then takes no
        precompiled header, whatever lies beside one that is included later."""
        messages = OF_MESSAGES[self.compiler.family]
        headers = *self.options.headers, OWN, self.generated / "own"
        folders = chain.from_iterable(("-I", str(folder)) for folder in headers)
        return [*self.compiler.command, f"-std={standard}", *DEBUG, *PLAIN, *messages, *macros, *folders]

    def builtins(self) -> Path:
        """The file that is read before the source."""
        files = (folder / BUILTINS for folder in (*self.options.headers, OWN))
        return next(file for file in files if file.is_file())

    def precompile(self, file: Path, folder: Path) -> None:
        """Have GCC read a file in the place of what is read before the source, for each core."""
        commands = {core: self.command(core) for core in CORE_MACROS}
        for command in commands.values():
            at = command.index("-include")
            del command[at : at + 2]
        self._run([[*each, "-x", "c++-header", str(file), "-o", str(folder / core)] for core, each in commands.items()])

    def _run(self, commands: Sequence[Sequence[str]], *, keep: bool = False) -> list[str]:
        """Run compilers, which see the repository, what the user names, and the system."""
        programs = folders_of(self.compiler.command)
        return run(commands, self.limits, self.folder, keep=keep, readable=self.readable, programs=programs)

    def _main(self, core: str, copy: Path | None, entries: list[CppEntry]) -> Path:
        """The file that is compiled for a core: the source, and behind it its entries."""
        main = self.folder / f"{core}.cpp"
        own = OWN / "ptokit" / "entry.hpp"
        rows = [f'#include "{copy or self.source}"', f'#include "{own}"', f'#line 1 "{own}"']  # no more of the user's
        rows += [entry.registration(number) for number, entry in enumerate(entries)]
        main.write_text("\n".join(rows) + "\n")
        return main

    # --- libraries that were compiled before

    def _key(self, core: str, main: Path) -> str:
        """What a library depends on: texts, options, the recorder and the compiler, without the names of copies."""
        texts = sorted((str(path), text) for path, text in self.files.texts.items())
        parts = [
            str(FORMAT), *self.command(core), *self._identity(), os.getcwd(), _own_headers(), *files().values(),
            self.preprocessed[core], main.read_text().partition("\n")[2],
            *(part for pair in texts for part in pair),
        ]  # fmt: skip
        return _digest(parts)

    def _identity(self) -> list[str]:
        """Which file the compiler is."""
        program = shutil.which(self.compiler.command[0]) or self.compiler.command[0]
        about = os.stat(program)
        return [os.path.realpath(program), str(about.st_mtime_ns), str(about.st_size)]

    def _loaded(self, file: Path, key: str | None) -> bool:
        """Write a library, or the recorder, that was kept."""
        data = self.kept.load(key) if self.kept is not None and key is not None else None
        if data is not None:
            file.write_bytes(data)
        return data is not None

    def _save(self, library: CppLibrary, key: str) -> None:
        assert self.kept is not None
        self.kept.save(key, library.path.read_bytes())

    def _libraries(self, mains: dict[CppLibrary, Path]) -> None:
        """Compile each core's code, and the recorder once."""
        if not mains:
            return
        objects = {library: main.with_suffix(".o") for library, main in mains.items()}
        moved = [f"-ffile-prefix-map={folder}={OWN}" for folder in (*self.options.headers, self.generated)]
        recorder, runtime = [*self._own_command(STANDARD), "-O2", "-finline", *moved], self.folder / "runtime.o"
        key = self._recorder_key(recorder)
        code = COMPILED_RECORDERS.get(key) or (self.kept.load(key) if self.kept is not None else None)
        if code is not None:
            runtime.write_bytes(code)
        own = [] if code is not None else [[*recorder, "-c", str(RUNTIME), "-o", str(runtime)]]
        try:
            self._run([*self._jobs(mains), *own])
        except CompileError as problem:
            if UNDECLARED.search(str(problem)):  # the compiler names a function that may be meant, among all
                self.used = []
                self._run(self._jobs(mains))
            raise
        COMPILED_RECORDERS[key] = runtime.read_bytes()
        if self.kept is not None and code is None:
            self.kept.save(key, COMPILED_RECORDERS[key])
        link = [*self.compiler.command, *LINK]
        links = [[*link, str(path), str(runtime), "-o", str(library.path)] for library, path in objects.items()]
        self._run(links)

    def _jobs(self, mains: dict[CppLibrary, Path]) -> list[list[str]]:
        """The commands that compile each core's code."""
        return [
            [*self.command(library.core), "-c", str(main), "-o", str(main.with_suffix(".o"))]
            for library, main in mains.items()
        ]

    def _recorder_key(self, command: list[str]) -> str:
        """What the recorder depends on: its text with all that it includes, the options and the compiler. It is the
        same for all targets, wherever generated headers are, and read once in a process."""
        general = [word.replace(str(self.generated), str(OWN)) for word in command]
        known_by = *general, *self._identity(), *system_folders()
        if known_by not in RECORDERS:
            (text,) = self._run([[*command, "-E", str(RUNTIME)]], keep=True)
            parts = "\0".join((str(FORMAT), *command, *self._identity(), text))
            for folder in (*self.options.headers, self.generated):
                parts = parts.replace(str(folder), str(OWN))
            RECORDERS[known_by] = _digest([parts])
        return RECORDERS[known_by]


def _check_words(source: Path, options: CompileOptions) -> None:
    """Refuse a source whose name C++ cannot state, and options that no process can take."""
    if wrong := UNQUOTABLE.search(str(source.resolve())):
        raise CompileError(
            f"{brief(str(source))} has the character {brief(wrong[0])}, which no #include can state: rename it"
        )
    for word in options.flags:
        if not is_passable(word):
            raise CompileError(f"an option of the compiler has a character that no process can take: {brief(word)}")
    if sum(map(len, options.flags)) > 2 * MOST_CHARACTERS:
        raise CompileError(f"the options of the compiler have more than {2 * MOST_CHARACTERS:,} characters")
    for file in _files_of(options.flags):
        if file.exists() and not file.is_file():
            raise CompileError(f"{file} is included, and is no regular file")


def _digest(parts: Iterable[str]) -> str:
    digest = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@cache
def _own_headers() -> str:
    """The recorder and the headers that are written by hand, as a digest."""
    files = sorted(path for path in INCLUDE.rglob("*") if path.is_file())
    return _digest(part for path in files for part in (str(path.relative_to(INCLUDE)), path.read_text()))


def _no_entry(name: str, known: Iterable[str]) -> str:
    found = ", ".join(sorted(known)) or "none"
    return (
        f"there is no function {name} that can be run; found: {found}. Write an explicit instantiation, or a function "
        f'extern "C" void launch(..., void* stream) that launches the kernel'
    )


def include_folders(flags: Sequence[str]) -> Iterable[Path]:
    """The folders of `-I` and the like."""
    return (Path(path or ".") for option, path in options_of(flags) if option in PATH_OPTIONS and option != "-include")


def _files_of(flags: Sequence[str]) -> Iterable[Path]:
    """The files of `-include`."""
    return (Path(path or ".") for option, path in options_of(flags) if option == "-include")


def _readable(source: Path, options: CompileOptions) -> list[str]:
    """The files and folders that belong to a source, and may be read besides those of the system."""
    named = (*include_folders(options.flags), *_files_of(options.flags))
    return [str(path) for path in (repository_of(source), INCLUDE, generated_headers(), *options.headers, *named)]


def shown_texts(source: Path, options: CompileOptions) -> SourceTexts:
    """The texts that places in a source may have."""
    return SourceTexts([*_readable(source, options), *system_folders()], dict(options.texts))


def source_files(source: Path, options: CompileOptions) -> SourceFiles:
    """A source and the user's files that it includes. Raises `CompileError`."""
    changed = {Path(file).resolve(): text for file, text in options.texts}
    within = [*_readable(source, options), *system_folders()]
    try:
        return read_files(source, list(include_folders(options.flags)), changed, within)
    except SpecialFileError as problem:
        raise CompileError(str(problem)) from None


def _without_precompiled(flags: Sequence[str]) -> Iterator[str]:
    """Options for Clang, whose driver takes a precompiled header beside a file of `-include`, but not its compiler."""
    for option, value in options_of(flags):
        yield from ("-Xclang", option, "-Xclang", value) if option == "-include" else (option + value,)


def _without_core(text: str) -> list[str]:
    """The words of a preprocessed text without what ptokit's own headers say of the core."""
    return OF_CORE.sub("", text).split()


def _standard(options: CompileOptions) -> str:
    """The C++ standard: what was asked for, at least C++20."""
    given = [flag.split("=", 1)[1] for flag in options.flags if flag.startswith(("-std=", "--std="))]
    asked = options.standard or (given[-1] if given else "")
    number = re.fullmatch(r"(?:c|gnu)\+\+(\w\w)", asked)
    if not asked or (number and number[1] in ("98", "03", "0x", "11", "1y", "14", "1z", "17", "2a")):
        return STANDARD
    if number is None:
        raise CompileError(f"{brief(asked)} is no C++ standard; write c++20 or c++23")
    return asked
