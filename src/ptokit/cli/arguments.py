"""`--arg name=value` and `--out name=file.npy`: numbers, constants and arrays of a launch."""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from math import prod
from typing import Any, BinaryIO, cast

import numpy as np

from ptokit.brief import brief
from ptokit.cli.problems import Misuse, described, misused
from ptokit.cxx.uses import ArrayUse
from ptokit.finding import suggestion
from ptokit.isa.dtype import DType, dtype
from ptokit.lang.kernel import Kernel
from ptokit.lang.launcher import Launchable
from ptokit.lang.loaded import TextKernel
from ptokit.program.expr import Expr, Var, evaluate, variables
from ptokit.program.ir import Argument, Program
from ptokit.text.memories import is_unshaped

Array = np.ndarray[Any, np.dtype[Any]]

INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|[0-9]+)")
ZEROS = re.compile(r"(?P<type>[\w.!]+)\[(?P<shape>[\d,\s]{0,200})\]")
"""`f32[1000,64]`: zeros of a type and shape."""
TYPED = re.compile(r"(?P<type>\w+):(?P<file>.+)", re.DOTALL)
"""`bf16:table.npy`: a file whose elements have that type, whatever its header states."""
RANDOM = re.compile(r"(?P<zeros>[\w.!]+\[[\d,\s]{0,200}\]):(?P<low>[^.]+(?:\.\d+)?)\.\.(?P<high>.+)")
"""`int32[64]:0..99`: random numbers of a type and shape in a range."""
DEFAULT_BYTES = (4 << 20, 64 << 20, 512 << 20)
"""Bytes of an array of a C++ kernel that is not given, while its size is found; the next if one is too few."""
PERIOD = 4_194_301
"""Random elements of a default array before they repeat: a prime, so that rows differ."""
LEAST_BYTES = 64 << 10
"""Bytes of such an array, at least: host code may read some that no instruction does."""
MEBI = 1 << 20
DIGITS = 1000
"""Most digits of a whole number."""
WORDS = {"true": True, "false": False, "none": None}
"""Constants with a name."""


def pairs(words: Iterable[str], option: str) -> dict[str, str]:
    """The names and values of an option that is given once for each name."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        name = name.strip().removeprefix("%")
        if not (equals and name and value):
            raise Misuse(f"{option} takes name=value; found {brief(word)}")
        if name in found:
            raise Misuse(f"{option} {name} is given twice")
        found[name] = value
    return found


def values_of(kernel: Launchable, given: Mapping[str, str], outs: Iterable[str] = ()) -> dict[str, Any]:
    """The arguments of the command line; the names in `outs` must be parameters as well."""
    names: Iterable[str] = getattr(kernel, "parameters", ())
    for name in (*given, *outs):
        if name not in names:
            known = ", ".join(names) or "none"
            raise Misuse(f"{kernel.name} has no parameter {name}; it has {known}{suggestion(name, names)}")
    program = kernel.program if isinstance(kernel, TextKernel) else None
    types = {name: tensor.dtype for name, tensor in program.tensors.items()} if program else {}
    constants = kernel.constants if isinstance(kernel, Kernel) else ()
    values = {
        name: constant(text) if name in constants else value(name, text, types.get(name))
        for name, text in given.items()
    }
    return {**_default_arrays(kernel, values), **values}


def made_up(kernel: Launchable, given: Iterable[str]) -> list[str]:
    """The missing arrays of a C++ kernel."""
    parameters: Mapping[str, str] = getattr(kernel, "parameters", {})
    return [name for name, kind in parameters.items() if kernel.targets and kind == "array" and name not in given]


def _default_arrays(kernel: Launchable, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a C++ kernel that are not given, as large as what it does with larger ones needs."""
    if not kernel.targets:
        return {}
    left = made_up(kernel, values)
    kinds: dict[str, DType | None] = {name: cast("Any", kernel).dtype(name) for name in left}
    sizes = dict.fromkeys(left, DEFAULT_BYTES[0])
    uses: dict[str, ArrayUse] = {}
    for size in DEFAULT_BYTES if left else ():
        given = {**{name: _zero_bytes(kind, size) for name, kind in kinds.items()}, **values}
        if kernel.missing(given):
            break
        uses = cast("Any", kernel).uses(given)
        sizes = {name: _enough_bytes(uses[name].end if name in uses else 0) for name in left}
        if max(sizes.values()) <= size // 2:  # farther than that, what lies behind an array may be in the next one
            break
    made = {name: _zero_bytes(kind, min(sizes[name], DEFAULT_BYTES[-1])) for name, kind in kinds.items()}
    return {name: _filled(name, array, uses.get(name)) for name, array in made.items()}


