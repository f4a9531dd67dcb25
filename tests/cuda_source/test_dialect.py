"""The device code that scanner.py extracts from a source, and how dialect.py rewrites it. No
compiler runs here; test_kernel.py compiles.
"""

import re
import time

import pytest

from smemkit.cuda_source import dialect, errors, includes, scanner

KERNEL = "__global__ void k(int *x) { *x = 1; }\n"


def device_lines(source):
    """The device code without blank lines."""
    code = scanner.scan(source)
    assert code.text.count("\n") == source.count("\n")  # line numbers stay
    return [line.strip() for line in code.text.splitlines() if line.strip()]


def test_dialect_loads_by_itself():
    from setup_file import build

    module, _ = build.load_cuda_source()
    assert module.__name__ == "smemkit_cuda_source.dialect"
    assert module.rewrite(KERNEL, "k.cu").endswith(KERNEL)


@pytest.mark.parametrize(
    "host",
    [
        'int main(int argc, char **argv) { return f("}", \'{\', R"x()" })x"); /* } */ }',
        "void f();",
        "static inline void f(const std::vector<float> &v = {}) { for (auto x : v) { } }",
        "template <typename T, int N = (3 > 2)> T f(T x) { return x; }",
        "std::ostream &operator<<(std::ostream &o, int x) { return o << x; }",
        "__host__ int f() { return 1; }",
        "int n = 3;",
        "float *a, *b = nullptr;",
        "std::vector<float> v{1, 2, 3};",
        "auto f = [](int x) { return x; };",
        "struct timer { std::chrono::seconds s; };",
        "class matrix : public std::vector<float> { int x[3] = {1, 2, 3}; } m;",
        "timer::timer() : a{1}, b(2) { }",
        "typedef std::map<int, int> table;",
        "using namespace thrust;",
        "using namespace std::chrono;",
        "constexpr int unused() { return 1; }",
        'const std::string name = "k";',
        "enum unused { A, B };",
    ],
)
def test_host_code_is_left_out(host):
    assert device_lines(host + "\n" + KERNEL + host) == [KERNEL.strip()]


@pytest.mark.parametrize(
    "device",
    [
        "__device__ int f(int x) { return x; }",
        "__host__ __device__ int f(int x) { return x; }",
        "template <class T> __device__ inline T f(T x) { if (x) { return x; } return 0; }",
        "__constant__ float c[3] = {1, 2, 3};",
        "__device__ float4 operator+(float4 a, float4 b) { return a; }",
        "using namespace std;",
        "using namespace cooperative_groups;",
        "__global__ void __launch_bounds__(256, 2) other(float) { }",
        "extern __shared__ float s[];",
        'extern "C" __global__ void other();',
        "#define X 3",
        "#pragma once",
    ],
)
def test_device_code_stays(device):
    assert device_lines(device + "\n" + KERNEL) == [device, KERNEL.strip()]


@pytest.mark.parametrize(
    ("declaration", "use"),
    [
        ("const int N = 64;", "N"),
        ("static constexpr float PI = 3.14f;", "PI"),
        ("struct point { float x; point() : x{1} {} };", "point p;"),
        ("typedef struct { float x; } point;", "point p;"),
        ("typedef float real;", "real r;"),
        ("using real = float;", "real r;"),
        ("enum colour { RED, GREEN };", "GREEN"),
        ("enum class mode : int { FAST };", "mode m;"),
        ("constexpr int square(int x) { return x * x; }", "square(3)"),
        ("template <class T> struct pair { T a, b; };", "pair<int> p;"),
        ("namespace cg = cooperative_groups;", "cg::this_thread_block();"),
        ("struct __align__(16) point { float x; };", "point p;"),
    ],
)
def test_declarations_used_by_device_code_stay(declaration, use):
    kernel = f"__global__ void k() {{ {use} }}"
    assert device_lines(f"{declaration}\n{kernel}\n") == [declaration, kernel]
    macro = f"#define USE {use}"
    kernel = "__global__ void k() { USE }"
    assert device_lines(f"{macro}\n{declaration}\n{kernel}\n") == [macro, declaration, kernel]


