"""Functions of the vector unit that are executed, against loops over lanes in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptokit.cxx.record import ArrayArgument, ScalarArgument, record
from ptokit.witness.headers import Checkout
from ptokit.witness.intrinsics import TABLE
from tests.witness.accepted_values import ACCEPTED
from tests.witness.cases import APART, VARIANTS, Case, addresses, cases
from tests.witness.compare import Assumed, Touch
from tests.witness.emitted import TileText
from tests.witness.judged import Judged, differences
from tests.witness.values import ValueWitness, executed, missing

HERE = Path(__file__).parent
SIZE = 0x8000
D, A, B, C = 0, 0x2000, 0x4000, 0x6000
"""Where operands begin."""
Memory = np.ndarray[Any, np.dtype[np.uint8]]


def given(number: int) -> Memory:
    """Floats, some of them ties and extremes, in A and B; numbers of all bits elsewhere."""
    rng = np.random.default_rng(number)
    memory = rng.integers(0, 256, SIZE, np.uint8)
    values = rng.integers(-20, 21, 0x1000) / 2
    values[::37] = rng.choice(
        [2147483648.0, -3e9, 1e20, 65519.0, 65520.0, 2049.0, -0.0, np.inf, np.nan], len(values[::37])
    )
    memory[A:C] = values.astype(np.float32).view(np.uint8)
    return memory


def cells(start: int, size: int, lanes: Sequence[tuple[int, int]], block: int, repeat: int) -> np.ndarray[Any, Any]:
    """The addresses of lanes: blocks of 32 bytes at a stride, and repeats at another."""
    return np.array([start + r * repeat * 32 + lane * size // 32 * block * 32 + lane * size % 32 for r, lane in lanes])


def read(memory: Memory, places: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    return np.array([memory[p : p + np.dtype(kind).itemsize].view(kind)[0] for p in places], kind)


def write(memory: Memory, places: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
    for place, value in zip(places, values, strict=True):
        memory[place : place + values.itemsize] = np.frombuffer(value.tobytes(), np.uint8)


def masked(bits: int, width: int, repeats: int) -> list[tuple[int, int]]:
    return [(r, lane) for r in range(repeats) for lane in range(width) if bits >> lane & 1]


def counted(count: int, width: int) -> list[tuple[int, int]]:
    return [divmod(number, width) for number in range(count)]


Probe = tuple[str, Callable[[Memory], None]]
PROBES: dict[str, Probe] = {}


def probe(name: str, text: str) -> Callable[[Callable[[Memory], None]], Callable[[Memory], None]]:
    """A test of its name: the text is run over a memory, and the function says what it makes of it."""

    def add(expected: Callable[[Memory], None]) -> Callable[[Memory], None]:
        PROBES[name] = text, expected
        return expected

    return add


def at(kind: str, place: int) -> str:
    """A pointer of a kind."""
    return f"({kind}*)(ub + {place})"


MASK = 0xF00000000000801B
NORM = f"set_mask_norm(); set_vector_mask(0, {MASK:#x}ull);"


@probe(
    "a mask and strides", f"{NORM} vadd({at('float', D)}, {at('float', A)}, {at('float', B)}, 3, 1, 2, 1, 9, 16, 8);"
)
def _(memory: Memory) -> None:
    lanes = masked(MASK, 64, 3)
    a, b = read(memory, cells(A, 4, lanes, 2, 16), "f4"), read(memory, cells(B, 4, lanes, 1, 8), "f4")
    write(memory, cells(D, 4, lanes, 1, 9), a + b)


@probe(
    "a counter with a tail",
    f"for (int i = 0; i < 1024; ++i) ((uint16_t*)(ub + {A}))[i] &= 0xbfff, ((uint16_t*)(ub + {B}))[i] &= 0xbfff; "
    f"set_mask_count(); set_vector_mask(0, 301); "
    f"vmul({at('half', D)}, {at('half', A)}, {at('half', B)}, 0, 1, 1, 1, 8, 8, 10);",
)
def _(memory: Memory) -> None:
    for start in (A, B):  # no NaN: its bits are not stated
        memory[start : start + 2048].view("u2")[:] &= 0xBFFF
    lanes = counted(301, 128)
    a, b = read(memory, cells(A, 2, lanes, 1, 8), "f2"), read(memory, cells(B, 2, lanes, 1, 10), "f2")
    product = a.astype("f4") * b.astype("f4")
    write(memory, cells(D, 2, lanes, 1, 8), product.astype("f2"))


@probe(
    "both halves of a mask",
    f"set_mask_norm(); set_vector_mask(0x8000000000000001ull, 2); "
    f"vnot({at('uint16_t', D)}, {at('uint16_t', C)}, 2, 1, 1, 8, 8);",
)
def _(memory: Memory) -> None:
    lanes = masked(1 << 127 | 1 << 64 | 2, 128, 2)
    write(memory, cells(D, 2, lanes, 1, 8), ~read(memory, cells(C, 2, lanes, 1, 8), "u2"))


@probe(
    "a repeat is read before it is written, and the one before it is seen",
    f"set_mask_norm(); set_vector_mask(-1, -1); vadds({at('int', C + 32)}, {at('int', C)}, 5, 3, 1, 1, 8, 8);",
)
def _(memory: Memory) -> None:
    for step in range(3):
        memory[C + 32 + 256 * step :][:256] = (memory[C + 256 * step :][:256].view("i4") + np.int32(5)).view("u1")


@probe(
    "repeats on one place add up",
    f"set_mask_norm(); set_vector_mask(0, 255); "
    f"vadd({at('int16_t', D)}, {at('int16_t', D)}, {at('int16_t', C)}, 4, 1, 1, 1, 0, 0, 1);",
)
def _(memory: Memory) -> None:
    for step in range(4):
        memory[D:16] = (memory[D:16].view("i2") + memory[C + 32 * step :][:16].view("i2")).view("u1")


@probe("256 repeats are none", f"{NORM} vabs({at('float', D)}, {at('float', A)}, 256, 1, 1, 8, 8);")
def _(memory: Memory) -> None:
    pass


@probe("wider results", f"{NORM} vconv_f162f32({at('float', D)}, {at('half', C)}, 3, 1, 1, 8, 4);")
def _(memory: Memory) -> None:
    lanes = masked(MASK, 64, 3)
    with np.errstate(invalid="ignore"):
        write(memory, cells(D, 4, lanes, 1, 8), read(memory, cells(C, 2, lanes, 1, 4), "f2").astype("f4"))


def rounded(values: np.ndarray[Any, Any], mode: str) -> np.ndarray[Any, Any]:
    away = np.copysign(np.floor(np.abs(values) + 0.5), values)
    return {"r": np.rint, "f": np.floor, "c": np.ceil, "z": np.trunc, "a": lambda _: away}[mode](values)


def integers(mode: str) -> Callable[[Memory], None]:
    def expected(memory: Memory) -> None:
        x = rounded(memory[A : A + 0x800].view("f4").astype("f8"), mode)
        memory[D : D + 0x800] = np.nan_to_num(np.clip(x, -(2.0**31), 2.0**31 - 1), nan=0).astype("i4").view("u1")

    return expected


for rounding in "rafcz":
    call = f"vconv_f322s32{rounding}({at('int', D)}, {at('float', A)}, 8, 1, 1, 8, 8);"
    probe(f"rounding {rounding}", f"set_mask_norm(); set_vector_mask(-1, -1); {call}")(integers(rounding))


@probe(
    "what is inexact becomes odd",
    f"set_mask_norm(); set_vector_mask(-1, -1); vconv_f322f16o({at('half', D)}, {at('float', A)}, 8, 1, 1, 4, 8);",
)
def _(memory: Memory) -> None:
    x = memory[A : A + 0x800].view("f4")
    x = np.where(np.isnan(x), x, np.clip(x, -65504, 65504))  # as the control register saturates
    with np.errstate(over="ignore"):
        near = x.astype("f2")
        low = np.where(np.abs(near.astype("f4")) > np.abs(x), np.nextafter(near, np.float16(0)), near)
    odd = np.where((low.astype("f4") != x) & ~np.isnan(x), (low.view("u2") | 1).astype("u2"), low.view("u2"))
    memory[D : D + 0x400] = np.where(np.isnan(x), np.uint16(0x7E00), odd).astype("u2").view("u1")


for number, bit in enumerate(("sbitset0(get_ctrl(), 59)", "sbitset1(get_ctrl(), 59)")):

    def narrowed(memory: Memory, wraps: int = number) -> None:
        x = memory[C : C + 0x800].view("i4")
        found = x.astype("i2") if wraps else np.clip(x, -32768, 32767).astype("i2")
        memory[D : D + 0x400] = found.view("u1")

    call = f"vconv_s322s16({at('int16_t', D)}, {at('int', C)}, 8, 1, 1, 4, 8); set_ctrl(sbitset0(get_ctrl(), 59));"
    text = f"set_ctrl({bit}); set_mask_norm(); set_vector_mask(-1, -1); {call}"
    probe(f"integers {'wrap' if number else 'saturate'}", text)(narrowed)


def tree(values: list[Any]) -> Any:
    """Neighbours first; what is not there is None."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [a if b is None else b if a is None else np.float32(a + b) for a, b in pairs]
    return values[0]


