"""Rewriting of launches, and the functions that can be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptokit.cxx.entries import GLOBAL, MOST_TOKENS, TooManyTokensError, find_entries
from ptokit.cxx.includes import read_files, rewrite, write_rewritten
from ptokit.cxx.source_text import masked

LAUNCHES = [
    ("k<<<1, nullptr, s>>>(a, b);", '::ptokit::chevron(PTOKIT_TEXT(k), [&] { k(a, b); }, 1, nullptr, s);'),
    ("ns::k<half, (1 > 0)><<<f(2, 3), 0, s>>>(x[1], g(y));",
     '::ptokit::chevron(PTOKIT_TEXT(ns::k<half, (1 > 0)>), [&] { ns::k<half, (1 > 0)>(x[1], g(y)); }, f(2, 3), 0, s);'),
    ("NAME(run, X)<T> <<<n, nullptr, s>>> (a);",
     '::ptokit::chevron(PTOKIT_TEXT(NAME(run, X)<T>), [&] { NAME(run, X)<T>  (a); }, n, nullptr, s);'),
    ("#define GO(T) run_##T<<<1, nullptr, s>>>(a)",
     '#define GO(T) ::ptokit::chevron(PTOKIT_TEXT(run_##T), [&] { run_##T(a); }, 1, nullptr, s)'),
    ("k<A<B<C>>>(a); // k<<<1, nullptr, s>>>(a)", "k<A<B<C>>>(a); // k<<<1, nullptr, s>>>(a)"),
    ('print("k<<<1>>>(a)"); x << y << z; 1 >> 2;', 'print("k<<<1>>>(a)"); x << y << z; 1 >> 2;'),
    ("<<<<<<< ours\n=======\n>>>>>>> theirs", "<<<<<<< ours\n=======\n>>>>>>> theirs"),
    ('asm volatile("MOV %0, SYS_CNT\\n" : "+l"(x));', "(void)0;"),
    ("__VEC_SCOPE__ {\n vlds(a); }\nx", '::ptokit::record("vec_scope");\n\nx'),
    ("[aicore] inline void f() {}", "         inline void f() {}"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LAUNCHES)
def test_launches_become_calls(text: str, expected: str) -> None:
    assert rewrite(text) == expected


def test_lines_keep_their_numbers() -> None:
    text = "int a;\nk<int,\n  2>\n   <<<1,\n  nullptr, // why\n  s>>>(\n a,\n b);\nint last;\n"
    found = rewrite(text)
    rows = found.splitlines()
    assert found.count("\n") == text.count("\n")
    assert rows[1].startswith("::ptokit::chevron(PTOKIT_TEXT(k<int, 2>), [&] { k<int,") and rows[6:9] == [
        " a,",
        " b); }, 1, nullptr, s);",
        "int last;",
    ]


def test_a_macro_over_several_lines_stays_one_macro() -> None:
    text = "#define GO(N) \\\n  k##N<<<1, nullptr, \\\n    s>>>(a, \\\n    b)\nint x;\n"
    found = rewrite(text).splitlines()
    assert (
        found[1:4] == ["  ::ptokit::chevron(PTOKIT_TEXT(k##N), [&] { k##N\\", "(a, \\", "    b); }, 1, nullptr, s)"]
        and found[4] == "int x;"
    )


@pytest.mark.parametrize(
    "text", ["k<<<", "k<<<1>>>", "<<<1>>>(a)", "k<<<1>>>(a", "k<<<(1>>>(a)", ">" * 50 + "<<<1>>>(a)", "a)<<<1>>>(b)"]
)
def test_broken_launches_are_left_to_the_compiler(text: str) -> None:
    assert rewrite(text) == text


def test_comments_and_strings_are_blanked_in_place() -> None:
    text = 'a /* b\nc */ "d\\"" \'e\' // f\ng R"x(h)x" 1\'000'
    found = masked(text)
    assert found.split() == ["a", "g", "1'000"]
    assert [len(row) for row in found.split("\n")] == [len(row) for row in text.split("\n")]


def test_included_files_with_launches_are_rewritten_with_those_that_include_them(tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (tmp_path / "k.cpp").write_text('#include "outer.hpp"\n#include "plain.hpp"\n#include <none.hpp>\n')
    (tmp_path / "plain.hpp").write_text("int plain;\n")
    (more / "outer.hpp").write_text('#include "inner.hpp"\n')
    (more / "inner.hpp").write_text("void f() { k<<<1, nullptr, s>>>(); }\n#ifdef __DAV_VEC__\n#endif\n")
    out = tmp_path / "out"
    out.mkdir()
    files = read_files(tmp_path / "k.cpp", [more])
    copies = write_rewritten(files, out)
    assert {path.name for path in copies} == {"k.cpp", "outer.hpp", "inner.hpp"} and files.asks_for_cores
    assert copies[more / "inner.hpp"].read_text().startswith(f'#line 1 "{more / "inner.hpp"}"\nvoid f() {{ ::ptokit')
    assert f'#include "{copies[more / "outer.hpp"]}"\n#include "plain.hpp"' in copies[tmp_path / "k.cpp"].read_text()


ENTRIES = """# 1 "/k.cpp"
# 1 "/other.hpp" 1
void other(void* stream);
void other(void* stream) { }
# 2 "/k.cpp" 2
struct S { int x; void f(void* stream) { } };
static void hidden(void* stream) { k<<<1>>>(); }
namespace { void hidden_too(void* stream) { } }
namespace a::b {
template <typename T, int N = 4>
__attribute__((used)) void launch(T *out, const S& s, void *stream) { k<T> <<<N, nullptr, stream>>>(out); }
inline namespace v1 {extern "C" {__ptokit_global__ [[gnu::used]] void kernel(float *p, unsigned long n = 3, int = 1){}}}
template <> void launch<int, 1>(int*, const S&, void* stream) {}
}
template void a::b::launch<float, (2 > 1)>(float *out, const S& s, void *stream);
template struct Some<int>;
template <typename T> struct Some { void g(void* stream) { } };
int table[] = {1, 2};
auto later(int x) -> int;
int run(std::vector<int> v, void (*f)(int), aclrtStream stream) { if (1) { } return 0; }
int main(int argc, char** argv) { k<<<1>>>(); }
"""


def test_entries_are_found_in_namespaces_templates_and_linkage_blocks() -> None:
    found = {entry.name: entry for entry in find_entries(ENTRIES)}
    assert list(found) == ["a::b::v1::kernel", "a::b::launch<int, 1>", "a::b::launch<float, (2> 1)>", "run"]
    kernel, _, launch, run = found.values()
    assert (kernel.kind, kernel.line, [(p.type, p.name) for p in kernel.parameters]) == (
        "kernel", 8, [("float*", "p"), ("unsigned long", "n"), ("int", "argument2")],
    )  # fmt: skip
    assert [p.type for p in launch.signature] == ["float*", "const S&", "void*"] and launch.signature[2].is_stream
    assert [p.name.partition(".")[0] for p in launch.parameters] == [p.name for p in launch.signature]
    assert run.parameters[0].name == "v" and run.result == "int"
    assert kernel.registration(7) == (
        "namespace a { namespace b { namespace v1 { static const ::ptokit::RegisterKernel<static_cast<void (*)(float*, "
        'unsigned long, int)>(&kernel)> ptokit_entry_7("a::b::v1::kernel"); } } }'
    )
    assert "a::b::launch<float, (2> 1)>(p0, p1, p2);" in launch.registration(0)


def test_functions_of_the_device_with_c_linkage_are_kernels() -> None:
    text = 'extern "C" [aicore] void k(float *x) { }\n[aicore] void helper(float *x) { }\n'
    assert [(entry.name, entry.kind, entry.result) for entry in find_entries(text)] == [("k", "kernel", "void")]


def test_templates_that_nothing_instantiates_are_found() -> None:
    kernels = f"template <typename T> {GLOBAL} void a(T *x) {{ }}\ntemplate <int N> {GLOBAL} void b(float *x) {{ }}\n"
    assert [(entry.name, entry.kind) for entry in find_entries(kernels)] == [("a<float>", "kernel"), ("b", "template")]
    declared = f"{kernels}template {GLOBAL} void b<3>(float *x);\n"
    assert [(entry.name, entry.kind) for entry in find_entries(declared)] == [("b<3>", "kernel"), ("a", "template")]


def test_types_in_the_place_of_those_that_a_compiler_lacks_are_left_out() -> None:
    text = "typedef struct {\n unsigned char v; } hifloat8_t;\ntypedef struct { char v; } float4_e1m2x2_t; float x;\n"
    assert rewrite(text).split() == ["float", "x;"] and rewrite(text).count("\n") == text.count("\n")
    own = "typedef struct { char v; } mine_t;\n"
    assert rewrite(own) == own


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{{{{",
        "}}}}",
        "template",
        "template <",
        "void f(",
        "((((",
        "namespace",
        'extern "C"',
        "f() {",
        "template void f<",
        f'#line {"1" * 5000} "x"',
    ],
)
def test_any_text_is_searched(text: str) -> None:
    assert find_entries(text) == []


def test_tokens_are_counted() -> None:
    with pytest.raises(TooManyTokensError, match="1,000,000 tokens"):
        find_entries(";" * MOST_TOKENS)


def test_a_kernel_and_its_launch_function_may_have_one_name() -> None:
    text = f"""# 1 "/k.cpp"
