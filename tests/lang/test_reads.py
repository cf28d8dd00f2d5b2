"""What a kernel reads of Python belongs to its program: if it changes, the kernel is traced again."""

from __future__ import annotations

import gc
import importlib
import itertools
import sys
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from ptokit.lang import reads
from ptokit.lang.kernel import Kernel
from tests import snippet
from tests.property.strategies import FUZZ

NUMBERS = itertools.count()
"""Names of snippets."""
HEAD = """\
import functools, types
from dataclasses import dataclass, asdict
from enum import Enum
import numpy as np
import ptokit as pto
"""


@dataclass(frozen=True)
class Place:
    """A number that Python code can read: how it is defined, read and changed."""

    defined: str
    read: str
    changed: str
    """With the new number as `{n}`."""


PLACES = {
    "a global": Place("G = 1", "G", "G = {n}"),
    "a number of NumPy": Place("S = np.int32(1)", "int(S)", "S = np.int32({n})"),
    "an item of a dict": Place('D = {"a": 1, "b": 0}', 'D["a"]', 'D["a"] = {n}'),
    "a dict in another": Place('DD = {"a": {"b": 1}}', 'DD["a"]["b"]', 'DD["a"]["b"] = {n}'),
    "a dict with a computed key": Place('DC = {"ab": 1}', 'DC["a" + chr(98)]', 'DC["ab"] = {n}'),
    "a dict that is made again": Place('DN = {"a": 1}', 'DN["a"]', 'DN = {{"a": {n}}}'),
    "all of a dict": Place('DA = {"a": 1}', "sum(DA.values())", 'DA["b"] = {n}'),
    "a method of a dict": Place('DM = {"a": 1}', 'DM.get("a")', 'DM["a"] = {n}'),
    "a list": Place("L = [1, 2]", "L[0]", "L[0] = {n}"),
    "the length of a list": Place("LL = [1]", "len(LL)", "LL[:] = [0] * {n}"),
    "a list in a tuple": Place("T = ([1],)", "T[0][0]", "T[0][0] = {n}"),
    "a set": Place("ST = {1}", "max(ST)", "ST = {{{n}}}"),
    "an attribute that hides that of the class": Place(
        "class HC:\n    a = 1\n    def get(self): return self.a\nhc = HC()", "hc.get()", "hc.a = {n}"
    ),
    "a new attribute of a function": Place("def nf(): pass", "getattr(nf, 'a', 1)", "nf.a = {n}"),
    "a variable of the environment, with a method of a text": Place(
        "import os\nos.environ['READ1'] = '1'\ndef ev():\n    import os\n"
        "    return int(os.getenv('READ1').replace('x', ''))",
        "ev()",
        "os.environ['READ1'] = '{n}'",
    ),
    "__str__": Place(
        "class SS:\n    def __init__(self, a): self.a = a\n    def __str__(self): return str(self.a)\nss = SS(1)",
        "int(f'{ss}')",
        "ss = SS({n})",
    ),
    "__str__ that a text asks for": Place(
        "class SF:\n    def __init__(self, a): self.a = a\n    def __str__(self): return str(self.a)\nsf = SF(1)",
        "int('%s' % sf) + int(', '.join(map(str, [sf])))",
        "sf = SF({n})",
    ),
    "__repr__ that a method of a text asks for": Place(
        "SR = 1\nclass Sr:\n    def __repr__(self): return f'{SR}'\nsr = Sr()",
        "int('{!r}'.format(sr))",
        "SR = {n}",
    ),
    "a class method of an object makes another": Place(
        "CM = 1\nclass Cm:\n    def __init__(self): self.a = CM\n    @classmethod\n    def make(cls): return cls()\n"
        "cm1 = Cm()",
        "cm1.make().a",
        "CM = {n}",
    ),
    "a class method of a base makes an object": Place(
        "CB = 1\nclass Cb:\n    @classmethod\n    def make(cls): return cls()\nclass Cc(Cb):\n"
        "    def __init__(self): self.a = CB\ncb = Cc()",
        "cb.make().a",
        "CB = {n}",
    ),
    "a replaced dataclass": Place(
        "import dataclasses\nRD = 1\n@dataclass\nclass Rd:\n    a: int = 0\n"
        "    def __post_init__(self): self.b = RD\nrd = Rd()",
        "dataclasses.replace(rd, a=2).b",
        "RD = {n}",
    ),
    "an object of the class of another": Place(
        "OO = 1\nclass Oo:\n    def __init__(self): self.a = OO\noo = Oo()",
        "type(oo)().a + oo.__class__().a",
        "OO = {n}",
    ),
    "a class that a library makes": Place(
        "mc = types.new_class('mc')\nmc.a = 1", "mc.a + getattr(mc, 'a')", "mc.a = {n}"
    ),
    "the arguments of a type": Place(
        "import typing\nta = typing.Literal[1]", "typing.get_args(ta)[0]", "ta = typing.Literal[{n}]"
    ),
    "the length of a deque": Place(
        "from collections import deque\ndq = deque(maxlen=1)", "dq.maxlen", "dq = deque(maxlen={n})"
    ),
    "a default of a dict": Place(
        "from collections import defaultdict\ndf = defaultdict(lambda: 1)",
        "df.copy()['a']",
        "df.default_factory = lambda: {n}",
    ),
    "an argument of an exception": Place("ex = Exception(1)", "ex.args[0]", "ex.args = ({n},)"),
    "a pattern": Place("import re\npt = re.compile('a')", "len(pt.pattern)", "pt = re.compile('a' * {n})"),
    "a function in builtins": Place("import builtins\nbuiltins.bi = 1", "bi", "builtins.bi = {n}"),
    "a decimal number": Place("import decimal\ndc = decimal.Decimal(1)", "int(dc)", "dc = decimal.Decimal({n})"),
    "a fraction": Place("import fractions\nfr = fractions.Fraction(1)", "int(fr)", "fr = fractions.Fraction({n})"),
    "a variable of the environment": Place(
        "import os\nos.environ['READ'] = '1'", "int(os.getenv('READ'))", "os.environ['READ'] = '{n}'"
    ),
    "a state of an installed package": Place(
        "il = types.ModuleType('il'); il.__file__ = '/site-packages/il.py'\n"
        "exec(compile('a = 1\\ndef get(): return a', il.__file__, 'exec'), vars(il))",
        "il.get()",
        "il.a = {n}",
    ),
    "an array": Place("A = np.array([1, 2])", "int(A[1])", "A[1] = {n}"),
    "a shape": Place("W = np.zeros((1, 300000))", "W.shape[0]", "W = np.zeros(({n} % 7, 2))"),
    "an attribute of a class": Place("class C:\n    a = 1", "C.a", "C.a = {n}"),
    "an attribute of a base": Place("class B0:\n    a = 1\nclass B1(B0): pass", "B1.a", "B0.a = {n}"),
    "an attribute that hides a base's": Place(
        "class H0:\n    a = 1\nclass H1(H0): pass", "H1.a", "H0.a = -1; H1.a = {n}"
    ),
    "an attribute of an object": Place("class O:\n    a = 1\no = O()", "o.a", "o.a = {n}"),
    "an object's class": Place("class OC:\n    a = 1\noc = OC()", "oc.a", "OC.a = {n}"),
    "another class of an object": Place(
        "class K0:\n    a = 1\nko = K0()", "ko.a", "class K1:\n    a = {n}\nko.__class__ = K1"
    ),
    "another dict of an object": Place("class V: pass\nvo = V(); vo.a = 1", "vo.a", 'vo.__dict__ = {{"a": {n}}}'),
    "a namespace": Place("ns = types.SimpleNamespace(a=1)", "ns.a", "ns.a = {n}"),
    "an object in an object": Place(
        "n1 = types.SimpleNamespace(b=types.SimpleNamespace(a=1))", "n1.b.a", "n1.b.a = {n}"
    ),
    "a slot": Place('class Z:\n    __slots__ = ("a",)\nz = Z(); z.a = 1', "z.a", "z.a = {n}"),
    "a dataclass": Place("@dataclass\nclass F:\n    a: int = 1\nf = F()", "f.a", "f.a = {n}"),
    "a dataclass as a dict": Place("@dataclass\nclass FA:\n    a: int = 1\nfa = FA()", 'asdict(fa)["a"]', "fa.a = {n}"),
    "getattr": Place("go = types.SimpleNamespace(ab=1)", 'getattr(go, "a" + "b")', "go.ab = {n}"),
    "a property": Place(
        "class P:\n    def __init__(self): self._a = 1\n    @property\n    def a(self): return self._a + 2\np = P()",
        "p.a",
        "p._a = {n}",
    ),
    "a method": Place(
        "class M:\n    k = 1\n    def get(self): return self.k * 2\nm = M()", "m.get()", "M.get = lambda self: {n}"
    ),
    "what a method reads": Place(
        "class MR:\n    def __init__(self): self.k = 1\n    def get(self): return self.k * 2\nmr = MR()",
        "mr.get()",
        "mr.k = {n}",
    ),
    "a bound method": Place(
        "class MB:\n    k = 1\n    def get(self): return self.k\nmb = MB().get", "mb()", "MB.k = {n}"
    ),
    "a static method": Place(
        "class MS:\n    @staticmethod\n    def get(): return 1", "MS.get()", "MS.get = staticmethod(lambda: {n})"
    ),
    "a class method": Place("class MC:\n    k = 1\n    @classmethod\n    def g(c): return c.k", "MC.g()", "MC.k = {n}"),
    "an object that is called": Place(
        "class Q:\n    def __call__(self): return 1\nq = Q()", "q()", "Q.__call__ = lambda self: {n}"
    ),
    "an operator": Place(
        "class R:\n    def __init__(self): self.v = 1\n    def __add__(self, o): return self.v + o\nr = R()",
        "r + 1",
        "r.v = {n}",
    ),
    "a new object": Place(
        "class N:\n    def __init__(self): self.v = 1", "N().v", "def init(self): self.v = {n}\nN.__init__ = init"
    ),
    "a function": Place("def fn(): return 1", "fn()", "def fn(): return {n}"),
    "code of a function": Place("def fc(): return 1", "fc()", "fc.__code__ = (lambda: {n}).__code__"),
    "a default": Place("def fd(a=1): return a", "fd()", "fd.__defaults__ = ({n},)"),
    "a default that changes": Place("def fl(a=[1]): return a[0]", "fl()", "fl.__defaults__[0][0] = {n}"),
    "a keyword's default": Place("def fk(*, a=1): return a", "fk()", 'fk.__kwdefaults__["a"] = {n}'),
    "an attribute of a function": Place("def fa_(): return 0\nfa_.a = 1", "fa_.a", "fa_.a = {n}"),
    "a function of a function": Place("def g0(): return 1\ndef g1(): return g0()", "g1()", "def g0(): return {n}"),
    "a recursive function": Place("def gr(d): return gr(d - 1) if d else GR\nGR = 1", "gr(3)", "GR = {n}"),
    "a lambda in a dict": Place('LD = {"f": lambda: 1}', 'LD["f"]()', 'LD["f"] = lambda: {n}'),
    "a partial": Place("pa = functools.partial(lambda a: a, 1)", "pa()", "pa = functools.partial(lambda a: a, {n})"),
    "what a partial calls": Place("PC = 1\npc = functools.partial(lambda a: a * PC, 1)", "pc()", "PC = {n}"),
    "a decorated function": Place(
        "def deco(f):\n    @functools.wraps(f)\n    def call(): return f() + DK\n    return call\nDK = 0\n"
        "@deco\ndef fw(): return FW\nFW = 1",
        "fw()",
        "FW = {n}",
    ),
    "a decorator's value": Place(
        "def deco2(f):\n    def call(): return f() + DV\n    return call\nDV = 0\n@deco2\ndef fv(): return 1",
        "fv()",
        "DV = {n}",
    ),
    "a closure": Place(
        "def outer():\n    v = 1\n    def get(): return v\n    def set_(n):\n        nonlocal v\n        v = n\n"
        "    return get, set_\nget, set_ = outer()",
        "get()",
        "set_({n})",
    ),
    "a name of Python that is hidden": Place("", "ord('a')", "def ord(_): return {n}"),
    "an enum": Place("class E(Enum):\n    A = 1", "E.A.value", "class E(Enum):\n    A = {n}"),
    "a local name": Place("LN = types.SimpleNamespace(a=1)", "(lambda c: c.a)(LN)", "LN.a = {n}"),
    "a choice": Place(
        "CH = 1\nc0, c1 = types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)", "(c0 if CH else c1).a", "c0.a = {n}"
    ),
    "__getattr__": Place(
        'class GA:\n    def __getattr__(self, name): return GD[name]\nGD = {"a": 1}\nga = GA()', "ga.a", 'GD["a"] = {n}'
    ),
}
PLACES |= {
    "a generic function": Place(
        "@functools.singledispatch\ndef sd(a): return 1\n@sd.register\ndef _(a: int): return SD\nSD=2",
        "sd(3)",
        "SD={n}",
    ),
    "a context manager": Place(
        "import contextlib\nCM=1\n@contextlib.contextmanager\ndef cm():\n    yield CM",
        "(lambda c: c.__enter__())(cm())",
        "CM={n}",
    ),
    "a function with a cache": Place("CA=1\n@functools.cache\ndef ca(a): return CA", "ca(CA)", "CA={n}"),
    "an abstract class": Place(
        "import abc\nclass AB(abc.ABC):\n    k = 1\n    @abc.abstractmethod\n    def f(self): ...\n"
        "class AC(AB):\n    def f(self): return self.k\nac = AC()",
        "ac.f()",
        "AB.k = {n}",
    ),
    "a named tuple": Place(
        "from typing import NamedTuple\nclass NT(NamedTuple):\n    a: int\nnt=NT(1)", "nt.a", "nt=NT({n})"
    ),
    "an enum of integers": Place(
        "from enum import IntEnum\nclass IE(IntEnum):\n    A=1", "int(IE.A)", "class IE(IntEnum):\n    A={n}"
    ),
    "a method of an enum": Place(
        "class EM(Enum):\n    A=1\n    def f(self): return EMK*self.value\nEMK=1", "EM.A.f()", "EMK={n}"
    ),
    "a default dict": Place(
        "from collections import defaultdict, deque, OrderedDict, Counter\ndf=defaultdict(int); df['a']=1",
        "df['a']",
        "df['a']={n}",
    ),
    "a deque": Place("from collections import deque\nde=deque([1])", "de[0]", "de[0]={n}"),
    "a counter": Place("from collections import Counter\nco=Counter('a')", "co['a']", "co['a']={n}"),
    "a function of NumPy": Place("mx=np.maximum\nUF=1", "int(mx(UF,0))", "UF={n}"),
    "a function of a module": Place(
        "import math\nfrom math import floor\nMA=1.5", "floor(MA)+int(math.sqrt(4))", "MA={n}"
    ),
    "a logger": Place("import logging\nlog=logging.getLogger('x')\nLO=1", "(log.debug('a') or LO)", "LO={n}"),
    "a fraction": Place("from fractions import Fraction\nfr=Fraction(2,1)", "int(fr)", "fr=Fraction({n})"),
    "a method of a type": Place("up=str.upper\nUP='a'", "ord(up(UP))", "UP=chr(70+{n})"),
    "a bound method of a dict": Place("dg={'a':1}\ngetter=dg.get", "getter('a')", "dg['a']={n}"),
    "super": Place(
        "class S0:\n    k=1\n    def f(self): return self.k\n"
        "class S1(S0):\n    def f(self): return super().f()+1\ns1=S1()",
        "s1.f()",
        "S0.k={n}",
    ),
    "a metaclass": Place(
        "class Me(type):\n    @property\n    def a(cls): return MEK\nMEK=1\nclass Mc(metaclass=Me): pass",
        "Mc.a",
        "MEK={n}",
    ),
    "a pattern": Place(
        "@dataclass\nclass MM:\n    a: int = 1\nmm=MM()\ndef mf(v):\n    match v:\n        case MM(a=n): return n\n",
        "mf(mm)",
        "mm.a={n}",
    ),
    "attrgetter": Place(
        "from operator import attrgetter\nag=attrgetter('a')\nao=types.SimpleNamespace(a=1)", "ag(ao)", "ao.a={n}"
    ),
    "a format": Place("fo=types.SimpleNamespace(a=1)", "int('{0.a}'.format(fo))", "fo.a={n}"),
    "a frozen set": Place("fs=frozenset([1])", "sum(fs)", "fs=frozenset([{n}])"),
    "a mapping proxy": Place("md={'a':1}\nmp=types.MappingProxyType(md)", "mp['a']", "md['a']={n}"),
    "an element type": Place("dt=np.dtype('int32')", "dt.itemsize", "dt=np.dtype('int64' if {n} else 'int8')"),
    "a cached property": Place(
        "class CP:\n    def __init__(s): s.k=1\n    @functools.cached_property\n    def a(s): return s.k\ncp=CP()",
        "cp.a",
        "cp=CP(); cp.k={n}",
    ),
    "a descriptor": Place(
        "class De:\n    def __get__(s,o,t): return DEK\nDEK=1\nclass Dh: d=De()\ndh=Dh()", "dh.d", "DEK={n}"
    ),
    "the function of a kernel": Place(
        "@pto.kernel\ndef kk(x): x.a\nkk.function.a=1", "kk.function.a", "kk.function.a={n}"
    ),
    "a class in a local name": Place("class LC:\n    a=1\ndef lc(c): return c.a", "lc(LC)", "LC.a={n}"),
    "a class in a dict": Place("class D1:\n    a=1\nDD1={'x':D1}", "DD1['x'].a", "D1.a={n}"),
    "starred arguments": Place("LS=[1]", "max(*LS, 0)", "LS[0]={n}"),
    "a default of a lambda": Place("WD=1\nwl=lambda a=WD: a", "wl()", "wl=lambda a={n}: a"),
    "a closure in a closure": Place(
        "def o1(v):\n    def o2():\n        def o3(): return v[0]\n        return o3\n"
        "    return o2()\nbox=[1]\no3=o1(box)",
        "o3()",
        "box[0]={n}",
    ),
    "a subclass of int": Place("class I2(int):\n    pass\ni2=I2(1)", "i2+0", "i2=I2({n})"),
    "an array without dims": Place("z0=np.array(1)", "int(z0)", "z0[()]={n}"),
    "a variable of the environment": Place(
        "import os\nos.environ['PK']='1'", "int(os.environ['PK'])", "os.environ['PK']='{n}'"
    ),
    "a dict of Python": Place("from collections import UserDict\nud = UserDict(a=1)", "ud['a']", "ud['a'] = {n}"),
    "another name of getattr": Place("gt = getattr\nal = types.SimpleNamespace(a=1)", "gt(al, 'a')", "al.a = {n}"),
    "another name of asdict": Place(
        "import dataclasses\nad = dataclasses.asdict\n@dataclass\nclass AD:\n    a: int = 1\nado = AD()",
        "ad(ado)['a']",
        "ado.a = {n}",
    ),
}