def test_indirectly_used_declarations_stay():
    source = "const int A = 1;\nconst int B = A;\nstruct s { int x[B]; };\n__device__ s v;\nconst int C = 1;\n"
    assert device_lines(source) == source.splitlines()[:4]


MEMBERS = """
struct {head}
{{
    {member}
    {device}
    int last;
}};
{outside}
__global__ void k(type<int> x) {{ }}
"""


def keeps_member(member, device="HD void f();", head="type : base<int>", outside=""):
    """Whether a member stays. Everything else must stay."""
    source = "#define HD __host__ __device__\n#define CHECK(e) check(e, cudaSuccess)\n#define CONSTANT\n"
    source += MEMBERS.format(head=head, member=member, device=device, outside=outside)
    expected = [line.strip() for line in source.splitlines() if line.strip()]
    rest = [line for line in expected if line != member]
    assert device_lines(source) in (expected, rest)
    return device_lines(source) == expected


@pytest.mark.parametrize(
    "member",
    [
        "type() {}",
        "explicit type(int n) noexcept(false) : base<int>{n}, a(n < 3), b{1} { f(\"}\"); /* } */ char c = '}'; }",
        "inline ~type() { }",
        "virtual ~ type();",
        "virtual void f() const = 0;",
        "__host__ float f(type x = {}) const & override { return x.f(); }",
        "template <class T, int N = (3 > 2)> type(const T &x) : a(x) { }",
        "type &operator=(const type &o) { return *this; }",
        "bool operator()(int a, int b) const { return a < b; }",
        "operator float *() const;",
        "template <class T> operator T() const { return a; }",
        "static type *make(std::vector<int> v) { return new type; }",
        "auto f() const -> std::array<int, 3> { return {}; }",
        "decltype(a) f() { return this->operator()(1, 2); }",
        "friend std::ostream &operator<<(std::ostream &o, const type &t) { return o << 1; }",
        "friend void g(type);",
    ],
)
def test_host_members_are_left_out(member):
    assert not keeps_member(member)
    assert not keeps_member(member, "__device__ type(int);", "__align__(16) type final : public base<3>, other")
    assert not keeps_member(member, "CONSTANT __global__ void f() { }", "type")


@pytest.mark.parametrize(
    "member",
    [
        "type(const type &) = default;",
        "type &operator=(type &&) = delete;",
        "constexpr type(int a) : a(a) {}",
        "template <class T> HD operator T() const { return a; }",
        "virtual HD void f() = 0;",
        "float ALIGN(16) x{0};",
        "__align__(16) int a[sizeof(int)], b{3}, c = f(3), d = 0;",
        "int bits : f(3);",
        "int (*f)(int), (&g)[3];",
        "real (*f)(int) = 0;",
        "real (type::*f)(int);",
        "std::pair<int, real(int)> p;",
        "decltype(f(1)) y;",
        "friend class other;",
        "using base<int>::base;",
        "public: static_assert(sizeof(int) == 4);",
        "enum colour { RED };",
        "union { int a; float b; };",
        "struct inner { int a; inner(int a) : a(a) {} };",
        "DECLARE(type);",
    ],
)
def test_kept_members_of_types(member):
    assert keeps_member(member)


@pytest.mark.parametrize(
    ("member", "outside", "stays"),
    [
        ("float f() const;", "__device__ float type::f() const { return 1; }", True),
        ("type(int);", "template <class T> HD type<T>::type(int) { }", True),
        ("operator bool();", "__device__ type::operator bool() { return true; }", True),
        ("friend type operator+(type, type);", "__device__ type operator+(type a, type b) { return a; }", True),
        ("friend type operator-(type, type);", "__device__ type operator+(type a, type b) { return a; }", False),
        ("friend __global__ void k(type<int>);", "", True),
        ("friend void k(type<int>);", "", True),
        ("~type();", "__device__ type::type() { }", False),
    ],
)
def test_members_that_are_defined_outside(member, outside, stays):
    assert keeps_member(member, outside=outside) == stays


