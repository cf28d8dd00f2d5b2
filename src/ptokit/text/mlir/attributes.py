"""Attributes: those of MLIR itself, and those of the dialect `pto`: two tables of names and keywords.

A keyword attribute is written in one of two families, `#pto.NAME<KW>` or `#pto<NAME KW>`. Both are read for every name;
each is printed in the family of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from ptokit.isa.policy import BLayout, GlobalLayout, Pad, PtoEnum, SLayout
from ptokit.text.cursor import Cursor, bare_or_quoted, braced, escaped
from ptokit.text.errors import choices
from ptokit.text.mlir.floats import number_attribute, truth
from ptokit.text.mlir.ir import Attributes, MlirAttribute, Type
from ptokit.text.mlir.types import SPACES, Signature
from ptokit.text.spelling import EVENTS, PIPES, keywords


def _words(enum: type[PtoEnum]) -> str:
    return " ".join(member.text for member in enum)


_EVENT_TYPES = "TLOAD TSTORE_ACC TSTORE_VEC TMOV_M2L TMOV_M2S TMOV_M2B TMOV_M2V TMOV_V2M TMATMUL TVEC TVECWAIT_EVENT"
ANGLE = {
    "address_space": " ".join(SPACES),
    "pipe": f"{' '.join(PIPES)} VIRTUAL_PIPE_MTE2_L1A VIRTUAL_PIPE_MTE2_L1B PIPE_NUM PIPE_UNASSIGNED",
    "event": " ".join(EVENTS),
    "pipe_event_type": _EVENT_TYPES,
    "sync_op_type": _EVENT_TYPES,
    "layout": _words(GlobalLayout),
    "kernel_kind": "cube vector",
    "func_core_type": "AIC AIV MIX AIC_OR_AIV",
    "module_core_type": "AIC AIV MIX",
    "mask_pattern": "P0101 P1010 P0001 P0010 P0100 P1000 P1111",
    "acc_to_vec_mode": "single_mode_vec0 single_mode_vec1 dual_mode_split_m dual_mode_split_n",
    "padmode": "PadNull PadFirstElem PadValue",
    "blayout": _words(BLayout),
    "slayout": _words(SLayout),
    "pad_value": _words(Pad),
    "compact_mode": "null normal row_plus_one",
}
"""Names and keywords of the family `#pto.NAME<KW>`."""

SPACED = {
    **{kind: " ".join(words) for kind, words in keywords().items()},
    "st_phase": "unspecified partial final",
    "relu_pre_mode": "no_relu normal_relu scalar_relu vector_relu pwl",
    "quant_type": "INT8_SYM INT8_ASYM",
}
"""Names and keywords of the family `#pto<NAME KW>`."""

WORDS = {name: tuple(words.split()) for name, words in (ANGLE | SPACED).items()}
"""The keywords of each kind."""
CONFIG = {
    "blayout": "blayout",
    "slayout": "slayout",
    "s_fractal_size": "",
    "pad": "pad_value",
    "compact": "compact_mode",
}
"""Keys of `#pto.tile_buf_config<...>` in the order of printing, and the kinds of their values."""
MAX_AFFINE = 1 << 14
"""Most characters of an affine map."""


@lru_cache(maxsize=1024)
def keyword(kind: str, word: str) -> MlirAttribute:
    """A keyword attribute."""
    return MlirAttribute(f"#pto.{kind}<{word}>" if kind in ANGLE else f"#pto<{kind} {word}>", word, f"<{word}>")


def read_attribute(c: Cursor, kind: str = "") -> MlirAttribute:
    """Any attribute; where `kind` names a keyword attribute, also the stripped spellings `<KW>` and `KW`."""
    if kind in WORDS:
        if c.word == "<":
            return _angled(c, kind)
        return c.optional_attribute() or keyword(kind, _keyword(c, kind))
    found = c.optional_attribute()
    if found is None:
        c.expected("the value of an attribute")
    return found


def _keyword(c: Cursor, kind: str) -> str:
    """One of the keywords of a kind, bare or quoted."""
    known = WORDS[kind]
    at, is_missing = c.start, c.is_on_new_line()
    word = None if is_missing else c.optional_word()
    if word is None:
        c.expected(f"a keyword of {kind}: {choices('', known)}")
    if word not in known:
        c.fail_word(f"{kind} has no keyword `{word}`", word, known, at)
    return word


def plain_text(value: MlirAttribute, *, stripped: bool = False) -> str:
    """An attribute, without the type that an integer has by default, on request without the name of a keyword's."""
    if value.short and (value.is_integer or stripped):
        return value.short
    return value.text


# --- Any attribute -------------------------------------------------------------------------------------------------