WAYS = {
    "the kernel": ("", "pto.tadds(t, t, {read})"),
    "a helper": ("def helper(t): pto.tadds(t, t, {read})", "helper(t)"),
    "a helper of a helper": (
        "def inner(t): pto.tadds(t, t, {read})\ndef middle(t): inner(t)\ndef helper(t): middle(t)",
        "helper(t)",
    ),
    "a function in the kernel": ("", "def local(): return {read}\n    pto.tadds(t, t, local())"),
    "a comprehension": ("", "pto.tadds(t, t, sum([{read} for _ in (1,)]))"),
    "an argument of a helper": ("def helper(t, get): pto.tadds(t, t, get())", "helper(t, lambda: {read})"),
    "a loop": ("def helper(t):\n    for i in pto.range(1):\n        pto.tadds(t, t, {read})", "helper(t)"),
}
"""Where the number is read: definitions, and the statement of the kernel."""


class Notebook:
    """Names that pieces of code define and change, as cells of a notebook do, and a kernel that reads them."""

    def __init__(self, places: list[Place], ways: list[str]) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.reads = [place.read for place in places]
        chosen = [WAYS[way] for way in ways]
        defined = [
            text.format(read=read)
            .replace("helper", f"helper{k}")
            .replace("inner", f"inner{k}")
            .replace("middle", f"middle{k}")
            for k, ((text, _), read) in enumerate(zip(chosen, self.reads, strict=True))
        ]
        called = [
            text.format(read=read).replace("helper", f"helper{k}").replace("local", f"local{k}")
            for k, ((_, text), read) in enumerate(zip(chosen, self.reads, strict=True))
        ]
        body = "".join(f"    {text}\n" for text in called)
        kernel = f"""\
@pto.kernel
def k(x, out):
    t = pto.Tile("vec", "int32", 1, 8)
    pto.tload(t, x)
{body}    pto.tstore(out, t)
"""  # fmt: skip
        for text in (HEAD, *(place.defined for place in places), *defined, kernel):
            self.run(text)

    def run(self, text: str) -> None:
        """Run a cell."""
        exec(snippet.compiled(text, f"cell {next(NUMBERS)}"), self.names)

    def expected(self) -> int:
        """The number that Python reads now."""
        return sum(eval(read, self.names) for read in self.reads)

    def launched(self, **options: Any) -> int:
        x, out = np.zeros(8, "int32"), np.zeros(8, "int32")
        self.names["k"][1](x, out, **options)
        assert (out == out[0]).all()
        return int(out[0])


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were traced, in order."""
    found: list[str] = []
    trace = Kernel._trace

    def counted(kernel: Kernel, *given: Any) -> Any:
        found.append(kernel.name)
        return trace(kernel, *given)

    monkeypatch.setattr(Kernel, "_trace", counted)
    return found


CASES = [
    (title, way)
    for number, title in enumerate(PLACES)
    for at, way in enumerate(WAYS)
    if FUZZ or at == 0 or at == 1 + number % (len(WAYS) - 1)
]
"""In the kernel and in one other way; `make fuzz` has all."""


@pytest.mark.parametrize(("title", "way"), CASES)
def test_a_change_is_seen_by_the_next_launch_and_nothing_else_is_traced(
    title: str, way: str, traces: list[str]
) -> None:
    place, engine = PLACES[title], "auto" if way == "the kernel" else "reference"
    notebook = Notebook([place], [way])
    before = notebook.expected()
    assert [notebook.launched(engine=engine) for _ in range(3)] == [before] * 3
    notebook.run("UNUSED = 3")
    assert notebook.launched(engine=engine) == before
    assert len(traces) == 1
    notebook.run(place.changed.format(n=5))
    after = notebook.expected()
    assert after != before, "the change is one"
    assert notebook.launched(debug=True) == after
    assert [notebook.launched(engine=engine) for _ in range(3)] == [after] * 3
    assert len(traces) == 2


@given(st.data())
def test_a_launch_never_depends_on_what_was_launched_before(data: st.DataObject) -> None:
    titles = data.draw(st.lists(st.sampled_from(sorted(PLACES)), min_size=1, max_size=5, unique=True))
    ways = [data.draw(st.sampled_from(sorted(WAYS))) for _ in titles]
    notebook = Notebook([PLACES[title] for title in titles], ways)
    for _ in range(data.draw(st.integers(1, 6))):
        title, number = data.draw(st.sampled_from(titles)), data.draw(st.integers(0, 6))
        if data.draw(st.booleans()):
            notebook.run(PLACES[title].changed.format(n=number))
        engine = data.draw(st.sampled_from(["auto", "reference"]))
        assert notebook.launched(engine=engine) == notebook.expected() == notebook.launched(debug=True)


@pytest.mark.parametrize("title", ["a function of a function", "an attribute of an object", "an item of a dict"])
def test_everything_that_is_made_of_a_kernel_is_made_again(title: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = PLACES[title]
    notebook = Notebook([place], ["a helper"])
    x = np.zeros(8, "int32")

    def outcomes() -> list[object]:
        kernel = notebook.names["k"]
        found: list[object] = [notebook.launched(engine=engine) for engine in ("native", "reference", "machine")]
        found.append(pto.check(kernel, x, x.copy(), target="a5").ok)
        pto.show(kernel, x, x.copy(), target="a5")
        return [*found, capsys.readouterr().out]

    first = outcomes()
    assert outcomes() == first
    notebook.run(place.changed.format(n=77))
    native, reference, machine, is_ok, text = outcomes()
    assert native == reference == machine == 77 and is_ok
    assert "tadds(t, t, 77)" in str(text) and "tadds(t, t, 77)" not in str(first[-1])


def test_a_change_that_makes_a_kernel_wrong_is_found() -> None:
    notebook = Notebook([PLACES["a function"]], ["a helper"])
    x = np.zeros(8, "int32")
    assert pto.check(notebook.names["k"], x, x, target="cpu").ok
    notebook.run("def fn(): return 2**40")
    assert not pto.check(notebook.names["k"], x, x, target="cpu").ok
    with pytest.raises(pto.VerifyError):
        notebook.launched()


def test_types_count() -> None:
    """1, 1.0 and True are equal, and lead to other programs."""
    notebook = Notebook([Place("TY = 1", "(2 if type(TY) is int else 3)", "")], ["a helper"])
    assert notebook.launched() == 2
    for text, expected in (("TY = 1.0", 3), ("TY = 1", 2), ("TY = True", 3)):
        notebook.run(text)
        assert notebook.launched() == expected


def test_a_module_that_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"scales_{next(NUMBERS)}"
    file = tmp_path / f"{name}.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file.write_text("SCALE = 1\ndef scale(): return SCALE\ndef twice(): return 2 * scale()\n", "utf-8")
    notebook = Notebook([
        Place(f"import {name}", f"{name}.SCALE", ""),
        Place("", f"{name}.twice()", ""),
        Place(f"from {name} import twice", "twice()", ""),
        Place("def late():\n"f"    import {name} as m\n    return m.SCALE", "late()", ""),
        Place("def later():\n"f"    from {name} import scale\n    return scale()", "later()", ""),
    ], ["the kernel", "a helper", "a helper", "the kernel", "a helper"])  # fmt: skip
    assert notebook.launched() == 1 + 2 + 2 + 1 + 1
    file.write_text("SCALE = 100\ndef scale(): return SCALE + 1\ndef twice(): return 3 * scale()\n", "utf-8")
    importlib.invalidate_caches()
    importlib.reload(sys.modules[name])
    assert notebook.expected() == notebook.launched() == notebook.launched(debug=True) == 100 + 303 + 202 + 100 + 101
    sys.modules[name].SCALE = 0  # type: ignore[attr-defined]
    assert notebook.expected() == notebook.launched() == notebook.launched(debug=True)


def test_closures_of_the_kernel_itself() -> None:
    notebook = Notebook([], [])
    notebook.run("""\
