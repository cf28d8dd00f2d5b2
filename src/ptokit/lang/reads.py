"""What a trace reads outside the arguments: globals, closures, defaults, attributes, items, functions that it calls.

The code of a kernel names what it reads. From there the values are followed as far as the code of the kernel, and of
every function that it can reach, can read them. A program is valid as long as all of them are what they were.
"""

from __future__ import annotations

import builtins
import re
import sys
import types
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import repeat
from operator import is_
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, cast

import numpy as np

from ptokit.finding import Finding, VerifyError, Where
from ptokit.lang import stable
from ptokit.lang.faults import is_installed, is_library, is_own
from ptokit.lang.source import AS_TEXT, Chain, content, named_by

MOST_OBJECTS = 4096
MOST_ELEMENTS = 1 << 14
"""Objects that are followed; each one costs time at every launch."""
MOST_BYTES = 1 << 16
"""The size of an array whose elements are compared at every launch."""
_again: Any = partial
_kind: Callable[[object], Any] = type
_is_a: Callable[[object, Any], bool] = isinstance
_vars: Callable[[Any], Mapping[str, Any]] = vars
"""Values here are of any type: checkers need not know what is found out about them."""
_MISSING: Any = object()
_STOP: Any = object()
_DONE: Any = object()

_DYNAMIC = frozenset((
    *("getattr", "hasattr", "vars", "dir", "__dict__", "__getattribute__", "attrgetter", "methodcaller", "getmembers"),
    *("asdict", "astuple", "replace", "fields", "copy", "deepcopy", "format", "format_map", "dumps"),
    *("get_args", "get_origin", "get_type_hints", "__subclasses__", "pformat", "substitute", "safe_substitute"),
))  # fmt: skip
"""Names of functions that read attributes which the code does not name."""
_HIDDEN = frozenset(["globals", "eval", "exec", "__import__"])
"""Built-in functions that read names which the code does not have."""
_WRITES = frozenset((
    *("append", "extend", "insert", "appendleft", "extendleft", "clear", "add", "discard", "update"),
))  # fmt: skip
"""Methods of containers that read nothing of them."""
_UNREAD = frozenset(["__annotate__", "__annotate_func__", "_abc_impl", "__dict__", "__weakref__"])
"""Attributes of classes that no operator of Python reads."""
_MADE = "__class__"
_READ_IF: dict[str, frozenset[str]] = {
    **dict.fromkeys(("__repr__", "__str__", "__format__"), frozenset([AS_TEXT])),
    **dict.fromkeys(("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"), frozenset(["copy", "deepcopy"])),
}
"""Methods of classes that are read only if one of some names is asked for."""
_MAKERS = frozenset(["__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__", "__del__"])
"""Methods of classes that make objects, and end them."""
_TO_TEXT = frozenset(["str", "repr", "format", "ascii"])
_LOGGED = frozenset((
    *("isEnabledFor", "getEffectiveLevel", "hasHandlers", "handlers", "extra", "level", "disabled", "parent"),
))  # fmt: skip
"""What is read of a logger, else it is only written."""
_STANDARD = frozenset(vars(builtins))
_EXACT = frozenset((int, bool, str, bytes))
"""Types whose values are equal only if they are the same; -0.0 and NaN are not."""
_TYPES = frozenset(
    f"<class '{name}'>"
    for name in (
        *("torch.dtype", "torch.device", "decimal.Decimal", "datetime.date", "datetime.timedelta"),
        *("operator.attrgetter", "operator.itemgetter", "operator.methodcaller"),
    )
)
"""Immutable types that are not written in Python."""
_VALUES = (int, float, complex, str, bytes)
_TRANSPARENT = frozenset(["abc", "enum", "types", "typing"])
"""Modules whose classes read no attributes of objects but those that are named."""


# --- what is read


def _class_value(kind: type, name: str) -> object:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), _MISSING)


@dataclass(frozen=True)
class _Place:
    """Where a value is read, and how the author names it."""

    text: str
    where: Where