@pytest.mark.parametrize(
    ("member", "stays"),
    [
        ("type() : a(0) {}", True),
        ("float norm() const { return a; }", True),
        ("type(int cin, int cout) : cin(cin), cout(cout) {}", True),
        ("cudaError_t error() const { return a; }", True),
        ("static char test(void *);", True),
        ("type(int n) { cudaMalloc(&a, n); }", False),
        ("~type() { CHECK(a); }", False),
        ("void go() { k<<<1, 1>>>(*this); }", False),
        ("void print() { std::cout << a; }", False),
        ("friend std::ostream &operator<<(std::ostream &o, type t);", False),
    ],
)
def test_types_without_device_members(member, stays):
    assert keeps_member(member, device="int a;") == stays


def test_members_of_nested_types_and_typedefs():
    source = """
typedef struct pair { int a; pair() { } __device__ int get() { return a; } } pair_t;
namespace n {
template <class T> struct outer {
    class inner { inner() { } public: ~inner() { timer t; } HD T get(); T a; } x;
    outer() { }
#if 1
    void f(int) {
#else
    void f() {
#endif
    }
};
}
struct timer { std::chrono::seconds s; };
__global__ void k(pair_t p, n::outer<int> o) { }
"""
    code = scanner.scan("#define HD __host__ __device__" + source)
    assert "typedef struct pair { int a; __device__ int get() { return a; } } pair_t;" in " ".join(
        code.text.split()
    )
    assert list(code.host) == ["pair::pair", "outer::inner::inner", "outer::inner::~inner"]
    assert "timer" not in code.text


def test_branches_of_conditionals():
    source = """\
#ifdef X
void host(int a) {
#else
void host() {
#endif
}
#if 1
__device__ int f() { return 1; }
#else
__device__ int f() { return 2; }
#endif
"""
    assert device_lines(source) == [line for line in source.splitlines() if "host" not in line and line != "}"]


def test_macros_that_expand_to_specifiers_or_declarations():
    source = """\
#define DEVICE __device__ __forceinline__
#define KERNEL(name) __global__ void name(int *x)
#define HOST(name) void name() { }
#define DEFINE(T) __global__ void k_##T() { }
DEVICE int f() { return 1; }
KERNEL(k) { *x = f(); }
HOST(g)
DEFINE(float)
DEFINE(int)
int main() { }
"""
    code = scanner.scan(source)
    assert device_lines(source) == [
        line for line in source.splitlines() if line not in ("HOST(g)", "int main() { }")
    ]
    assert code.has_macro_kernels


@pytest.mark.parametrize(
    ("declaration", "parameters"),
    [
        ("void k()", ()),
        ("void k(void)", ()),
        ("void k(float *__restrict__ x, const int n)", ("x", "n")),
        (
            "void __launch_bounds__(128) k(int a[3], float (*f)(int, int), std::array<int, 3> b = {1, 2})",
            ("a", "f", "b"),
        ),
        ("void k(unsigned int, float *, pair<int, int> p)", ("", "", "p")),
        ("__attribute__((unused)) void k(const __grid_constant__ point p)", ("p",)),
    ],
)
def test_parameters(declaration, parameters):
    (function,) = scanner.scan(f"__global__ {declaration} {{ }}").functions
    assert (function.name, function.parameters) == ("k", parameters)


def test_variables():
    source = """
__constant__ float a[2][3], b = 1;
namespace { static __device__ int c{3}; }
namespace n { __device__ const point d = {1, 2}; extern __constant__ int e; }
__shared__ int f;
__global__ void k() { }
"""
    variables = scanner.scan(source).variables
    assert [(v.name, v.constant) for v in variables] == [("a", True), ("b", True), ("c", False), ("n::d", False)]


def test_included_headers_are_inlined(tmp_path):
    (tmp_path / "one.h").write_text('#pragma once\n#include "two.h"\nint one;\n')
    (tmp_path / "two.h").write_text('#include "one.h"\nint two;')
    (tmp_path / "sub").mkdir()
    text = '#include "one.h"\n#include <two.h>\n// #include "one.h"\n#include <vector>\nint three;\n'
    text += '#include "sub/../one.h"\n'  # the same file by another path
    sources = {}
    expanded = includes.expand_includes(text, "k.cu", tmp_path, [], sources)
    assert expanded.count("int one;") == expanded.count("int two;") == 1
    assert "#include <two.h>" in expanded
    assert includes.source_location(expanded, expanded.index("int one")) == (3, str(tmp_path / "one.h"))
    assert includes.source_location(expanded, expanded.index("int two")) == (2, str(tmp_path / "two.h"))
    assert includes.source_location(expanded, expanded.index("int three")) == (5, "k.cu")
    assert set(sources) == {"k.cu", str(tmp_path / "one.h"), str(tmp_path / "two.h")}