def made():
    n = 1
    def change(value):
        nonlocal n
        n = value
    @pto.kernel
    def k(x, out):
        t = pto.Tile("vec", "int32", 1, 8)
        pto.tload(t, x)
        pto.tadds(t, t, n)
        pto.tstore(out, t)
    return k, change
k, change = made()
""")
    assert notebook.launched() == 1
    notebook.names["change"](8)
    assert notebook.launched() == notebook.launched(debug=True) == 8


def test_values_that_are_made_again_are_not_traced_again(traces: list[str]) -> None:
    notebook = Notebook(
        [Place("N = 10**6\nCF = types.SimpleNamespace(a=[2.5, 3], b=0)", "N + CF.a[1]", "")], ["a helper"]
    )
    for _ in range(3):
        notebook.launched()
        notebook.run("N = 10**6 + 0 * id(N)\nCF = types.SimpleNamespace(a=[2.5, 3], b=0)")
    notebook.run("CF.b = 5")  # nobody reads it
    notebook.launched()
    assert len(traces) == 1


def test_a_list_that_is_only_appended_to_is_not_read(traces: list[str]) -> None:
    notebook = Notebook([Place("SEEN = []", "(SEEN.append(1) or 4)", "")], ["a helper"])
    assert [notebook.launched() for _ in range(3)] == [4, 4, 4]
    assert len(traces) == 1


def test_a_kernel_that_changes_what_it_reads_is_traced_each_time() -> None:
    notebook = Notebook([Place("CO = [0]", "(CO.append(0) or len(CO))", "")], ["a helper"])
    assert [notebook.launched() for _ in range(3)] == [2, 3, 4]


def test_the_shape_of_an_array_in_a_closure() -> None:
    notebook = Notebook([], [])
    notebook.run("""\