template <typename T, int N> {GLOBAL} void go(T* x) {{}}
template <int KEY> void go(float* x, void* stream) {{ go<float, KEY><<<1, nullptr, stream>>>(x); }}
template void go<3>(float* x, void* stream);
"""
    (entry,) = find_entries(text)
    assert (entry.name, entry.kind) == ("go<3>", "launch")


def test_templates_of_kernels_are_entries_where_there_are_no_others() -> None:
    kernel = f"template <typename T> {GLOBAL} void copy(T* out, const T* x, int n) {{ }}"
    host = "template <class T> bool run(int n) { return n; } bool all() { return run<half>(1); }"
    (named,) = find_entries(f'# 1 "/k.cpp"\n{kernel}\n{host}\n')
    assert (named.name, [each.type for each in named.parameters]) == ("copy<half>", ["half*", "const half*", "int"])
    (other,) = find_entries(f'# 1 "/k.cpp"\n{kernel}\n')
    assert other.name == "copy<float>"
    (own,) = find_entries(f'# 1 "/k.cpp"\n{kernel}\ntemplate void copy<int>(int*, const int*, int);\n')
    assert own.name == "copy<int>"
    numbered = f"template <int N> {GLOBAL} void count(int* out) {{ }}"
    assert find_entries(f'# 1 "/k.cpp"\n{numbered}\n') == []


INCLUDED = f"""# 1 "/k.cpp"
# 1 "/sys/all.hpp" 1 3
void of_the_system(void* stream) {{ }}
# 1 "/user/kernel.hpp" 1 3
void below_the_system(void* stream) {{ }}
# 2 "/sys/all.hpp" 2 3
# 1 "/k.cpp" 2
namespace n {{
# 1 "/other/kernel.hpp" 1
void of_others(void* stream) {{ }}
# 3 "/k.cpp" 2
# 1 "/user/kernel.hpp" 1
#line 9 "kernel.in"
{GLOBAL} void kernel(float* x) {{ }}
void launch(float* x, void* stream) {{ kernel<<<1, nullptr, stream>>>(x); }}
# 4 "/k.cpp" 2
}}
"""


def test_entries_of_the_users_included_files_count_where_the_source_has_none() -> None:
    user = [Path("/user/kernel.hpp")]
    found = find_entries(INCLUDED, user)
    assert [(entry.name, entry.kind, entry.line) for entry in found] == [
        ("n::kernel", "kernel", 9), ("n::launch", "launch", 10),
    ]  # fmt: skip
    (own,) = find_entries(INCLUDED + "void own(void* stream) { }\n", user)
    assert own.name == "own" and find_entries(INCLUDED) == []


def test_lines_that_name_another_file_belong_to_the_source() -> None:
    text = '# 1 "/k.cpp"\nint x;\n# 7 "made_by.in"\nvoid go(void* stream) { }\n# 1 "/h.hpp" 1\n# 9 "made_by.in" 2\n'
    found = find_entries(text + "void more(void* stream) { }\n")
    assert [(entry.name, entry.line) for entry in found] == [("go", 7), ("more", 9)]


STRUCTURES = """
struct Extents { uint32_t rows = 16, cols; };
# 3 "other.h"
struct Tiling { Extents extents; __gm__ float *in, *bias; float scale{1}; const int fixed = 3; int more[3];
  static int count; bool on() const { return scale > 1; } enum Kind { a, b } kind; int bits : 3; std::string name; };