def optional_attribute(c: Cursor) -> MlirAttribute | None:
    """An attribute, if there is one."""
    if (read := READERS.get(c.kind)) is not None:
        return read(c)
    is_name = c.word in ALONE or c.text.startswith(("<", "(", "["), c.end)
    read = WORDED.get(c.word) if c.kind == "mark" or (c.kind == "bare" and is_name) else None
    if read is not None:
        found = read(c)
        c.spend(len(found.text))
        return found
    type_ = c.optional_type()
    if type_ is None:
        return None
    return MlirAttribute(type_.text, type_.data if isinstance(type_.data, Signature) else None)


def _number(c: Cursor) -> MlirAttribute:
    at, text = c.start, _literal(c)
    kind_at, type_ = c.start, None
    if c.accept(":"):
        kind_at = c.start
        type_ = c.type()
    return or_error(c, lambda: number_attribute(text, type_), kind_at if "." in text else at)


def _literal(c: Cursor) -> str:
    """A number as written."""
    sign = "-" if c.accept("-") else ""
    if c.kind != "number":
        c.expected("a number")
    return sign + c.advance()


def or_error(c: Cursor, make: Callable[[], MlirAttribute], at: int) -> MlirAttribute:
    """An attribute, or an error at a place; a number that its type does not hold is one of the whole statement."""
    try:
        return make()
    except ValueError as error:
        c.fail(str(error), at)