def made():
    data = np.zeros((3, 200000))
    def change(value):
        nonlocal data
        data = value
    @pto.kernel
    def k(x, out):
        t = pto.Tile("vec", "int32", 1, 8)
        pto.tload(t, x)
        pto.tadds(t, t, data.shape[0])
        pto.tstore(out, t)
    return k, change
k, change = made()
""")
    assert notebook.launched() == 3
    notebook.names["change"](np.zeros((5, 200000)))
    assert notebook.launched() == notebook.launched(debug=True) == 5


def test_an_array_whose_shape_is_read_is_not_kept_alive() -> None:
    notebook = Notebook([PLACES["a shape"]], ["a helper"])
    notebook.launched()
    array = weakref.ref(notebook.names["W"])
    del notebook.names["W"]
    gc.collect()
    assert array() is None


UNSEEN = {
    "a random generator": ("rng = np.random.default_rng(0)", "int(rng.integers(9))", "`rng.integers`"),
    "an iterator": ("it = iter([1, 2, 3])", "next(it)", "`it`"),
    "a generator": ("ge = (n for n in range(9))", "next(ge)", "`ge`"),
    "random numbers of Python": ("import random\nra = random.Random(0)", "ra.randrange(9)", "`ra.randrange`"),
    "a large array": ("la = np.zeros(100_000)", "len(la)", "`la` is an array of 800000 bytes"),
    "a large list": ("li = [[k] for k in range(5000)]", "len(li)", "more than 4096 objects"),
    "a state of a thread": ("import threading\nth = threading.local()\nth.a = 1", "th.a", "`th.a`"),
    "a context variable": ("import contextvars\ncv = contextvars.ContextVar('c', default=1)", "cv.get()", "`cv.get`"),
    "a weak reference": ("import weakref\nclass W: a = 1\nwo = W()\nwr = weakref.ref(wo)", "wr().a", "`wr`"),
    "a weak proxy": ("import weakref\nclass W: a = 1\nwo = W()\nwp = weakref.proxy(wo)", "wp.a", "`wp.a`"),
    "a dict of weak references": (
        "import weakref\nclass W: a = 1\nwo = W()\nwd = weakref.WeakValueDictionary(w=wo)", "wd['w'].a", "KeyedRef"
    ),
    "random numbers of NumPy": ("", "int(np.random.rand() * 9)", "`np.random.rand`"),
    "random numbers of a module that is imported inside": (
        "def il():\n    import numpy\n    return int(numpy.random.rand() * 9)", "il()", "`numpy.random`"
    ),
    "a random generator that is made inside": ("import random", "random.Random().randrange(9)", "`random.Random`"),
    "the time": ("import time", "int(time.time()) % 9", "`time.time`"),
    "a time that is imported inside": (
        "def it():\n    from time import time\n    return int(time()) % 9", "it()", "`time` may depend on more"
    ),
    "the date": ("import datetime", "datetime.datetime.now().year", "`datetime.datetime.now`"),
    "a file": (
        "def fi():\n    with open('/dev/null') as file: return len(file.read())", "fi()", "`open` may depend on more"
    ),
    "a file by its path": ("from pathlib import Path", "len(Path('/dev/null').read_text())", "`Path`"),
    "the level of a logger": (
        "import logging\nlg = logging.getLogger('a')", "int(lg.isEnabledFor(10))", "state of a Logger"
    ),
    "a function that NumPy calls": (
        "fu = np.frompyfunc(lambda a: a, 1, 1)", "int(fu(1))", "`fu` may depend on more"
    ),
    "the time as a text": (
        "def ft():\n    from datetime import datetime\n    return len('{}'.format(datetime.now()))", "ft()", "datetime"
    ),
    "memory that nothing has written": ("", "int(np.empty(1, 'int32')[0]) % 9", "`np.empty`"),
    "the working folder": ("import os", "len(os.path.abspath('a'))", "`os.path.abspath`"),
    "a number that an interpreter has": ("import sys", "sys.getrecursionlimit() % 9", "`sys.getrecursionlimit`"),
    "globals": ("GL = 1", "globals()['GL']", "`globals` can read any name"),
    "eval": ("EV = 1", "eval('EV')", "`eval` can read any name"),
    "a generator in an object": (
        "ob = types.SimpleNamespace(a=1, rng=np.random.default_rng(0))\ndef draw(o): return int(o.rng.integers(9))",
        "draw(ob)",
        "`ob.rng`",
    ),
}  # fmt: skip
"""What cannot be followed: its definition, how it is read, and words of the finding."""


@pytest.mark.parametrize("title", UNSEEN)
def test_what_cannot_be_followed_is_refused(title: str) -> None:
    defined, read, words = UNSEEN[title]
    notebook = Notebook([Place(defined, read, "")], ["a helper"])
    x = np.zeros(8, "int32")
    report = pto.check(notebook.names["k"], x, x, target="cpu")
    assert not report.ok and {(each.rule, each.level) for each in report.findings} == {("KN-21", "error")}
    finding = next(each for each in report.findings if words in each.message)
    assert "pto.const" in finding.fix
    assert all(each.where is not None and each.where.file.startswith("<cell") for each in report.findings)
    with pytest.raises(pto.VerifyError, match="KN-21"):
        notebook.launched()


@pytest.mark.parametrize("read", ["torch.get_num_threads()", "int(torch.rand(1)[0])", "torch.cuda.device_count()"])
def test_what_torch_reads_is_refused(read: str) -> None:
    pytest.importorskip("torch")
    notebook = Notebook([Place("import torch", read, "")], ["a helper"])
    with pytest.raises(pto.VerifyError, match="KN-21"):
        notebook.launched()


@pytest.mark.parametrize(
    "read",
    [
        *("math.isqrt(9)", "int(np.prod([1, 3]))", "len(os.path.join('a', 'b'))", "len(re.sub('a', 'b', 'aaa'))"),
        *("print('', end='', file=sys.stderr) or 3", "logging.getLogger('a').debug('b') or 3"),
        *("made.n()", "len(re.compile('a').sub('b', 'aaa'))", "3 if sys.version_info > (3, 8) else 4"),
        *("3 if isinstance(3, int | float) else 4", "pattern.groups + 3"),
        *("types.SimpleNamespace(a=3).a", "4 if isinstance(math, Enum) else 3", "copy.deepcopy([3])[0]"),
    ],
)
def test_functions_of_libraries_are_called(read: str) -> None:
    names = (
        "import copy, logging, math, os, re, sys, time\npattern = re.compile('a')\nclass Made:\n"
        "    def __init__(self): self.a = 3; self.made = time.time()\n    def n(self): return self.a\nmade = Made()"
    )
    assert Notebook([Place(names, read, "")], ["a helper"]).launched() == 3


def test_objects_that_cannot_be_followed_may_stand_beside_what_is_read() -> None:
    notebook = Notebook(
        [Place("ob = types.SimpleNamespace(a=1, rng=np.random.default_rng(0))\ndef get(o): return o.a", "get(ob)", "")],
        ["a helper"],
    )
    assert notebook.launched() == 1


def test_the_state_is_compared_without_code_of_the_user() -> None:
    """Between launches nothing that a class defines is run."""
    notebook = Notebook([PLACES["a property"], PLACES["__getattr__"], PLACES["an operator"]], ["a helper"] * 3)
    notebook.launched()
    kernel = notebook.names["k"]
    ran: list[object] = []
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        assert kernel._reads.are_current()
    finally:
        sys.setprofile(None)
    assert not [file for file in ran if str(file).startswith("<cell")]
    assert reads.__file__ in ran
