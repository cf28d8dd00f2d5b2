"""The parameters of C++ entries: arrays, numbers, and pointers that no array is passed for."""

from __future__ import annotations

import re

from ptokit.cxx.entries import Parameter
from ptokit.isa.dtype import DType, dtype

ANY = ("void", "uint8_t", "unsigned char", "char", "int8_t", "GM_ADDR")
"""Types of pointers to elements of any type."""
WHOLE = {"int": "int32", "unsigned": "uint32", "unsigned int": "uint32", "long": "int64", "size_t": "uint64",
         "unsigned long": "uint64", "long long": "int64", "short": "int16", "char": "int8"}  # fmt: skip
"""C++ types of scalars that are not among the spellings of element types."""
NULLS = ("ffts", "stream")
"""Words in the names of pointers that no array is passed for."""


def _plain_type(parameter: Parameter) -> str:
    words = re.sub(r"\b(?:const|volatile|__gm__|__restrict__|std::)\b|::", " ", parameter.type).replace("*", " ")
    return " ".join(words.split())


def element_of(parameter: Parameter) -> DType | None:
    """The element type of a pointer; None for bytes, which may be of any type."""
    name = _plain_type(parameter)
    if name in ANY:
        return None
    try:
        return dtype(WHOLE.get(name, name))
    except TypeError:
        return None


def scalar_of(parameter: Parameter) -> DType:
    """The type of a number."""
    try:
        return dtype(WHOLE.get(_plain_type(parameter), _plain_type(parameter)))
    except TypeError:
        return dtype("int64")


def kind_of(parameter: Parameter) -> str:
    """`array`, `integer`, `float`, or `null` for a pointer that no array is passed for."""
    if "*" in parameter.type or _plain_type(parameter) == "GM_ADDR" or parameter.is_stream:
        is_null = parameter.is_stream or any(word in parameter.name.lower() for word in NULLS)
        return "null" if is_null else "array"
    return "float" if scalar_of(parameter).is_float else "integer"