def test_refusals_are_not_in_comments_or_strings():
    source = '// asm("x y;") <<< wmma:: tex2D\nconst char *s = "k<<<1, 1>>>() wmma::";\n'
    assert errors.ERROR_PREFIX not in dialect.rewrite(source, "k.cu", host=False)


# ---- shared variables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declaration", "types", "names"),
    [
        ("__shared__ float a[32][33], b;", "typedef float a[32][33], b;", ["a", "b"]),
        ("static __shared__ volatile int a;", "typedef volatile int a;", ["a"]),
        ("float __shared__ a[2 < 3 ? 1 : 2], b[3];", "typedef float a[2 < 3 ? 1 : 2], b[3];", ["a", "b"]),
        ("__shared__ std::pair<int, float> a[2], *b;", "typedef std::pair<int, float> a[2], *b;", ["a", "b"]),
        ("__shared__ struct { int x, y[2]; } a[3];", "typedef struct { int x, y[2]; } a[3];", ["a"]),
        ("__shared__ int (*a)[3], (*b)(int);", "typedef int (*a)[3], (*b)(int);", ["a", "b"]),
        ("case 1: __shared__ int a;", "case 1: typedef int a;", ["a"]),
        ("\n#pragma unroll\n__shared__ int a;", "#pragma unroll typedef int a;", ["a"]),
    ],
)
def test_shared_variables_become_references(declaration, types, names):
    text = dialect.rewrite(f"__global__ void k() {{ {declaration} }}", "k.cu")
    inside = text[text.index("{") + 1 : text.rindex("}")]
    plain = " ".join(re.sub(r"SMEMKIT_SHARED_TYPE\((\w+)\)", r"\1", inside).split())
    assert plain == types + "".join(f" SMEMKIT_SHARED({name}, 0);" for name in names)
    assert text.count("\n") == declaration.count("\n") + 2  # line numbers stay the author's


def test_macros_of_shared_variables_are_expanded_outside_of_directives():
    source = """#ifdef UNUSED
#define UNUSED __attribute__((unused))
#else
#define UNUSED
#define SMEM __shared__
#define TILE static __shared__
#endif
__global__ void k() { SMEM int a; TILE UNUSED int b; }"""
    *directives, kernel = dialect.rewrite(source, "k.cu").split('"k.cu"\n')[1].splitlines()
    assert directives == source.splitlines()[:-1]
    assert "SMEM " not in kernel and "TILE" not in kernel and "UNUSED" in kernel


def test_alignments_of_shared_variables_are_kept():
    text = dialect.rewrite("__global__ void k() { __align__(64) __shared__ alignas(T) char a[9]; }", "k.cu")
    assert "struct __align__(64) alignas(T) smemkit_alignment_of_a { }" in text
    assert "SMEMKIT_SHARED(a, alignof(smemkit_alignment_of_a))" in text


@pytest.mark.parametrize(
    ("captures", "own"),
    [("", True), ("=", True), ("n", True), ("&n", True), ("=, p = x[3]", True), ("&", False), ("&, n", False)],
)
def test_lambdas_do_not_copy_shared_variables(captures, own):
    text = dialect.rewrite(
        f"__global__ void k(int n) {{ __shared__ int s[3]; auto f = [{captures}] {{ return s[n]; }}; }}", "k.cu"
    )
    body = "{ SMEMKIT_SHARED_AGAIN(s); { return s[n]; }}" if own else "{ return s[n]; }"
    assert f"auto f = [{captures}] {body};" in text


