"""What a trace may read without a comparison at the next launch: functions and classes that never change, and what is
refused because nothing shows whether it has changed."""

from __future__ import annotations

import builtins
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

import numpy as np

from ptokit.lang.faults import is_installed, is_library, is_own

PACKAGE = __name__.partition(".")[0]
_vars: Callable[[Any], Any] = vars

ATOMS = frozenset((int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented), range, slice))
CONTAINERS = (list, dict, set, frozenset, tuple, deque, types.MappingProxyType)
PLAIN = ATOMS | {*CONTAINERS, OrderedDict, defaultdict, object, BaseException, Exception}
"""Built-in types whose values are followed."""

_UNCHANGING = frozenset((
    *("_abc", "_bisect", "_collections", "_collections_abc", "_copy", "_functools", "_heapq", "_json", "_operator"),
    *("_py_abc", "_pytest", "_sre", "_string", "_struct", "_typing", "_warnings", "_weakrefset", "abc", "binascii"),
    *("bisect", "builtins", "cmath", "collections", "contextlib", "copy", "dataclasses", "enum", "fractions"),
    *("functools", "heapq", "itertools", "json", "keyword", "logging", "math", "ml_dtypes", "numbers", "numpy"),
    *("operator", "pprint", "re", "reprlib", "statistics", "string", "struct", "textwrap", "traceback", "types"),
    *("typing", "typing_extensions", "unicodedata", "warnings", "zlib"),
))  # fmt: skip
"""Modules of Python, NumPy, and pytest (for `assert`), whose functions read their arguments only, or write messages."""
_VOLATILE = frozenset(["_random", "numpy.random", "random", "secrets", "time", "uuid"])
"""Modules whose functions and objects give something else each time."""
_OUTSIDE = frozenset((
    *(f"builtins.{name}" for name in ("input", "open")),
    *(f"numpy.{name}" for name in ("empty", "empty_like", "fromfile", "fromregex", "genfromtxt", "load", "loadtxt")),
    *(f"numpy.{name}" for name in ("geterr", "geterrcall", "getbufsize", "get_printoptions", "memmap", "random")),
))  # fmt: skip
"""Members of unchanging modules that read files, settings or memory."""
_INSIDE = frozenset(["posix.fspath", "nt.fspath"])
"""Members of other modules that read their arguments only."""


@lru_cache(maxsize=4096)
def is_extension(module: str) -> bool:
    """Whether a module is not written in Python."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return module in sys.builtin_module_names or file.endswith(tuple(EXTENSION_SUFFIXES))


@lru_cache(maxsize=4096)
def is_volatile(module: str) -> bool:
    """Whether what a module has gives something else each time."""
    return module in _VOLATILE or module.startswith("numpy.random.")


def is_unchanging(module: str) -> bool:
    """Whether the functions of a library's module read their arguments only."""
    return module.partition(".")[0] in _UNCHANGING and not is_volatile(module)


def is_stable(file: str, module: str) -> bool:
    """Whether functions of a file neither change nor read anything but their arguments: those of ptokit, and of
    libraries that are known for it."""
    return is_own(file) or ((is_library(file) or is_installed(file)) and is_unchanging(module))


def file_of(module: types.ModuleType) -> str:
    """The file of a module, if it has one."""
    return _vars(module).get("__file__") or ""


def is_stable_module(module: types.ModuleType) -> bool:
    """Whether nothing that a module has can change."""
    name = module.__name__
    return is_unchanging(name) if is_extension(name) else is_stable(file_of(module), name)


def outside(module: types.ModuleType) -> frozenset[str]:
    """The members of an unchanging module that read what the arguments do not have."""
    return frozenset(name for home, _, name in (each.partition(".") for each in _OUTSIDE) if home == module.__name__)


def is_stable_class(kind: type) -> bool:
    """Whether the attributes of a class do not change: those of ptokit's and of libraries' classes."""
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__":
        return False
    is_there = kind.__qualname__.partition(".")[0] in _vars(module)  # some functions of libraries make classes
    file = file_of(module)
    return is_extension(module.__name__) or (is_there and (is_own(file) or is_library(file)))


def class_members(kind: type, names: frozenset[str]) -> list[object]:
    """What a stable class has under some names and may read more than its arguments: functions that need no object,
    and methods that are written in Python. Nothing of a class whose module is known to read arguments only."""
    if is_own(file_of(sys.modules[kind.__module__])) or is_unchanging(kind.__module__):
        return []
    found = (_vars(base)[name] for base in kind.__mro__ for name in names & _vars(base).keys())
    return [value for value in found if not isinstance(value, _OF_OBJECTS)]


_OF_OBJECTS = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    *ATOMS,
)
"""What needs an object, which is refused where it is read if nothing shows its state; and values."""


def is_opaque(kind: type) -> bool:
    """Whether objects of a class may have a state that Python does not see."""
    bases = [base for base in kind.__mro__ if base not in PLAIN and base is not types.SimpleNamespace]
    is_foreign = not issubclass(kind, tuple) and any(is_extension(base.__module__) for base in bases)
    return is_foreign or any(map(_has_hidden_state, bases))


def _has_hidden_state(kind: type) -> bool:
    """Whether objects are larger than those of the base class by more than the slots of the class."""
    base: Any = kind.__base__
    seen = sum(isinstance(each, types.MemberDescriptorType) for each in _vars(kind).values())
    seen += ("__dict__" in _vars(kind)) + ("__weakref__" in _vars(kind))
    return kind.__basicsize__ - base.__basicsize__ > seen * np.intp().itemsize or kind.__itemsize__ > base.__itemsize__


def is_builtin(kind: Any) -> bool:
    """Whether objects of a class are ptokit's, or functions and attributes that are not written in Python."""
    if kind.__module__.partition(".")[0] == PACKAGE or any(base in (np.dtype, np.ufunc) for base in kind.__mro__):
        return True
    return kind in (types.BuiltinFunctionType, types.CodeType, types.MethodWrapperType) or (
        is_opaque(kind) and hasattr(kind, "__get__")
    )


def reads_outside(value: Any) -> bool:
    """Whether a function that is not written in Python may read more than its arguments and its object."""
    module = _home(value)
    is_known = is_unchanging(module) or module.partition(".")[0] == PACKAGE or _name(value) in _INSIDE
    return not is_known or is_outside(value)


def is_outside(value: Any) -> bool:
    """Whether a function of an unchanging library reads more than its arguments."""
    return _name(value) in _OUTSIDE


def _name(value: Any) -> str:
    return f"{_home(value)}.{getattr(value, '__name__', '')}"


def _home(value: Any) -> str:
    """The module that has a function, or the class of a method."""
    owner: Any = getattr(value, "__self__", None)
    if isinstance(owner, type):
        return owner.__module__
    if owner is not None and not isinstance(owner, types.ModuleType):  # the object is followed
        return builtins.__name__
    home = getattr(value, "__objclass__", value)
    module = getattr(home, "__module__", None) or getattr(owner, "__name__", None)
    return module if isinstance(module, str) else type(value).__module__