def _enough_bytes(reach: int) -> int:
    """Bytes of an array whose first ones are used: a power of two, or whole mebibytes."""
    return max(LEAST_BYTES, min(1 << reach.bit_length(), (reach // MEBI + 2) * MEBI))


def _zero_bytes(kind: DType | None, size: int) -> Array:
    return np.zeros(size // (kind.size if kind else 1), kind.numpy if kind else np.uint8)


def _filled(name: str, array: Array, use: ArrayUse | None) -> Array:
    """The array with values that any data may have, if an instruction reads it: indices 0, 1, 2, ..., other
    whole numbers 1, 2, 3, ..., which may be positions, and numbers from 0.5 to 2; the same for every run. Large arrays
    repeat the first PERIOD numbers."""
    if use is None or not use.dtype:
        return array
    try:
        kind = dtype(use.dtype)
    except TypeError:  # of less than a byte
        return array
    content = array.view(np.uint8)[: array.nbytes // kind.size * kind.size].view(kind.numpy)
    if use.step:
        content[:] = np.arange(content.size) * use.step % min(use.bound, 1 << 8 * kind.size - 1)
        return array
    first = content[:PERIOD]
    most = min(first.size, (1 << 8 * kind.size - 1) - 1)
    first[:] = 1 + np.arange(first.size) % most if kind.is_integer else _dice(name).uniform(0.5, 2.0, first.size)
    for start in range(PERIOD, content.size, PERIOD):
        content[start : start + PERIOD] = first[: content.size - start]
    return array


def _dice(name: str) -> np.random.Generator:
    """Random numbers for an argument."""
    return np.random.default_rng(len(name))


def with_outs(kernel: Launchable, values: dict[str, Any], outs: Iterable[str]) -> dict[str, Any]:
    """The arguments, with zeros for arrays that are only written."""
    program = kernel.program if isinstance(kernel, TextKernel) else None
    for name in outs:
        if name not in values:
            values[name] = _blank(program, name, values)
        if not isinstance(values[name], np.ndarray):
            raise Misuse(f"--out {name}: {name} is no array")
    return values


def passed(kernel: Launchable, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments by position and by name: of a text by position, as they may have the names of options."""
    is_by_place = isinstance(kernel, TextKernel) or kernel.targets
    first = [*takewhile(values.__contains__, getattr(kernel, "parameters", ()))] if is_by_place else []
    return [values[name] for name in first], {name: value for name, value in values.items() if name not in first}


def constant(text: str) -> object:
    """A constant of a kernel: a number, a truth value, a word, or several with commas between them."""
    if "," in text:
        return tuple(constant(part.strip()) for part in text.split(",") if part.strip())
    number = _number(text)
    return number if number is not None else WORDS.get(text.lower(), text)


def value(name: str, text: str, kind: DType | None = None) -> object:
    """A number, zeros of a type and shape, or the array of a file. `kind` is the expected element type."""
    number = _number(text)
    if number is not None:
        return number
    if (spread := RANDOM.fullmatch(text)) and (zeros := ZEROS.fullmatch(spread["zeros"])):
        return _random(name, zeros, spread["low"], spread["high"])
    if zeros := ZEROS.fullmatch(text):
        return _zeros(name, zeros["type"], [int(n) for n in zeros["shape"].split(",") if n.strip()])
    typed = TYPED.fullmatch(text)
    if typed and not os.path.exists(text):
        return read_array(name, typed["file"], _element_type(name, typed["type"]), reinterpret=True)
    return read_array(name, text, kind)


def _number(text: str) -> int | float | None:
    if INTEGER.fullmatch(text):
        if len(text) > DIGITS:
            raise Misuse(f"a number of {len(text)} digits is too long")
        return int(text, 0) if text.lower().lstrip("+-")[:2] in ("0x", "0b", "0o") else int(text)
    try:
        return float(text)
    except ValueError:
        return None


def _element_type(name: str, text: str) -> DType:
    with misused(TypeError, by=f"--arg {name}: "):
        return dtype(text)


def _zeros(name: str, kind: str, shape: Sequence[int]) -> Array:
    element = _element_type(name, kind)
    with misused(ValueError, MemoryError, by=f"{name}: cannot create {element.name}{list(shape)}: "):
        return np.zeros(shape, element.numpy)


def _random(name: str, zeros: re.Match[str], low: str, high: str) -> Array:
    """Random numbers in a range, both ends included; the same for every run."""
    array = _zeros(name, zeros["type"], [int(n) for n in zeros["shape"].split(",") if n.strip()])
    first, last = _number(low), _number(high)
    if first is None or last is None or not first <= last:
        raise Misuse(f"--arg {name}: a range is written low..high; found {low}..{high}")
    dice = _dice(name)
    if dtype(array.dtype).is_integer:
        return dice.integers(int(first), int(last), array.shape, endpoint=True).astype(array.dtype)
    return dice.uniform(first, last, array.shape).astype(array.dtype)


def read_array(name: str, file: str, kind: DType | None = None, *, reinterpret: bool = False) -> Array:
    """The array of an `.npy` file, in C order and native byte order, over memory that never reaches the file.

    Nothing is unpickled and the header is not trusted: the data must be complete. NumPy has no name for bfloat16
    and float8 and writes them as raw bytes; such elements, and unsigned numbers of their width, are read as `kind`.
    With `reinterpret`, so are elements of any type of that width.
    """
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise Misuse(f"--arg {name}: {file} is not a regular file")
        with np.errstate(over="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old headers
            array = np.asarray(np.lib.format.open_memmap(file, mode="c"))
    except FileNotFoundError as problem:
        kinds = "a number, a type and shape such as f32[1000,64], or an .npy file"
        raise Misuse(f"--arg {name} takes {kinds}; there is no file {file}") from problem
    except Misuse:
        raise
    except Exception as problem:  # any error of NumPy over a broken or hostile header
        raise Misuse(f"--arg {name}: cannot read {file} as .npy: {described(problem)}") from problem
    return _typed(name, file, _plain(array), kind, reinterpret)


def _plain(array: Array) -> Array:
    """Native byte order, C order, aligned; a copy only if needed."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.asarray(array, order="C") if array.flags.aligned else array.copy(order="C")


def _typed(name: str, file: str, array: Array, kind: DType | None, reinterpret: bool) -> Array:
    """The array with its element type; raw elements get `kind`."""
    own = array.dtype
    raw = own.kind == "V" and own.fields is None and own.subdtype is None
    stands_in = kind is not None and own.kind == "u" and not _has_name(kind.numpy)  # NumPy has no name for the type
    if kind is not None and own.itemsize == kind.size and (reinterpret or raw or stands_in):
        return array.view(kind.numpy)
    if raw and own.type is np.void:
        hint = f"name their type, as in --arg {name}=bf16:{file}"
        raise Misuse(f"--arg {name}: the elements of {file} are {own.itemsize} raw bytes each; {hint}")
    with misused(TypeError, by=f"--arg {name}: {file}: "):
        dtype(own)
    return array


def _has_name(kind: np.dtype[Any]) -> bool:
    """Whether NumPy reads the name of a type that it writes into a file."""
    return kind.type.__module__ == "numpy"


def write_array(array: Array, stream: BinaryIO) -> None:
    """Write an array as `.npy`; bfloat16 and float8 as raw bytes, which is how they are read."""
    plain = array if _has_name(array.dtype) else array.view(f"V{array.itemsize}")
    np.lib.format.write_array(stream, plain, allow_pickle=False)


def _blank(program: Program | None, name: str, values: Mapping[str, object]) -> Array:
    """Zeros for an array that the program writes, if the program and the integers of the launch determine its shape."""
    hint = f"give it, as in --arg {name}=f32[1000,64]"
    if program is None or name not in program.tensors:
        raise Misuse(f"--out {name}: its shape is not known; {hint}")
    tensors = [tensor for tensor in program.tensors.values() if tensor.array == name]
    views = [tensor for tensor in tensors if not is_unshaped(tensor)] or tensors
    numbers = {Var(key): number for key, number in values.items() if isinstance(number, int)}
    unknown = {var for view in views for expr in _measures(view) for var in variables(expr)} - {*numbers}
    if unknown:
        needed = ", ".join(sorted(unknown))
        raise Misuse(f"--out {name}: its shape depends on {needed}; give that with --arg, or {hint}")
    return _zeros(name, program.tensors[name].dtype.name, _shape(views, numbers))


def _measures(argument: Argument) -> tuple[Expr, ...]:
    return (*argument.shape, *argument.stride, argument.offset)


def _shape(views: Sequence[Argument], numbers: Mapping[Var, int]) -> Sequence[int]:
    """The shape of the array behind these views: that of its only view, if this is contiguous; else flat."""
    ends: list[int] = []
    for view in views:
        shape = [evaluate(extent, numbers) for extent in view.shape]
        steps = [evaluate(step, numbers) for step in view.stride]
        if min(shape, default=0) > 0:
            reach = sum((extent - 1) * step for extent, step in zip(shape, steps, strict=True))
            ends.append(evaluate(view.offset, numbers) + reach + 1)
        if len(views) == 1 and view.offset == 0 and steps == [prod(shape[i + 1 :]) for i in range(len(shape))]:
            return shape
    return [max(ends, default=0)]