def test_unrelated_code_is_not_rewritten():
    source = (
        "__global__ void k(int *x) { __shared__ int s; auto f = [=] { return x[0]; }; x[2](s); decltype(x) y; }"
    )
    text = dialect.rewrite(
        source + " __device__ void f(int s) { decltype(s) t; auto g = [=] { return s; }; }", "k.cu"
    )
    assert "[=] { return x[0]; }" in text
    assert "decltype(x) y" in text
    assert text.endswith("__device__ void f(int s) { decltype(s) t; auto g = [=] { return s; }; }")


def test_large_headers_are_read_in_time_that_is_proportional_to_their_length():
    def seconds(declarations):
        header = "".join(
            f"#define CODE_{i} {i}\ntypedef void (*function_{i})(int, float);\n" for i in range(declarations)
        )
        began = time.process_time()
        scanner.scan(includes.line_marker(1, "gl.h") + header + KERNEL)
        return time.process_time() - began

    assert seconds(8000) < 30 * seconds(1000)  # 8 times, where a quadratic scan takes 64 times


@pytest.mark.parametrize(
    ("declarations", "names"),
    [
        ("__global__ void k(int *x) {} __global__ void k(float *x) {}", ["k(int *)", "k(float *)"]),
        ("__global__ void k(int *, const int); __global__ void k(int x[], int y) {}", ["k"]),
        (
            "__global__ void k(const int *x) {} __global__ void k(int *__restrict__ x) {}",
            ["k(const int *)", "k(int *)"],
        ),
        ("template <class T> __global__ void k(T *x) {} __global__ void k(int *x) {}", ["k", "k(int *)"]),
        ("__global__ void k(int *, int); __global__ void k(int *x) {}", ["k(int *)"]),
        ("namespace a { __global__ void k(int *x) {} } __global__ void k(float *x) {}", ["a::k", "k"]),
    ],
)
def test_kernels_that_share_a_name_are_named_with_their_types(declarations, names):
    assert [function.name for function in scanner.scan(declarations).functions] == names


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("void ::f", "f"),
        ("__global__ ::f", "f"),
        ("auto ::a :: f", "a::f"),
        ("void EMPTY ::f", "f"),
        ("void NAMESPACE::f", "NAMESPACE::f"),
        ("void unused::f", "unused::f"),
    ],
)
def test_a_word_of_a_type_is_no_namespace(head, name):
    text = f"#define EMPTY\n#define NAMESPACE a\n__global__ {head}(int *x) {{}}"
    assert [function.name for function in scanner.scan(text).functions] == [name]


def test_what_a_kernel_reaches_is_found_in_time_that_is_proportional_to_the_code():
    def seconds(functions):
        chain = "".join(f"__device__ int f{i}() {{ return f{i - 1}(); }}\n" for i in range(1, functions))
        kernel = (
            f"__global__ void k(int *x) {{ *x = f{functions - 1}(); }}\n__global__ void g() {{ this_grid(); }}\n"
        )
        code = scanner.scan(chain + kernel)
        began = time.process_time()
        assert not code.reaches("k", frozenset({"this_grid"}))
        assert code.reaches("k", frozenset({"f0"}))
        assert code.reaches("g", frozenset({"this_grid"}))
        return time.process_time() - began

    assert seconds(3000) < 30 * max(seconds(300), 1e-4)


@pytest.mark.parametrize(
    "marked",
    [
        "s[«x[i]»] = 1",
        "s[«j + x[«y[i]»] % 8»][3]",
        "f(i)[«*p»] + s [« -*p »]",
        "s[«node->left»]",
        "s[i * n + j] + s[threadIdx.x]",
        "auto [a, b] = f(x[0])",
        "[x = y[0]] { return x; }",
        "return [x = y[0]] { return x; }",
        "g(1, [&] { return x[0]; })",
        "int x [[maybe_unused]] = y[0]",
        "delete [] p[0]",
        "m[{x[0], 1}]",
        's["x[0]"] /* s[x[0]] */',
    ],
)
def test_indices_that_read_memory_are_evaluated_once(marked):
    """Those between « and »."""
    rewritten = dialect.rewrite(KERNEL + marked.replace("«", "").replace("»", ""), "k.cu").partition(KERNEL)[2]
    assert rewritten == marked.replace("«", "smemkit::once((").replace("»", "))")