def string_attribute(text: str) -> MlirAttribute:
    """A string."""
    return MlirAttribute(escaped(text), text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def array_attribute(items: list[MlirAttribute]) -> MlirAttribute:
    """`[a, b]`."""
    return MlirAttribute(f"[{', '.join(item.text for item in items)}]", tuple(item.plain for item in items))


def integer(number: int) -> MlirAttribute:
    """A whole number of the default type."""
    return MlirAttribute(f"{number} : i64", number, str(number), Type("i64"))


def symbol_text(name: str) -> str:
    """`@name`."""
    return f"@{bare_or_quoted(name)}"


def _symbol(c: Cursor) -> MlirAttribute:
    names = [c.symbol()]
    while c.accept("::"):
        names.append(c.symbol())
    return symbol_attribute(*names)


def symbol_attribute(*names: str) -> MlirAttribute:
    """`@name`, or `@outer::@inner`."""
    return MlirAttribute("::".join(map(symbol_text, names)), ".".join(names))


def _dictionary(c: Cursor) -> MlirAttribute:
    outer, c.places = c.places, {}
    found: Attributes = c.dictionary()
    c.places = outer
    return MlirAttribute(braced(found))


def _hash(c: Cursor) -> MlirAttribute:
    """An alias, or an attribute of a dialect; those of `pto` that are known in their own family."""
    at, name = c.start, c.advance()[1:]
    if (alias := c.alias(f"#{name}", at)) is not None:
        return alias if isinstance(alias, MlirAttribute) else MlirAttribute(alias.text)
    if c.word != "<" or c.start != c.behind:
        return MlirAttribute(f"#{name}")
    if name == "pto.tile_buf_config":
        return _config(c)
    kind = name.removeprefix("pto.") if name.startswith("pto.") else ""
    if kind in WORDS:
        return _angled(c, kind)
    if name == "pto" and (spaced := _KIND.match(c.text, c.end)) is not None and spaced[1] in WORDS:
        c.jump(spaced.end())
        found = _angled(c, spaced[1]) if c.word == "<" else keyword(spaced[1], _keyword(c, spaced[1]))
        c.expect(">")
        return found
    return MlirAttribute(f"#{name}<{c.body()}>")


_KIND = re.compile(r"\s*([a-z_]+)\b", re.ASCII)


def _angled(c: Cursor, kind: str) -> MlirAttribute:
    c.advance()
    found = keyword(kind, _keyword(c, kind))
    c.expect(">")
    return found


def _config(c: Cursor) -> MlirAttribute:
    """`#pto.tile_buf_config<blayout=..., ...>`: keys in any order, printed in one."""
    values: dict[str, MlirAttribute] = {}

    def entry() -> None:
        at, key = c.start, c.name("a key of tile_buf_config")
        if key not in CONFIG:
            c.fail_word(f"tile_buf_config has no key `{key}`", key, tuple(CONFIG), at)
        if key in values:
            c.fail("tile_buf_config names a key twice", at)
        c.expect("=")
        values[key] = read_attribute(c, CONFIG[key])

    c.listed("<", entry)
    inner = ", ".join(f"{key}={plain_text(values[key])}" for key in CONFIG if key in values)
    return MlirAttribute(f"#pto.tile_buf_config<{inner}>")


# --- Attributes that start with a word -----------------------------------------------------------------------------

_BLANKS = re.compile(r'("(?:[^"\\\n]|\\.)*+"?)|\s+', re.ASCII)


def one_line(text: str) -> str:
    """A text with single blanks, apart from strings."""
    return _BLANKS.sub(lambda match: match[1] or " ", text).strip()


def _verbatim(c: Cursor) -> MlirAttribute:
    """`affine_map<...>`, `dense<...> : T` and the like: kept as it is written."""
    at, name = c.start, c.advance()
    body = one_line(c.body())
    if name in TYPED:
        c.expect(":")
        type_ = c.type()
        return MlirAttribute(f"{name}<{body}> : {type_.text}", type=type_)
    if len(body) > MAX_AFFINE:
        c.fail(f"`{name}` of more than {MAX_AFFINE} characters", at)
    if name == "strided":
        body = re.sub(r"\s*([,:])\s*", r"\1 ", body)
    return MlirAttribute(f"{name}<{body}>")


def _array(c: Cursor) -> MlirAttribute:
    """`array<i32: 1, 2>`."""
    c.advance()
    c.expect("<")
    type_ = c.type()
    items = c.separated(lambda: _element(c, type_)) if c.accept(":") else []
    c.expect(">")
    inner = ", ".join(item.text.partition(" : ")[0] for item in items)
    return MlirAttribute(f"array<{type_.text}{f': {inner}' if items else ''}>", tuple(item.plain for item in items))


def _element(c: Cursor, type_: Type) -> MlirAttribute:
    if c.word in ("true", "false"):
        return truth(c.advance() == "true")
    at, text = c.start, _literal(c)
    return or_error(c, lambda: number_attribute(text, type_), at)


TYPED = ("dense", "sparse", "dense_resource")
"""Words of attributes that have a type behind them."""
READERS: dict[str, Callable[[Cursor], MlirAttribute]] = {
    "hash": _hash,
    "string": lambda c: string_attribute(c.string()),
    "symbol": _symbol,
    "number": _number,
}
WORDED: dict[str, Callable[[Cursor], MlirAttribute]] = {
    "-": _number,
    "[": lambda c: array_attribute(c.listed("[", c.attribute)),
    "{": _dictionary,
    **dict.fromkeys(("true", "false"), lambda c: truth(c.advance() == "true")),
    "unit": lambda c: MlirAttribute(c.advance(), True),
    "array": _array,
    "loc": lambda c: MlirAttribute(optional_location(c) or "loc(unknown)"),
    **dict.fromkeys(("affine_map", "affine_set", "strided", "opaque", *TYPED), _verbatim),
}
"""What reads an attribute that starts with a mark or a word."""
ALONE = ("true", "false", "unit")


# --- Locations -----------------------------------------------------------------------------------------------------


def optional_location(c: Cursor) -> str:
    """`loc(...)`, if it is there; nothing for one that is not known."""
    if c.word != "loc" or not _OPEN.match(c.text, c.end):
        return ""
    c.advance()
    c.advance()
    inner = _place(c)
    c.expect(")")
    return "" if inner == "unknown" else f"loc({inner})"


_OPEN = re.compile(r"\s*\(", re.ASCII)


def _place(c: Cursor) -> str:
    """The text of a location in any form: also ranges of a file, and fused ones with a remark."""
    if c.kind == "hash":
        at, found = c.start, c.attribute().text
        if not found.startswith("loc("):
            c.fail("expected a location, as `#loc1 = loc(...)` defines one", at)
        return found[4:-1]
    if c.accept("unknown"):
        return "unknown"
    if c.accept("callsite"):
        c.expect("(")
        callee = _place(c)
        c.expect("at", " between the callee's location and the caller's")
        caller = _place(c)
        c.expect(")")
        return f"callsite({callee} at {caller})"
    if c.accept("fused"):
        remark = ""
        if c.word == "<":
            c.advance()
            remark = f"<{c.attribute().text}>"
            c.expect(">")
        return f"fused{remark}[{', '.join(c.listed('[', lambda: _place(c)))}]"
    return _file(c)


def _file(c: Cursor) -> str:
    """`"name"`, `"name"(location)`, `"file":1:2`, `"file":1:2 to 3:4`."""
    if c.kind != "string":
        c.fail('expected a location: "file":line:column, "name", callsite(...), fused[...] or unknown')
    text = escaped(c.string())
    if c.word == "(":
        c.advance()
        text += f"({_place(c)})"
        c.expect(")")
    while c.accept(":"):
        text += f":{c.integer()}"
    if c.accept("to"):
        line = "" if c.word == ":" else c.integer()
        c.expect(":")
        text += f" to {line}:{c.integer()}"
    return text