class _Walk:
    """Follows the values that a function reads. `names` are the attributes that are followed; None for all."""

    def __init__(self, function: types.FunctionType, names: frozenset[str] | None, asked: frozenset[str]) -> None:
        self.names = names
        self.asked = asked
        """The attributes that the functions name; of a library's modules and classes no others are followed."""
        self.attributes = frozenset[str]()
        """The attributes that the functions read of values which are not followed by name."""
        self.tokens: list[object] = []
        """All values in the order of the walk: equal for equal values."""
        self.functions: list[tuple[types.FunctionType, types.CodeType, object, object]] = []
        """Functions that are called, with their code, defaults and keyword defaults."""
        self.items: dict[tuple[int, object], tuple[Callable[..., object], object, object]] = {}
        """Items of dictionaries: `get`, the key and the value, by the dictionary and the key."""
        self.same: list[tuple[Callable[[], Iterable[object]], tuple[object, ...]]] = []
        """What else is read again, and the objects that this gave."""
        self.equal: list[tuple[Callable[[], object], object]] = []
        self.problems: dict[tuple[str, Where], None] = {}
        self._numbers: dict[int, int] = {}
        self._called = set[int]()
        """Classes that are reached as values."""
        self._visited = set[int]()
        self._count = 0
        """Elements of all containers."""
        self._found: list[tuple[object, _Place]] = []
        """Everything that was reached; this keeps it alive, so that no other object has its address."""
        code = function.__code__
        self._function(function, _Place(function.__name__, Where(code.co_filename, code.co_firstlineno)))
        for value, place in self._found:
            self._visit(value, place)
            if len(self._found) > MOST_OBJECTS or self._count > MOST_ELEMENTS:
                most = f"more than {MOST_OBJECTS} objects, or {MOST_ELEMENTS} elements,"
                self._refuse(place, f"{most} are reached through `{place.text}`")
                break

    def _refuse(self, place: _Place, message: str) -> None:
        self.problems[f"{message}: ptokit cannot see whether it changes", place.where] = None

    def _refer(self, value: object, place: _Place) -> None:
        """Note a value that is read."""
        kind = _kind(value)
        if kind in _EXACT:
            self.tokens.append((kind, value))
        elif kind in (range, slice):
            self.tokens.append(kind)
            for part in (cast("Any", value).start, cast("Any", value).stop, cast("Any", value).step):
                self._refer(part, place)
        elif kind in stable.ATOMS or str(kind) in _TYPES:
            self.tokens.append((kind, repr(value)))
            self.attributes |= _DYNAMIC & {kind.__name__}
        elif _is_a(value, np.generic):
            self.tokens.append((kind, cast("Any", value).tobytes()))
        else:
            self._number(value, place)
            if _is_a(value, type) and id(value) not in self._called:
                self._called.add(id(value))
                if id(value) in self._visited:
                    self._makers(cast("Any", value), place)

    def _number(self, value: object, place: _Place) -> None:
        number = self._numbers.setdefault(id(value), len(self._numbers))
        self.tokens.append(number)
        if number == len(self._found):
            self._found.append((value, place))

    def _refer_class(self, kind: type, place: _Place) -> None:
        """Note the class of an object, or a base; it is not called."""
        self._number(kind, place)

    # Names

    def _function(self, function: types.FunctionType, place: _Place) -> None:
        code, names = function.__code__, function.__globals__
        self.tokens.append((code, code.co_filename))
        if self._found:  # those of the kernel are arguments
            self.functions.append((function, code, function.__defaults__, function.__kwdefaults__))
            self._refer(function.__defaults__, place)
            self._refer(function.__kwdefaults__, place)
        cells = _Cells(zip(code.co_freevars, function.__closure__ or (), strict=True))
        named = named_by(code.co_filename, code)
        self.attributes |= named.attributes
        is_foreign = is_library(code.co_filename)  # the user's line is shown
        for chain in named.chains:
            here = place if is_foreign else _Place(str(chain), Where(code.co_filename, chain.line))
            if not chain.is_cell or chain.name in cells:
                home = cells if chain.is_cell else names
                self._chain(home.get(chain.name, _MISSING), home, chain, here)
        for name, line in named.imports:
            here = place if is_foreign else _Place(name, Where(code.co_filename, line))
            self._import(name, str(names.get("__package__") or ""), here)
        if self.names is None or self.names:
            self._members(_vars(function), self.names, place)

    def _import(self, name: str, package: str, place: _Place) -> None:
        parents = package.split(".")
        homes = (".".join(parents[:k]) for k in range(len(parents), 0, -1))
        for full in dict.fromkeys((name.partition(".")[0], name, *(f"{home}.{name}".strip(".") for home in homes))):
            if self._item(sys.modules, full) is not _MISSING:
                self._refer(sys.modules[full], place)

    def _item(self, mapping: Mapping[Any, Any], key: object) -> Any:
        """An item of a dictionary, which is read."""
        value = mapping.get(key, _MISSING)
        self.items[id(mapping), (key, _kind(key))] = mapping.get, key, value
        return value

    def _chain(self, value: Any, home: Mapping[Any, Any] | None, chain: Chain, place: _Place) -> None:
        """Follow a chain as far as nothing but the named attributes and items is read; `home` has the value."""
        name: object = chain.name
        attributes = {key for kind, key in chain.steps if kind == "attribute"}
        self.attributes |= _DYNAMIC & {name, *attributes}
        for kind, key in chain.steps:
            if home is not None and kind == "attribute" and _is_property(value, key):
                self._property(home, name, value, key)
                return
            if home is not None:
                self._item(home, name)
            found, home = self._attribute(value, key) if kind == "attribute" else _element(value, key)
            if found is _DONE:
                self.tokens.append(id(value))
                return
            if found is _STOP:
                self.attributes |= attributes
                break
            value, name = found, key
        if home is not None:
            self._item(home, name)
        if value is not _MISSING:
            self._refer(value, place)
            return
        if chain.name in _STANDARD:
            self._stable(getattr(builtins, chain.name, None), place)
        else:
            self._refer(self._item(vars(builtins), chain.name), place)

    def _attribute(self, value: Any, key: str) -> tuple[Any, Mapping[Any, Any] | None]:
        """The value of an attribute, and the dictionary that has it."""
        if _is_a(value, types.ModuleType):
            return (_DONE, None) if is_own(stable.file_of(value)) else _member(value, key)
        if _is_a(value, type):
            return self._class_attribute(value, key)
        if _kind(value) in stable.CONTAINERS and key in _WRITES:
            return _DONE, None
        return self._own_attribute(value, key)

    def _class_attribute(self, kind: type, key: str) -> tuple[Any, Mapping[Any, Any] | None]:
        if stable.is_stable_class(kind):
            return next(iter(stable.class_members(kind, frozenset([key]))), _DONE), None
        for base in kind.__mro__:
            found = self._item_of_class(base, key)
            if found is not _MISSING:
                is_bound = hasattr(_kind(found), "__get__") and not _is_a(found, types.FunctionType | staticmethod)
                return (_STOP if is_bound else found), None
        return _STOP, None

    def _item_of_class(self, kind: type, key: str) -> Any:
        return _vars(kind).get(key, _MISSING) if stable.is_stable_class(kind) else self._item(_vars(kind), key)

    def _own_attribute(self, value: Any, key: str) -> tuple[Any, Mapping[Any, Any] | None]:
        """An attribute of an object that is plain data: nothing but dictionaries is read for it."""
        kind, names, raw = _kind(value), _attributes_of(value), _class_value(_kind(value), key)
        is_plain = raw is _MISSING or not hasattr(_kind(raw), "__get__")
        if names is None or not is_plain or _class_value(kind, "__getattribute__") is not object.__getattribute__:
            return _STOP, None
        self._identify(value)
        for base in kind.__mro__:
            self._item_of_class(base, key)
        if self._item(names, key) is not _MISSING:
            return names[key], names
        return (_STOP, None) if raw is _MISSING else (raw, None)

    def _identify(self, value: object) -> None:
        """An object may get another class, or another dictionary."""
        read = _again(_identity if _attributes_of(value) is None else _identity_and_names, value)
        self.same.append((read, read()))

    def _property(self, home: Mapping[Any, Any], name: object, value: Any, key: str) -> None:
        """Another array with the same property may take the place of this one, which is not kept alive."""
        read = _again(_described, home, name, _kind(value), key)
        self.equal.append((read, read()))
        self.tokens.append((_kind(value), key, repr(read())))

    # Values

    def _visit(self, value: Any, place: _Place) -> None:
        kind = _kind(value)
        if _is_a(value, types.FunctionType):
            self._visit_function(value, place)
        elif _is_a(value, types.ModuleType):
            self._module(value, place)
        elif _is_a(value, type):
            self._class(value, place)
        elif _is_a(value, np.ndarray):
            self._array(value, place)
        elif kind in _PARTS:
            self.tokens.append(kind)
            for part in _PARTS[kind]:
                self._refer(getattr(value, part), place)
        elif stable.is_builtin(kind):
            self._stable(value, place)
        else:
            self._object(value, place)

    def _module(self, module: types.ModuleType, place: _Place) -> None:
        """Of a library's module only what is named is followed."""
        self.tokens.append(id(module))
        if stable.is_volatile(module.__name__):
            self._outside(place)
        elif stable.is_stable_module(module):
            self._members(_vars(module), stable.outside(module) & self.asked, place)
        elif (
            is_library(stable.file_of(module))
            or is_installed(stable.file_of(module))
            or stable.is_extension(module.__name__)
        ):
            self._members(_vars(module), self.asked - _DYNAMIC, place)
        else:
            self._members(_vars(module), self.names, place)
            self._refer(self._item(_vars(module), "__getattr__"), place)

    def _outside(self, place: _Place) -> None:
        self._refuse(place, f"`{place.text}` may depend on more than its arguments")

    def _stable(self, value: Any, place: _Place) -> None:
        """An object of ptokit, or a function in C: a kernel is what its function is, a method reads its object."""
        self._fixed(value, place)
        is_foreign = _is_a(value, np.ufunc) and getattr(np, value.__name__, None) is not value
        if is_foreign or (callable(value) and stable.reads_outside(value)):
            self._outside(place)
        if "array" in self.asked and _is_a(held := getattr(value, "array", None), np.ndarray):
            self._refer(held, place)
        owner = None if hasattr(_kind(value), "__get__") else getattr(value, "__self__", None)
        for part in (owner, (_attributes_of(value) or {}).get("__wrapped__")):
            if part is not None and not _is_a(part, types.ModuleType):
                self._refer(part, place)

    def _fixed(self, value: Any, place: _Place) -> None:
        """A function that does not change; some read what the code does not name, under whatever name."""
        self.tokens.append(id(value))
        name = getattr(value, "__name__", "")
        self.attributes |= _DYNAMIC & {name}
        if value is type:
            self.attributes |= {_MADE}
        if name in _TO_TEXT:
            self.attributes |= {AS_TEXT}
        if name in _HIDDEN and value is getattr(builtins, name):
            self._refuse(place, f"`{name}` can read any name")

    def _visit_function(self, function: types.FunctionType, place: _Place) -> None:
        file = function.__code__.co_filename
        if not stable.is_stable(file, function.__globals__.get("__name__") or ""):
            self._function(function, place)
            return
        self._fixed(function, place)
        if stable.is_outside(function):
            self._outside(place)
        for cell in () if is_own(file) else function.__closure__ or ():  # a decorator of a library around a function
            if _is_a(inner := content(cell), types.FunctionType | types.MethodType | dict):
                self._refer(inner, place)

    def _class(self, kind: type, place: _Place) -> None:
        self.tokens.append(id(kind))
        if stable.is_volatile(kind.__module__):
            self._outside(place)
        if stable.is_stable_class(kind):
            for part in stable.class_members(kind, self.asked - _DYNAMIC):
                self._refer(part, place)
            return
        for base in (_kind(kind), *kind.__mro__[1:]):
            self._refer_class(base, place)
        self._elements(_vars(kind))
        self._visited.add(id(kind))
        for name, value in _vars(kind).items():
            is_called = name.startswith("__") and hasattr(_kind(value), "__get__") and self._is_read(name)
            is_named = self.names is None or name in self.names
            if name not in _UNREAD | _MAKERS and (is_called or is_named):
                self._refer(value, place)
        if id(kind) in self._called or self._may_make(kind):
            self._makers(kind, place)

    def _may_make(self, kind: type) -> bool:
        """Whether code that has only objects of a class may call it: by their class, or in a class method."""
        is_dynamic = self.names is None or _MADE in self.asked
        return is_dynamic or any(_is_a(each, classmethod) for base in kind.__mro__ for each in _vars(base).values())

    def _is_read(self, name: str) -> bool:
        return self.names is None or name not in _READ_IF or not _READ_IF[name].isdisjoint(self.asked)

    def _makers(self, kind: type, place: _Place) -> None:
        """The methods that make an object: a class that is reached as a value may be called."""
        for base in kind.__mro__:
            if not stable.is_stable_class(base):
                for name in _MAKERS & _vars(base).keys():
                    self._refer(_vars(base)[name], place)

    def _array(self, array: Any, place: _Place) -> None:
        if array.nbytes > MOST_BYTES or array.dtype.hasobject:
            self._refuse(place, f"`{place.text}` is an array of {array.nbytes} bytes, whose elements may be read")
            return
        read = _again(_array_content, array)
        self.equal.append((read, read()))
        self.tokens.append(read())

    def _object(self, value: Any, place: _Place) -> None:
        kind = _kind(value)
        if value is sys.stdout or value is sys.stderr:  # written, not read
            self.tokens.append(id(value))
            return
        if stable.is_opaque(kind):
            self._refuse(place, f"`{place.text}` reads the state of a {kind.__name__}")
            return
        if kind.__module__.partition(".")[0] == "logging":  # written, not read
            self.tokens.append(id(value))
            if self.asked & _LOGGED:
                self._refuse(place, f"`{place.text}` may read the state of a {kind.__name__}")
        elif kind not in stable.PLAIN:
            self._refer_class(kind, place)
            self._attributes(value, place)
        for base, fields in _FIELDS.items():
            if _is_a(value, base):
                self._fields(value, fields, place)
        for base in _VALUES:
            if _is_a(value, base):
                self.tokens.append(cast("Any", base).__repr__(value))
        if _is_a(value, stable.CONTAINERS):
            for part in self._elements(value):
                self._refer(part, place)

    def _elements(self, value: Any) -> Sequence[object]:
        """All elements of a container, with the keys of a dictionary."""
        self._count += len(value)
        if self._count > MOST_ELEMENTS:
            return ()
        reads = [_again(iter, value), *([value.values] if _is_a(value, dict | types.MappingProxyType) else [])]
        found = [tuple(read()) for read in reads]
        if not _is_a(value, tuple | frozenset):
            self.equal.append((value.__len__, len(value)))
            self.same += zip(reads, found, strict=True)
        self.tokens.append(len(value))
        return [part for parts in found for part in parts]

    def _attributes(self, value: Any, place: _Place) -> None:
        """The attributes of an object that may be read."""
        self._identify(value)
        names, bases = self.names, [base for base in _kind(value).__mro__ if not stable.is_extension(base.__module__)]
        if any(base.__module__ not in _TRANSPARENT and stable.is_stable_class(base) for base in bases):
            names = None  # its methods may read any of them
            self.tokens.append(id(value))
        own = _attributes_of(value)
        self._members({} if own is None else own, names, place)
        slots = [
            name
            for base in bases
            for name, slot in _vars(base).items()
            if _is_a(slot, types.MemberDescriptorType) and (names is None or name in names)
        ]
        if slots:
            self._fields(value, slots, place)

    def _fields(self, value: Any, names: Sequence[str], place: _Place) -> None:
        """Attributes that are in no dictionary."""
        read = _again(map, getattr, repeat(value), names, repeat(_MISSING))
        self.same.append((read, tuple(read())))
        for part in read():
            self._refer(part, place)

    def _members(self, mapping: Mapping[str, Any], names: frozenset[str] | None, place: _Place) -> None:
        if names is None:
            self._elements(mapping)
        for name in [*mapping] if names is None else sorted(names):
            value = self._item(mapping, name)
            self._refer(value, _Place(f"{place.text}.{name}", place.where) if value is not _MISSING else place)