def sums(part: int, stride: int) -> Callable[[Memory], None]:
    def expected(memory: Memory) -> None:
        for step in range(2):
            row = memory[A + 256 * step :][:256].view("f4")
            kept = [row[lane] if MASK >> lane & 1 else None for lane in range(64)]
            for first in range(0, 64, part):
                if (found := tree(kept[first : first + part])) is not None:
                    write(memory, np.array([D + step * stride + first // part * 4]), np.array([found], "f4"))

    return expected


probe("a sum of lanes", f"{NORM} vcadd({at('float', D)}, {at('float', A)}, 2, 3, 1, 8, 0);")(sums(64, 12))
probe("sums of blocks", f"{NORM} vcgadd({at('float', D)}, {at('float', A)}, 2, 1, 1, 8);")(sums(8, 32))
probe("sums of pairs", f"{NORM} vcpadd({at('float', D)}, {at('float', A)}, 2, 1, 1, 8);")(sums(2, 128))


@probe(
    "the first of equal maxima and its place",
    f"set_mask_count(); set_vector_mask(0, 100); vcmax({at('float', D)}, {at('float', B)}, 0, 1, 1, 8, VALUE_INDEX);",
)
def _(memory: Memory) -> None:
    for step, count in enumerate((64, 36)):
        row = memory[B + 256 * step :][: 4 * count].view("f4")
        best = 0
        for lane in range(count):
            best = lane if row[lane] > row[best] else best
        write(memory, np.array([D + 8 * step]), row[best : best + 1])
        write(memory, np.array([D + 8 * step + 4]), np.array([best], "u4"))


@probe(
    "a comparison writes bits of whole repeats",
    f"{NORM} vcmpv_ge({at('uint8_t', D)}, {at('float', A)}, {at('float', B)}, 3, 1, 1, 1, 8, 8, 8);",
)
def _(memory: Memory) -> None:
    holds = memory[A : A + 768].view("f4") >= memory[B : B + 768].view("f4")
    memory[D : D + 24] = np.packbits(holds, bitorder="little")


@probe(
    "a mask in a register selects",
    f"set_mask_norm(); set_vector_mask(-1, -1); vcmp_lt({at('float', A)}, {at('float', B)}, 1, 1, 1, 1, 8, 8, 8); "
    f"vsel({at('float', D)}, {at('float', A)}, {at('float', B)}, 2, 1, 1, 1, 8, 8, 8, 0);",
)
def _(memory: Memory) -> None:
    takes = memory[A : A + 256].view("f4") < memory[B : B + 256].view("f4")
    for step in range(2):
        a, b = (memory[start + 256 * step :][:256].view("f4") for start in (A, B))
        memory[D + 256 * step :][:256] = np.where(takes, a, b).view("u1")


@probe(
    "masks in memory select a scalar",
    f"set_mask_count(); set_vector_mask(0, 75); set_cmpmask({at('float', B)}); "
    f"vsel({at('float', D)}, {at('float', A)}, {at('uint8_t', C)}, 1, 1, 1, 1, 8, 8, 8, 1);",
)
def _(memory: Memory) -> None:
    takes = np.unpackbits(memory[C : C + 10], bitorder="little")[:75] == 1
    chosen = np.where(takes[:, None], memory[A : A + 300].reshape(-1, 4), memory[B : B + 4])
    memory[D : D + 300] = chosen.ravel()


@probe(
    "an address of masks selects",
    f"set_mask_count(); set_vector_mask(0, 75); *{at('uint32_t', D + 0x1000)} = (uint32_t)(uint64_t)(ub + {C}); "
    f"set_cmpmask({at('float', D + 0x1000)}); "
    f"vsel({at('float', D)}, {at('float', A)}, {at('float', B)}, 1, 1, 1, 1, 8, 8, 8, 2);",
)
def _(memory: Memory) -> None:
    takes = np.unpackbits(memory[C : C + 10], bitorder="little")[:75] == 1
    chosen = np.where(takes[:, None], memory[A : A + 300].reshape(-1, 4), memory[B : B + 300].reshape(-1, 4))
    memory[D : D + 300] = chosen.ravel()
    memory[D + 0x1000 :][:4] = 0


@probe(
    "a counter is that of each repeat of a copy",
    f"set_mask_count(); set_vector_mask(0, 70); vcopy({at('uint32_t', D)}, {at('uint32_t', C)}, 3, 1, 1, 10, 12);",
)
def _(memory: Memory) -> None:
    for step in range(3):
        memory[D + 320 * step :][:280] = memory[C + 384 * step :][:280].copy()


@probe("elements fill blocks", f"vbrcb({at('uint16_t', D)}, {at('uint16_t', C)}, 2, 17, 2);")
def _(memory: Memory) -> None:
    for step in range(2):
        for number in range(8):
            value = memory[C + (8 * step + number) * 2 :][:2]
            memory[D + (17 * step + 2 * number) * 32 :][:32] = np.tile(value, 16)


@probe(
    "a pattern of lanes",
    f"set_mask_count(); set_vector_mask(0, 70); "
    f"vreducev2({at('uint32_t', D)}, {at('uint32_t', C)}, {at('uint32_t', C)}, 3, 1, 4, 10, 0);",
)
def _(memory: Memory) -> None:
    rows = [memory[C + 320 * step :][:280].view("u4")[1::4] for step in range(3)]
    kept = np.concatenate(rows)
    memory[D : D + kept.nbytes] = kept.view("u1")


@probe(
    "offsets in bytes",
    f"set_mask_count(); set_vector_mask(0, 70); "
    f"for (int i = 0; i < 70; ++i) ((uint32_t*)(ub + {B}))[i] = 4 * (i * i % 90); "
    f"vgather({at('uint32_t', D)}, {at('uint32_t', B)}, (uint32_t)(uint64_t)(ub + {C}), 8, 1);",
)
def _(memory: Memory) -> None:
    offsets = np.arange(70) ** 2 % 90
    memory[B : B + 280] = (4 * offsets).astype("u4").view("u1")
    memory[D : D + 280] = memory[C : C + 360].view("u4")[offsets].view("u1")


ROWS = (
    "uint64_t to[16], from[16]; "
    "for (int i = 0; i < 16; ++i) to[i] = (uint64_t)(ub + {0} + 32 * i), from[i] = (uint64_t)(ub + {1} + 64 * i); "
)
REGISTERS = (
    "set_va_reg_sb(VA0, to); set_va_reg_sb(VA1, to + 8); set_va_reg_sb(VA2, from); set_va_reg_sb(VA3, from + 8); "
)


def transposed(kind: str) -> Callable[[Memory], None]:
    def expected(memory: Memory) -> None:
        rows = memory[C : C + 1024].reshape(16, 64)[:, :32].copy().view(kind)
        memory[D : D + 512] = np.ascontiguousarray(rows.T).view("u1").ravel()

    return expected


for bits, kind in (("b16", "u2"), ("b32", "u4")):
    text = ROWS.format(D, C) + REGISTERS + f"scatter_vnchwconv_{bits}(VA0, VA2, 1, 0, 0);"
    probe(f"a transpose of {bits}", text)(transposed(kind))


@probe(
    "a transpose of bytes takes halves",
    ROWS.format(D, C) + REGISTERS + "scatter_vnchwconv_b8(VA0, VA2, 2, 16, 1, true, false);",
)
def _(memory: Memory) -> None:
    for step in range(2):
        rows = memory[C : C + 1024 + 64].copy()[32 * step :][:1024].reshape(16, 64)[:, :16]
        memory[D + 512 * step :][:512].reshape(16, 32)[:, 16:] = rows.T


@probe(
    "scores are sorted with their numbers", f"vbitsort({at('float', D)}, {at('float', B + 4)}, {at('uint32_t', C)}, 2);"
)
def _(memory: Memory) -> None:
    for step in range(2):
        scores, numbers = memory[B + 4 + 128 * step :][:128].view("f4"), memory[C + 128 * step :][:128].view("u4")
        order = sorted(range(32), key=lambda k: -np.nan_to_num(scores[k], nan=3.5e38, posinf=3.45e38))
        pairs = np.stack([scores[order].view("u4"), numbers[order]], axis=1)
        memory[D + 256 * step :][:256] = pairs.ravel().view("u1")


@probe(
    "a merge stops when a list ends",
    f"for (int k = 0; k < 2; ++k) "
    f"for (int i = 0; i < 8; ++i) ((float*)(ub + {C}))[k * 16 + 2 * i] = k ? 5 - i : 9 - 3 * i; "
    f"float* lists[2] = {{{at('float', C)}, {at('float', C + 64)}}}; "
    f"vmrgsort4({at('float', D)}, lists, 0x60003ull, 0x1301); *(uint64_t*)(ub + {B}) = get_vms4_sr();",
)
def _(memory: Memory) -> None:
    for k in range(2):
        memory[C + 64 * k :][:64].view("f4")[::2] = [5 - i if k else 9 - 3 * i for i in range(8)]
    pairs = memory[C : C + 128].reshape(2, 8, 8)
    merged = [pairs[0, 0], pairs[0, 1], pairs[1, 0], pairs[1, 1], pairs[0, 2]]
    memory[D : D + 40] = np.concatenate(merged)
    memory[B : B + 8] = np.array([3 | 2 << 16], "u8").view("u1")


@probe(
    "rows are padded to a block",
    "set_mov_pad_val(0x11223344); "
    f"copy_gm_to_ubuf_align_b32({at('float', D)}, {at('float', A)}, 0, 3, 12, 1, 2, 4, 1);",
)
def _(memory: Memory) -> None:
    for row in range(3):
        pad = np.array([0x11223344], "u4").view("u1")
        memory[D + 64 * row :][:24] = np.concatenate([pad, memory[A + 16 * row :][:12], pad, pad])


@pytest.fixture(scope="module")
def witness() -> Iterator[ValueWitness]:
    with ValueWitness(Checkout.at(HERE / "checkout")) as witness:
        yield witness


@pytest.fixture(scope="module")
def results(witness: ValueWitness, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Memory]:
    """What each text makes of its memory."""
    text, calls = "#include <pto/pto-inst.hpp>\nusing namespace pto;\n", ""
    for number, (body, _) in enumerate(PROBES.values()):
        text += (
            f"__global__ AICORE void probe{number}(char* in, char* out) {{\n  char* ub = (char*)ptokit::base_of(0);\n"
            f"  std::memcpy(ub, in, {SIZE});\n  {body}\n  std::memcpy(out, ub, {SIZE});\n}}\n"
        )
        calls += f"  probe{number}<<<1, nullptr, stream>>>(in + {number * SIZE}, out + {number * SIZE});\n"
    file = tmp_path_factory.mktemp("values") / "probes.cpp"
    file.write_text(f'{text}extern "C" void all(char* in, char* out, void* stream) {{\n{calls}}}\n')
    before = np.concatenate([given(number) for number in range(len(PROBES))])
    after = np.zeros_like(before)
    with witness.compile(file, "a2a3") as build:
        arguments = [
            ArrayArgument("in", before),
            ArrayArgument("out", after, True),
            ScalarArgument("stream", "int64", None),
        ]
        recording = record(build, "all", arguments)
    assert not recording.problems and not missing(recording)
    return dict(zip(PROBES, after.reshape(len(PROBES), SIZE), strict=True))


@pytest.mark.parametrize("name", PROBES)
def test_a_function_does_what_a_loop_over_lanes_does(results: dict[str, Memory], name: str) -> None:
    before = given(list(PROBES).index(name))
    expected = before.copy()
    with np.errstate(all="ignore"):
        PROBES[name][1](expected)
    found = results[name]
    if "address" in name:
        found[D + 0x1000 :][:4] = 0  # of the host
    assert np.flatnonzero(found != expected).tolist() == []
    assert (expected == before).all() == ("none" in name), "the call changes something"


def test_what_is_not_executed_is_named(witness: ValueWitness, tmp_path: Path) -> None:
    file = tmp_path / "half.cpp"
    file.write_text(
        "#include <pto/pto-inst.hpp>\n__global__ AICORE void run(int* in) {\n  char* ub = (char*)ptokit::base_of(0);\n"
        "  vconv_s42f16((half*)ub, (char*)ub, 1, 1, 1, 8, 2);\n  set_flag(PIPE_V, PIPE_S, 0);\n}\n"
        'extern "C" void all(int* in, void* stream) { run<<<1, nullptr, stream>>>(in); }\n'
    )
    with witness.compile(file, "a2a3") as build:
        arguments = [ArrayArgument("in", np.zeros(8, "int32")), ScalarArgument("stream", "int64", None)]
        assert missing(record(build, "all", arguments)) == {"vconv_s42f16"}
    of_v = {name for name, row in TABLE.items() if row.pipe == "V"}
    assert len(executed() & of_v) > 0.9 * len(of_v) and not executed() - TABLE.keys()


# --- the comparison


PLAIN = TileText("float32", 4, 16, (4, 10))


def judged(case: Case, change: Callable[[np.ndarray[Any, Any]], None]) -> list[str]:
    """The kinds of differences, where the headers make something else of the result 1."""
    given, said = np.zeros(case.nbytes, "u1"), np.zeros(case.nbytes, "u1")
    said.view("f4")[: 4 * 16].reshape(4, 16)[:, :10] = 1
    seen = said.copy()
    change(seen.view("f4").reshape(-1, 16))
    rows = np.arange(4)[:, None] * 64 + [0, 40]
    touches = Touch("dst", "write", "UB", rows, False), Touch("dst", "write", "UB", rows[3:] + np.array([40, 48]), True)
    assumed = [Assumed("tadd", frozenset("V"), frozenset(), touches)]
    return [kind for kind, _ in differences(case, given, seen, said, assumed)]


def changed(row: int, column: int, value: float) -> Callable[[np.ndarray[Any, Any]], None]:
    return lambda lanes: lanes.__setitem__((row, column), value)


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (lambda lanes: None, []),
        (changed(1, 2, 1.0000001), ["rounding"]),
        (changed(1, 2, 2), ["value"]),
        (changed(1, 2, np.inf), ["NaN or infinity"]),
        (changed(1, 11, 5), ["beside written"]),
        (changed(3, 11, 5), []),
        (changed(APART // 64 + 1, 2, 5), ["source written"]),
    ],
)
def test_a_difference_is_of_a_kind(change: Callable[[np.ndarray[Any, Any]], None], kinds: list[str]) -> None:
    tiles = {"dst": PLAIN, "src": PLAIN}
    case = Case("tabs", "float32", "float32", tiles, addresses(tiles), "TABS(dst, src)")
    assert judged(case, change) == kinds


def test_only_listed_differences_are_accepted() -> None:
    tiles = {"dst": PLAIN, "src": PLAIN}
    case, found = Case("trowsum", "float32 64 61", "float32", tiles, addresses(tiles), ""), Judged()
    found.add(case, "exact", [])
    found.add(case, "random", [("rounding", "")])
    found.add(case, "random", [("rounding", ""), ("beside written", "")])
    assert found.calls["trowsum"] == 3 and found.equal["trowsum"] == found.differ["trowsum"] == 1
    assert len(ACCEPTED) == len({row[3] for row in ACCEPTED}), "each reason is there once"


def test_values_have_edges_in_some_lanes() -> None:
    found = [next(iter(cases(name, "a2a3"))) for name in ("tadd", "tcvt", "tsort32", "tquant")]
    for case in found:
        for variant in VARIANTS:
            image = case.image(variant)
            assert len(image) == case.nbytes and (image == case.image(variant)).all()
    floats = found[0].image("random")[APART : APART + 16 * 64 * 2].view("f2").reshape(16, 64)
    assert np.isfinite(floats[:11]).all() and np.isnan(floats[11:]).any()