struct B { double x; };
namespace one { struct Twice { int n; }; }
namespace two { struct Twice { float m; }; }
struct Hidden { int n; private: int m; };
struct Made { Made(int n); int n; };
"""


def test_a_structure_is_given_by_its_members() -> None:
    text = (
        STRUCTURES
        + f"{GLOBAL} void k(float *out, const Tiling &t, Hidden h, Made m, Index i, B b, a c, one::Twice w) {{}}\n"
    )
    (entry,) = find_entries(text)
    assert [each.name for each in entry.parameters] == [
        "out", "t.extents.rows", "t.extents.cols", "t.in", "t.bias", "t.scale", "h", "m", "i", "b.x", "c", "w"
    ]  # fmt: skip
    code = entry.registration(0)
    assert "Tiling p1{};" in code and "p1.extents.rows = m1;" in code and "k(p0, p1, p2, p3, p4, p5, p6, p7);" in code


def test_structures_in_structures_are_bounded() -> None:
    levels = [f"struct S{n} {{ {' '.join(f'S{n + 1} m{k};' for k in range(100))} }};" for n in range(20)]
    text = "\n".join([*levels, "struct S20 { int n; };", f"{GLOBAL} void k(S0 s) {{}}"])
    (entry,) = find_entries(text)
    assert [each.name for each in entry.parameters] == ["s"]


def test_functions_of_other_files_need_pointers_to_data(tmp_path: Path) -> None:
    """A barrier of the host is not what an included file is checked for."""
    header = (tmp_path / "common.hpp").resolve()
    header.write_text("")
    text = """
# 1 "/k.cpp"
# 1 "{}" 1
inline void barrier(HcclComm comm, aclrtStream stream) {{ wait(comm); }}
{}
# 2 "/k.cpp" 2
"""
    launch = "inline void launch(float* x, void* stream) { run(x, stream); }"
    assert [each.name for each in find_entries(text.format(header, launch), [header])] == ["launch"]
    assert find_entries(text.format(header, ""), [header]) == []