_PARTS: dict[Any, tuple[str, ...]] = {
    types.MethodType: ("__func__", "__self__"),
    partial: ("func", "args", "keywords"),
    property: ("fget",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    cached_property: ("func",),
    type(lru_cache(len)): ("__wrapped__",),
    types.UnionType: ("__args__",),
    types.GenericAlias: ("__origin__", "__args__"),
    re.Pattern: ("pattern", "flags"),
    TypeVar: ("__name__",),
    TypeVarTuple: ("__name__",),
    ParamSpec: ("__name__",),
}
"""The parts of objects that stand for functions, types and patterns."""
_FIELDS: dict[type, tuple[str, ...]] = {deque: ("maxlen",), defaultdict: ("default_factory",), BaseException: ("args",)}
"""What built-in objects have besides their elements."""


def _member(module: types.ModuleType, key: str) -> tuple[Any, Mapping[Any, Any]]:
    """What a module has under a name; libraries may import it at the first use."""
    names = _vars(module)
    if key not in names and stable.is_stable_module(module):
        with suppress(Exception):
            getattr(module, key)
    return names.get(key, _STOP), names


class _Cells(dict[str, types.CellType]):
    """The cells of a closure; `get` gives what is in one."""

    def get(self, name: Any, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            return self[name].cell_contents
        except ValueError:  # it is not set yet
            return default


def _element(value: Any, key: Any) -> tuple[Any, Mapping[Any, Any] | None]:
    """An item of a dictionary or a tuple, and the dictionary."""
    if _kind(value) is dict and key in value:
        return value[key], value
    if _kind(value) is tuple and _is_a(key, int) and -len(value) <= key < len(value):
        return value[key], None
    return _STOP, None


def _attributes_of(value: object) -> dict[str, Any] | None:
    """The dictionary of an object's attributes; this runs no code of the user's."""
    has_any = any("__dict__" in _vars(base) for base in _kind(value).__mro__)
    return object.__getattribute__(value, "__dict__") if has_any else None


def _identity(value: object) -> tuple[object]:
    return (type(value),)


def _identity_and_names(value: object) -> tuple[object, object]:
    return type(value), object.__getattribute__(value, "__dict__")


def _is_property(value: Any, key: str) -> bool:
    """Whether an attribute is a property of an array, such as its shape, which can be read without its elements."""
    kind = _kind(value)
    is_array = _is_a(value, np.ndarray) or stable.is_opaque(kind)
    if not is_array or not _is_a(_class_value(kind, key), types.GetSetDescriptorType):
        return False
    found = getattr(value, key)
    parts = cast("tuple[object, ...]", found) if _is_a(found, tuple) else (found,)
    return all(_kind(part) in stable.ATOMS or _is_a(part, np.dtype) or str(_kind(part)) in _TYPES for part in parts)


def _described(home: Mapping[Any, Any], name: object, kind: type, key: str) -> object:
    """A property of the value under a name of a dictionary, if its class is still the same."""
    value = home.get(name)
    return getattr(value, key) if _kind(value) is kind else _MISSING


def _array_content(array: Any) -> tuple[object, ...]:
    return array.shape, array.strides, str(array.dtype), array.tobytes()


class Reads:
    """The values outside of its arguments that the traces of a function read."""

    __slots__ = ("_code", "_function", "_functions", "_has_more", "_items", "_walk")

    def __init__(self, function: types.FunctionType) -> None:
        self._function, self._code = function, function.__code__
        self._adopt(_followed(function))

    def _adopt(self, walk: _Walk) -> None:
        self._walk, self._has_more = walk, bool(walk.same or walk.equal)
        self._functions, self._items = tuple(walk.functions), tuple(walk.items.values())

    @property
    def content(self) -> tuple[object, ...]:
        """Equal for equal values."""
        return tuple(self._walk.tokens)

    def names(self, name: str) -> bool:
        """Whether the function, or one that it can reach, reads something from outside by a name."""
        codes = (self._code, *(code for _, code, *_ in self._functions))
        return any(chain.name == name for code in codes for chain in named_by(code.co_filename, code).chains)

    def check(self) -> None:
        """Refuse what cannot be followed."""
        if self._walk.problems:
            fix = "read it before the launch; pass arrays as arguments and values as constants: `n: pto.const`"
            raise VerifyError(
                [Finding("error", "KN-21", message, fix=fix, where=where) for message, where in self._walk.problems]
            )

    def are_current(self) -> bool:
        """Whether everything is still what it was."""
        if self._function.__code__ is not self._code:
            return False
        for function, code, defaults, keywords in self._functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keywords
            ):
                return self._are_equal()
        for get, key, value in self._items:
            if get(key, _MISSING) is not value:
                return self._are_equal()
        return not self._has_more or self._rest_is_same() or self._are_equal()

    def _rest_is_same(self) -> bool:
        same = all(all(map(is_, read(), values)) for read, values in self._walk.same)
        return same and all(read() == value for read, value in self._walk.equal)

    def _are_equal(self) -> bool:
        """Whether new objects are equal to the old ones; later comparisons are with the new ones."""
        walk = _followed(self._function)
        if walk.problems or walk.tokens != self._walk.tokens:
            return False
        self._adopt(walk)
        return True


def _followed(function: types.FunctionType) -> _Walk:
    """Follow what a function reads. A function on the way may read more attributes of earlier values."""
    asked = frozenset[str]()
    while True:
        walk = _Walk(function, asked if asked.isdisjoint(_DYNAMIC) else None, asked)
        if walk.attributes <= asked:
            return walk
        asked |= walk.attributes
