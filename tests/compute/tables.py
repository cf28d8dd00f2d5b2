"""The element types of each instruction by target, copied from the facts, not from the code."""

from __future__ import annotations

SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
ALL = {*SIGNED, *UNSIGNED, "float16", "bfloat16", "float32"}
INTS = {*SIGNED, *UNSIGNED}
B4 = {"int16", "int32", "float16", "float32"}
F2, F3 = {"float16", "float32"}, {"float16", "bfloat16", "float32"}
EIGHT, LONG = {"int8", "uint8"}, {"int64", "uint64"}
DIV = {"int16", "uint16", "int32", "uint32", *LONG, *F2}
HOST = {*ALL, "float64"}
SHORT = {"int16", "uint16", "int32", "uint32"}
BYTES = {"float8_e4m3", "float8_e5m2", "hifloat8"}
EVERY = [*sorted(HOST), *sorted(BYTES)]

_ADD = (ALL, B4, ALL, HOST)
_MUL = (ALL, B4, ALL - EIGHT, HOST)
_FLOAT = (F3, F2, F2, {*F3, "float64"})
_PADDED = ((ALL - LONG) | BYTES, ALL - LONG, (ALL - LONG) | BYTES, HOST)
_PART = {"int8", "uint8", "int16", "int32", *F3}
TYPES = {
    **dict.fromkeys(("tadd", "tsub", "tmax", "tmin", "tadds", "tsubs", "tmaxs", "tmins"), _ADD),
    **dict.fromkeys(("tmul", "tmuls", "tneg"), _MUL),
    **dict.fromkeys(("tprelu", "tlrelu"), _FLOAT),
    "trsqrt": (F2, F2, F2, {*F3, "float64"}),
    "trelu": (ALL, {"int32", *F2}, {"int32", *F2}, HOST),
    "tnot": (INTS, INTS - LONG, INTS - LONG, INTS),
    **dict.fromkeys(("tpartadd", "tpartmax", "tpartmin"), (_PART, B4, ALL, HOST)),
    "tpartmul": (_PART, B4, ALL - LONG, HOST),
    "taxpy": _FLOAT,
    "tconcat": (ALL - LONG, ALL - LONG, ALL - LONG, HOST),
    **dict.fromkeys(("tfillpad", "tfillpad_inplace", "tfillpad_expand"), _PADDED),
    "ttri": ({*SHORT, *F3}, {*SHORT, *F2}, ALL, HOST),
    "tdiv": (ALL, F2, DIV, HOST),
    **dict.fromkeys(("trem", "trems"), (ALL, {"int32", "float32"}, DIV, HOST)),
    **dict.fromkeys(("tfmod", "tfmods"), (ALL, {"float32"}, {*SHORT, *F2}, HOST)),
    **dict.fromkeys(
        ("tpow", "tpows"), ({*SHORT, *EIGHT, *F3}, {*SHORT, *EIGHT, "float32"}, {*SHORT, *EIGHT, *F3}, HOST)
    ),
    "tdivs": (ALL, B4, DIV, HOST),
    "tabs": ({"int8", "int16", "int32", *F3}, F2, {"int8", "int16", "int32", *F2}, HOST),
    **dict.fromkeys(("texp", "tlog", "tsqrt", "trecip"), _FLOAT),
    **dict.fromkeys(("tand", "tor", "txor"), (INTS, INTS - LONG, INTS - LONG, INTS)),
    **dict.fromkeys(("tands", "tors", "txors"), (INTS, SHORT, INTS - LONG, INTS)),
    **dict.fromkeys(("tshl", "tshr"), (INTS, INTS - LONG, INTS, INTS)),
    **dict.fromkeys(("tshls", "tshrs"), (INTS, SHORT, INTS, INTS)),
    "texpands": (ALL, ALL - LONG, ALL, HOST),
    "tci": (ALL, {*SHORT, *F3}, SHORT, HOST),
    "tcmp": (ALL, {"int32", *F2}, ALL, HOST),
    "tcmps": (ALL, {"int16", "uint16", "int32", *F2}, ALL, HOST),
    "tsel": (ALL, {*SHORT, *F3}, ALL, HOST),
    "tsels": (ALL, {*SHORT, *F3}, ALL - {"bfloat16"}, HOST),
    "trowprod": (ALL, B4, B4, HOST),
    "tcolprod": (ALL, B4, {*B4, "uint16", "uint32", "bfloat16"}, HOST),
    **dict.fromkeys(("trowargmax", "trowargmin"), (ALL, F2, F2, HOST)),
    **dict.fromkeys(("tcolargmax", "tcolargmin"), (ALL, {"uint16", "uint32", *F2}, ALL - LONG - {"bfloat16"}, HOST)),
    **dict.fromkeys(("trowexpandexpdif", "tcolexpandexpdif"), (F2, F2, F2, {*F3, "float64"})),
    "trowsum": (ALL, B4, {*B4, *LONG}, HOST),
    **dict.fromkeys(("trowmax", "trowmin"), (ALL, B4, {*B4, *LONG, *EIGHT}, HOST)),
    **dict.fromkeys(("tcolsum", "tcolmax", "tcolmin"), (ALL, B4, ALL, HOST)),
    **dict.fromkeys(("trowexpand", "tcolexpand"), (ALL, ALL - LONG, ALL, HOST)),
    **dict.fromkeys(
        (
            "trowexpandadd",
            "trowexpandmax",
            "trowexpandmin",
            *(f"tcolexpand{op}" for op in ("add", "sub", "mul", "max", "min")),
        ),
        (ALL, B4, {*B4, "uint16", "uint32", "bfloat16", *EIGHT}, HOST),
    ),
    "tcolexpanddiv": (ALL, F2, {*SHORT, *F2}, HOST),
    "trowexpandmul": (ALL, B4, {*B4, "uint16", "uint32", "bfloat16", *EIGHT}, HOST),
    "trowexpandsub": (ALL, B4, {*B4, "uint16", "uint32", "bfloat16"}, HOST),
    "trowexpanddiv": (ALL, F2, {*SHORT, *F2}, HOST),
    "ttrans": ({*ALL, *BYTES}, ALL - LONG, {*ALL, *BYTES} - LONG, HOST),
    "tgather": ({*ALL, *BYTES}, {*SHORT, *F3}, {*ALL, *BYTES}, HOST),
}
TARGETS = ("cpu", "a2a3", "a5", "host")


def types(name: str, target: str) -> list[str]:
    """The accepted types."""
    return sorted(TYPES[name][TARGETS.index(target)])


def cases(*names: str) -> list[tuple[str, str, str]]:
    """(target, instruction, type), all that are accepted, but for 8-bit floats, which are only moved."""
    accepted = ((target, name, kind) for target in TARGETS for name in names for kind in types(name, target))
    return [case for case in accepted if case[2] not in BYTES]
