"""Small texts that stand for much: each made about as long as asked, under a name that says what is large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

HEAD, FOOT = "func.func @f(%p: !pto.ptr<f32>, %n: index) attributes {pto.entry} {\n", "return\n}\n"
TILE = "!pto.tile_buf<vec, 16x8xf32>"
KERNEL = ".kernel k\n.arg %m : !pto.memref<1000x64xf32>\n.arg %n : index\n%t = alloc_tile : !pto.tile<16x8xf32>\n"

DOUBLED = {
    "tuples": ("!", "i1", "tuple<!a{}, !a{}>"),
    "signatures": ("!", "i1", "(!a{}, !a{}) -> !a{}"),
    "layouts": ("#", "1", "memref<1xi1, #a{}, #a{}>"),
    "arrays": ("#", "1", "[#a{}, #a{}]"),
    "dictionaries": ("#", "1", "{{x = #a{}, y = #a{}}}"),
    "maps": ("#", "affine_map<(d0) -> (d0)>", "[#a{}, #a{}]"),
    "fused locations": ("#", 'loc("f")', "loc(fused[#a{}, #a{}])"),
    "call sites": ("#", 'loc("f")', "loc(callsite(#a{} at #a{}))"),
}
"""Aliases of two of the alias before: the mark, the first one, and the others."""

PIECES: dict[str, tuple[str, str, str, str]] = {
    # a part that is repeated, the text before it, another repeated part, and the text behind it
    "uses of a long type": ("i1, ", "!a = tuple<", "!a, ", "i1>\nfunc.func @f(|!a)\n"),
    "uses of a long array": ("1, ", "#a = [", "#a, ", '1]\n"a.b"() {x = [|#a]} : () -> ()\n'),
    "an unknown op with a long alias": ("1, ", "#a = [", "#a ", "1]\nfoo.bar |\n"),
    "pointers to a long type": ("i1, ", "!a = tuple<", "!pto.ptr<!a>, ", 'i1>\n"a.b"() : () -> (|i1)\n'),
    "locations": ("f", '#a = loc("', '"a.b"() : () -> () loc(#a)\n', '")\n|'),
    "types that are not written": ("i1, ", f'{HEAD}%a = "a.b"() : () -> tuple<', "pto.zz %a, %a\n", f"i1>\n|{FOOT}"),
    "errors with a long type": (
        "i1, ", f'{HEAD}%a = "a.b"() : () -> tuple<', '"a.b"(%a) : (i1) -> ()\n', f"i1>\n|{FOOT}"
    ),
    "nested pointers": ("i1, ", f"func.func @f(%a: {'!pto.ptr<' * 150}tuple<", "", f"i1>{'>' * 150}) {{\n|{FOOT}"),
    "colons": ("%a, ", "foo.bar ins(", ": ", "%a |)\n"),
    "operands on lines": ("%a,\n", "foo.bar ", "", "%a|\n"),
    "regions": ("{^a:\n} ", "foo.bar ", "", "|\n"),
    "regions on a line": ("{^a:}, ", '"a.b"() (', "", "{|}) : () -> ()\n"),
    "wide numbers": ("-1, ", "%a = arith.constant dense<[", "", "-1]> : tensor<{}xi99999>|\n"),
    "escapes": ("\\FF", '"a.b"() {x = "', "", '"} : () -> ()|\n'),
    "errors on a line": ("pto.tadd ins(%a : i1 i1) ", HEAD, "", f"|{FOOT}"),
    "comments": ("//\n", "", "", "|"),
}  # fmt: skip


def doubled(mark: str, first: str, later: str, size: int) -> str:
    """Aliases that double."""
    lines, length = [f"{mark}a0 = {first}\n"], 0
    while length < size:
        before = [len(lines) - 1] * later.count("{}")
        lines.append(f"{mark}a{len(lines)} = {later.format(*before)}\n")
        length += len(lines[-1])
    return "".join(lines)


def numbered(line: str, size: int, before: str = "", behind: str = "") -> str:
    """A line with `@` for its number and `~` for that of the line before, again and again."""
    count = max(2, (size - len(before) - len(behind)) // len(line))
    lines = (line.replace("@", str(number)).replace("~", str(number - 1)) for number in range(1, count))
    return before + "".join(lines) + behind


def calls(
    size: int, leaf: str, call: str = "call @g@() : () -> ()\n", function: str = "func.func @g@() {|return\n}\n"
) -> str:
    """Functions that call the next one some times."""
    many = max(2, size // 14 // len(call))
    texts = [
        function.replace("@g@", f"@g{k}").replace("|", f"\n{call.replace('@g@', f'@g{k + 1}') * many}")
        for k in range(12)
    ]
    return "".join([*texts, function.replace("@g@", "@g12").replace("|", f"\n{leaf}")])


def mlir(size: int) -> Iterator[tuple[str, str]]:
    """Names and texts in MLIR."""
    for name, row in DOUBLED.items():
        yield f"doubled {name}", doubled(*row, size)
    for name, (part, before, other, behind) in PIECES.items():
        rest = size - len(before) - len(behind)
        first, last = behind.split("|")
        count = max(1, rest // (2 if other else 1) // len(part))
        between = other * (rest // 2 // len(other)) if other else ""
        yield name, f"{before}{part * count}{first.replace('{}', str(count + 1))}{between}{last}"
    yield "many results", "%a:999999999 = foo.bar\n"
    yield "many results of pto", "%a:999999999 = pto.zz\n"
    yield "results on lines", numbered("%a@:1000 = foo.bar\n", size)
    yield "new names", numbered("%a@, ", size, "foo.bar ", "\n")
    yield "names that are not defined", numbered("pto.zz %a@\n", size, HEAD, FOOT)
    yield (
        "sums",
        numbered("%x@ = arith.addi %x~, %x~ : index\n", size, f"{HEAD}%x0 = arith.addi %n, %n : index\n", FOOT),
    )
    yield (
        "products",
        numbered("%x@ = arith.muli %x~, %x~ : index\n", size, f"{HEAD}%x0 = arith.constant 3 : index\n", FOOT),
    )
    yield (
        "pointers",
        numbered("%p@ = pto.addptr %p~, %n : !pto.ptr<f32> -> !pto.ptr<f32>\n", size, HEAD.replace("%p", "%p0"), FOOT),
    )
    yield "calls", calls(size, "")
    yield "calls with tiles", calls(size // 2, numbered(f"%t@ = pto.alloc_tile : {TILE}\n", size // 2))
    yield "operations that are not known", numbered("pto.zz@\n", size // 4, HEAD, FOOT)
    yield (
        "rounds of a loop",
        (
            f"{HEAD}%a = arith.constant 0 : index\n%b = arith.constant 4611686018427387904 : index\n"
            f"scf.for %i = %a to %b step %n {{\n%t = pto.alloc_tile : {TILE}\n"
            + numbered(f"pto.tadd ins(%t, %t : {TILE}, {TILE}) outs(%t : {TILE})\n", size)
            + f"}}\n{FOOT}"
        ),
    )


def plain(size: int) -> Iterator[tuple[str, str]]:
    """Names and texts in PTO-AS."""
    ranks = f".kernel k\n.arg %m : !pto.memref<{'1x' * 230}f32>\n%t = alloc_tile : !pto.tile<1x1xf32>\n"
    yield "dims", numbered("tload %t, %m[]\n", size, ranks)
    yield "digits", f"{KERNEL}.const %c = {'9' * size} : index\n"
    yield "exponents", numbered(".const %c@ = 1e999999999 : f32\n", size, KERNEL)
    yield "constants", numbered(".const %c@ = 0xFFFFFFFF : f32\n", size, KERNEL)
    yield "long types", numbered(f"zzz {'%m,' * 20}%m\n", size, f".kernel k\n.arg %m : !pto.zz<{'a' * 480}>\n")
    yield "sums", numbered("%x@ = arith.addi %x~, %x~ : index\n", size, f"{KERNEL}%x0 = arith.addi %n, %n : index\n")
    yield "values that are not declared", numbered("z %m\n", size, ".kernel k\n")
    yield "blocks", numbered("tload %t, %m[]\n", size, KERNEL)
    yield "calls", calls(size, "barrier PIPE_ALL\n", "call @g@()\n", ".kernel @g@|").replace(".kernel @", ".kernel ")
    yield "bodies", numbered("for %i@ = 0 to 1 step 1 {\n", size, KERNEL)
    yield (
        "rounds of a loop",
        numbered("tadd %t, %t, %t\n", size, f"{KERNEL}for %i = 0 to 4611686018427387904 step 1 {{\n", "}\n"),
    )


def hostile(sizes: Sequence[int]) -> Iterator[tuple[str, str, str]]:
    """Names, names of files and texts."""
    for size in sizes:
        yield from ((f"{name}, {size}", "k.pto", text) for name, text in mlir(size))
        yield from ((f"{name}, {size}", "k.ptoas", text) for name, text in plain(size))
