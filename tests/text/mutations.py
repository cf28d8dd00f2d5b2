"""Malformed texts: mutated ones, and extreme ones."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence

TOKEN = re.compile(rb'"[^"\n]*"|[%!#@^]?[\w.$]+|->|\s+|.', re.DOTALL)
MARKS = b'<>(){}[]%!#^@:,="-?x0/\\ \n'
NESTS = (b"(", b"<", b"[", b"{", b"!pto.ptr<", b"-", b"tuple<", b"loc(", b"[[", b"({", b"// ")
NUMBERS = (b"-1", b"0x", b"1e999", b"99999999999999999999", b"9" * 5000, b"0x" + b"F" * 400, b"4294967296x" * 9)
BYTES = (
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r",
    b"\x0b",
    b"\xe2\x80\xa8",
    b"\xf0\x9f\x8e\x89",
)

Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def flip(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Change one bit."""
    at = rng.randrange(len(text))
    return text[:at] + bytes([text[at] ^ 1 << rng.randrange(8)]) + text[at + 1 :]


def mark(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Put a punctuation mark over a character."""
    at = rng.randrange(len(text))
    return text[:at] + bytes([rng.choice(MARKS)]) + text[at + 1 :]


def delete(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Take a piece out."""
    at = rng.randrange(len(text))
    return text[:at] + text[at + rng.randint(1, 40) :]


def truncate(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Truncate the text."""
    return text[: rng.randrange(len(text)) + 1]


def splice(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Put a piece of another text in."""
    other = rng.choice(others) or b" "
    start = rng.randrange(len(other))
    at = rng.randrange(len(text))
    return text[:at] + other[start : start + rng.randint(1, 120)] + text[at:]


def swap(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Change two tokens for each other."""
    tokens = TOKEN.findall(text)
    one, two = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    tokens[one], tokens[two] = tokens[two], tokens[one]
    return b"".join(tokens)


def drop(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Remove or repeat a token."""
    tokens = TOKEN.findall(text)
    at = rng.randrange(len(tokens))
    return b"".join([*tokens[:at], *([tokens[at]] * rng.choice((0, 2))), *tokens[at + 1 :]])


def nest(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Unclosed brackets."""
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(NESTS) * rng.choice((2, 30, 180, 10_000)) + text[at:]


def number(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Put a number that is out of the ordinary where a number was."""
    found = list(re.finditer(rb"\d+", text))
    if not found:
        return text + rng.choice(NUMBERS)
    place = rng.choice(found)
    return text[: place.start()] + rng.choice(NUMBERS) + text[place.end() :]


def foreign(rng: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Put bytes in that are not text, or no ordinary text."""
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(BYTES) + text[at:]


MUTATIONS: tuple[Mutation, ...] = (flip, mark, delete, truncate, splice, swap, drop, nest, number, foreign)


def mutated(seed: int, texts: Sequence[bytes]) -> bytes:
    """One of some texts after a few mutations; the same for the same seed."""
    rng = random.Random(seed)
    text = rng.choice(texts)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(MUTATIONS)(rng, text or b" ", texts)
    return text


def monsters(line: int) -> Iterator[tuple[str, bytes]]:
    """Names and texts that are much too deep, too long (lines of that many bytes) or too large."""
    for pair in ("()", "[]", "{}", "<>"):
        for head in ("", "func.func @f", '"a.b"() {x = ', "func.func @f(%a: tuple", "pto.tadd ins", "%a = pto.new "):
            yield f"deep {pair} {head}", f"{head}{pair[0] * 10_000}{pair[1] * 10_000}".encode()
    for body in ("module {", "scf.if %c {", '"a.b"() ({', "pto.section.cube {", "pto.new {\n", "func.func @f() {"):
        yield f"deep {body}", (body * 10_000 + "}" * 10_000).encode()
    for body in ("!pto.ptr<", "tuple<", "loc(callsite(", "affine_map<(d0) -> (", "#a<b<"):
        yield f"deep {body}", f"func.func @f(%a: {body * 10_000}".encode()
    lines = 60_000
    for text in (b" ", b"a", b"9", b"// ", b"#", b".", b"\r", b"/", b"4x", b"-", b"\0", b"(", b"=", b"\xff", b"<-"):
        yield f"long: {text!r}", b"module { " + text * (line // len(text))
    yield "long: a string", b'module { "' + b"a" * line
    for text in (
        b"\n", b"//\n", b" \n\n", b"x // y\n", b"# a\n", b"pto.a ", b"pto.a\n", b"pto.a {} ", b"pto.a @b\n", b"%a, ",
        b"!a ", b"^a:", b'"a', b'"a" ', b'"\\', b"() ", b"pto.a {pto.a\n}", b"^a:\n", b"!a = i1\n", b"#a = 1\n", b"{} ",
    ):  # fmt: skip
        yield f"many: {text!r}", b"module { " + text * (lines // len(text))
        yield f"many: outside {text!r}", text * (lines // len(text))
    for name, kind in {
        "tile": "!pto.tile_buf<vec, 99999999999x99999999999xf32>", "dense": "dense<0> : tensor<99999999999xi8>",
        "vector": "vector<99999999999xf32>", "width": "i16777216", "ranks": f"memref<{'4x' * 100_000}f32>",
        "fields": "tuple<" + "i1, " * 20_000 + "i1>", "tiles": f"!pto.tile<{'1x' * 100_000}f32>",
    }.items():  # fmt: skip
        yield f"large: {name}", f'"a.b"() {{x = {kind}}} : () -> ()'.encode()
    yield "large: results", b'%a:99999999999 = "a.b"() : () -> ()'
    yield "large: a result", b'%a = "a.b"() : () -> i1 "a.c"(%a#99999999999) : (i1) -> ()'
