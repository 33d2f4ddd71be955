# ruff: noqa: C408, C417, E402, E501, E701, E702, F403, F405, I001, PIE800, PIE804, PT018, RET502, RUF009
# ruff: noqa: RUF015, RUF021, UP007, UP036, UP045
# fmt: off
"""Every way to write ``Batch`` that the plugin may not expect. Much of it is wrong, and none of it is ever run."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import copy
import dataclasses
import enum
import functools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import (
    TYPE_CHECKING, Any, Concatenate, Generic, Literal, NamedTuple, Optional, ParamSpec, Protocol, Self, TypeAlias,
    TypedDict, TypeVar, Union, cast, overload,
)

import numpy as np

import typedbatch
import typedbatch as tb
from typedbatch import Batch, BatchProtocol, BatchRecord, DynamicBatch, cat, conforms, convert, extend, stack, validate
from typedbatch import Batch as Renamed

if TYPE_CHECKING:
    from typedbatch import Batch as Late
elif sys.platform == "win32":
    from nowhere import Batch as Late
else:
    Late = None
try:
    from nowhere import Batch as Tried
except ImportError:
    from typedbatch import Batch as Tried

P = ParamSpec("P")
R = TypeVar("R")
B = TypeVar("B", bound=Batch)
OneOf = TypeVar("OneOf", Batch, int)
Alias: TypeAlias = Batch
OldAlias = Batch
Maybe = Optional[Batch]
Nested = Union[Batch, dict[str, "Nested"], list["Nested"]]
Made: type[Batch] = Batch
x, flag, name, items = [1.0], bool(x), str(x), [{"a": 1}]


functools.partial(Batch, obs=1)().obs
functools.partial(Batch, {"obs": 1}, copy=True)(act=2).act
list(map(Batch, items))[0].a
[*map(lambda d: Batch(d).a, items)]
(lambda: Batch(obs=1))().obs
[lambda b=Batch(obs=1): b.act]
(Batch if flag else Renamed)(obs=1).obs
[Batch, Renamed][0](obs=1).obs
{"b": Batch}["b"](obs=1).obs
typedbatch.Batch(a=1).a, tb.batch.Batch(a=1).a, Alias(a=1).a, OldAlias(a=1).b, Made(a=1).b, Late(a=1).b, Tried(a=1).b
type(Batch())(obs=1).obs
Batch().__class__(obs=1).obs
Batch.__call__(obs=1)
Batch.__new__(Batch).obs
Batch.__init__(Batch(), obs=1)
Batch.obs, Batch.shape, Batch.__name__, Batch.cat([Batch(a=1)]).a
Batch.obs = 1
del Batch.obs
getattr(Batch(obs=1), "obs").x, getattr(Batch(), name), setattr(Batch(), "a", 1), delattr(Batch(a=1), "a")
Batch(*x), Batch(*x, **{"a": 1}), Batch(**{"a": 1, **{"b": 2}}), Batch(**Batch(a=1)), Batch({**Batch(a=1)}), Batch(1, 2, 3)
Batch({*()}), Batch(obs=1, **{"obs": 2}), Batch({"a": 1}, a=2), Batch(Batch(Batch(a=1))).a, Batch(...), Batch(None)
Batch([{"a": 1}, {"b": {"c": 2}}, *items]).b.c, Batch([Batch(a=1), {"a": 2}]).a, Batch(({"a": 1},)).a, Batch([[]]), Batch([])
Batch({1: 2, None: 3, ("a",): 4, f"{name}": 5, name: 6, "": 7, "a b": 8}), Batch(dict(a=1, **{"b": 2}), b=dict()).b.c
Batch(a=Batch, b=type, c=NotImplemented, d=..., e=lambda: Batch(), f=(yes := 1), g=not x, h=b"", i=1j, j=print).e().x
Batch(a=[Batch(b=[Batch(c=1)])]).a.b.c.d, Batch(a={"b": {"c": {"d": {}}}}).a.b.c.d.e, Batch(a=(1, Batch())).a, Batch(a=undefined).b
cat([]), cat([Batch(), {}]), cat((Batch(a=1),)).a, cat(*[[Batch()]]), stack([*items]), stack([Batch(a=1), {"b": 1}], axis=0), cat(), cat(1)
extend(Batch(), Batch), extend(Batch(a=1)), extend(), extend(Batch(a=1), BatchProtocol, a=1, **{"b": 1}), extend(*[Batch()]), extend(1, int, a=1)
convert(Batch(a=1), BatchProtocol), convert(Batch), validate(Batch(a=1), Batch).a, conforms(Batch(), int), convert(Batch(), Literal[1], None)
Batch(a=1).b.c.d(), Batch(a=1)["b"]["c"], Batch(a=1)[0][1:][..., None][x].a, Batch(a=1)[Batch()], Batch(a=1)["a", 0], Batch()[b""]
Batch(a=1).get("a"), Batch(a=1).get(name, 1), Batch().pop("a").b, Batch(a=1).setdefault(name), Batch(a=1).update(1), Batch().update(a=1, **{})
(Batch(a=1) + Batch(b=1)).c, (-Batch(a=1)).b, Batch(a=1) == 1, Batch(a=1) @ 2, Batch() and Batch(a=1).b, not Batch(), [*Batch(a=1)], {**Batch(a=1)}

one = two = Batch(a=1)
one.b, two.c = 1, 2
(one.d, [two.e, *two.f]) = 1, [2, 3]
one, two = two, one
one, *rest = Batch(a=1), Batch(b=1), Batch(c=1)
one.a += 1
one.z += 1
one["a"] += 1
one[0], one["y"], one[name], one[0:1] = Batch(), 1, 2, {"a": 1}
del one.a, one["b"], one[0], (two.a, two.b)
del (one), two
for one in [Batch(a=1), Batch(b=1)]: one.c = one.a
for one.d in range(3): one.d
for one["e"], (two, *one.f) in []: pass
with open(name) as one.g, contextlib.nullcontext(Batch(a=1)) as two, contextlib.nullcontext((1, 2)) as (one.h, one["i"]): two.a
if (walrus := Batch(a=1)).b and (again := walrus.copy()).a: again.c
[b.c for b in [Batch(a=1)] if b.a for b.d in [1]], {b.a: b.b for b in Batch(a=1)}, {(b := Batch(z=1)).z for _ in x}
try: one.risky
except AttributeError as one: one.error
try: one.risky
except* (ValueError, KeyError) as one: one.exceptions
one.__dict__["a"], one.__class__, one.__class__ = Batch, one.__doc__, one.__getattr__("a")
one.annotated: int = 1
one.bare: Batch
one: int = 3
global_only: Batch
global_only.a


def defaults(a: Batch = Batch(obs=1), /, *b: Batch, c: Maybe = Batch(), d=Batch(x=1), **e: Batch) -> Any:
    a.obs, a.act, b[0].x, c.x, d.x, d.y, e["a"].x, e.x
    a = b = c = d = Batch(e=e, a=a)
    a.a.x, (lambda: a.e)(), [a.q for a in [a]], a.a.new
    global one
    one = Batch(g=1)
    one.g, one.h
    return a if c else b or d and c

def logged(*made: Batch, **more: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    return lambda f: functools.wraps(f)(lambda *args, **kwargs: f(*args, **kwargs))

def with_batch(f: Callable[Concatenate[Batch, P], R]) -> Callable[P, R]:
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        made = Batch(args=args, kwargs=kwargs, **kwargs)
        made.args, made.other
        return f(made, *args, **kwargs)
    return inner

@logged(Batch(obs=1), key=Batch(a=1).b)
@with_batch
@functools.lru_cache
def decorated(b: Batch, n: int = Batch(n=1).n) -> int:
    b.obs = n
    return b.obs or decorated(n) or decorated(Batch(), n=Batch().n)

@Batch
def decorated_by_the_class(b=1): return b
decorated_by_the_class.b

@Batch(obs=1).act
class DecoratedByAField: batch = Batch(obs=1)

@overload
def over(b: Batch) -> Batch: ...
@overload
def over(b: dict[str, Any], *, c: Literal[True] = ...) -> int: ...
def over(b: Any, *, c: Any = Batch()) -> Any: return over(Batch(a=1)) or over({"a": 1}) if b.c else c.d
over(Batch(a=1)).b, over(Batch(a=1), c=1), over(*[Batch(a=1)])

def generic(b: B, c: type[B], d: OneOf, *more: B) -> tuple[B, ...]:
    b.x, c(a=1).a, c.x, d.x, more[0].x
    b.x = 1
    b = Batch(a=1)
    b = c(a=1)
    return b, c(), d, *more, generic(Batch(a=1), Batch, 1)[0], generic(c=c, b=b, d=Batch(e=1))
generic(Batch(a=1), Batch, Batch(b=1))[0].a, generic[Batch](1)

def narrowing(b: Batch | int | None, c: object, d: Nested) -> None:
    if isinstance(b, Batch) and b.x or isinstance(c, (Batch, dict)) and c.x: b.y, c.y
    if not isinstance(b, Batch): b.x; return
    if conforms(c, BatchProtocol) and type(c) is Batch and callable(c) and hasattr(c, "q"): c.q, c.r
    made = Batch(a=1, b=None, c=Batch() if c else None)
    if made.b is None: made.b = Batch(d=1)
    assert made.b is not None and made.b.d and isinstance(made.c, Batch) and issubclass(type(made), Batch), made.msg
    while made.c: made = made.c; made.e = made; del made.a; made = made.zz or Batch(made)
    else: made.a
    match made:
        case Batch(a=1, b=Batch(c=z)) as whole if whole.a: whole.b.c, z.x
        case Batch(made.a) | {"a": made.b} | [*_]: made.a
        case {"k": Batch() as inner, **others}: inner.k, others["k"].x
        case Batch.shape | made.b | None: made.c
        case Batch(): made.d
        case made: made.e
    del made
    made.a
    cast(Batch, c).x, cast("Batch", c).x, cast(Any, Batch(a=1)).b, cast(B, c).x, copy.copy(made).a, copy.deepcopy(Batch(a=1)).b
    raise Batch(error=1).error from Batch().cause
    unreachable = Batch(a=1)
    unreachable.b, unreachable.update(c=1), narrowing(unreachable.x, *unreachable)
    def after() -> None: unreachable.c, made.x
    return Batch(a=1).b

def closures(b=Batch(a=1)):
    made, later = Batch(a=1), lambda: made.b
    def inner(made=made):
        nonlocal later
        made.c, later.d, closures().e
        later = Batch(d=made)
        class Local(Batch): made = Batch(x=1); made.y
        def deeper(): nonlocal made; made = Local(); return made.made.y, deeper()
        return Local(), deeper, inner
    made.b = 1
    later = Batch(later=later)
    return inner()[0].made.x, made.b, later.later.later, closures(b.c)

def generator(b: Batch) -> Iterator[Batch]:
    got = yield Batch(a=1)
    got.a, (yield got).b, (yield from generator(Batch(c=1))).d
    for made in generator(b): made.a; made.c = yield made; del made.c
    yield from (Batch(i=i) for i in range(3) if Batch(i=i).j)
    return Batch(a=1)

async def asynchronous(b: Awaitable[Batch], many: AsyncIterator[Batch]) -> Batch:
    made = await b
    made.x, (await b).x, [c.x async for c in many if c.y], await asyncio.gather(asynchronous(b, many), b)
    async for made.c in many: made.c.d
    async for made in many: made.a = await asynchronous(made, many)
    async with Batch(a=1) as made, Batch(b=1).b as (made.x, *made.y): made.z
    async def inner(): yield Batch(a=1); await asynchronous(inner(), inner()); made.b
    return Batch(a=await b, **await b)

def ping(n: int): made = Batch(p=pong(n)); made.q = ping(n); return made.p.q
def pong(n: int): made = Batch(q=ping(n)); made.p = pong(n); return later_defined(made).z
def later_defined(b: "LaterClass") -> "LaterClass": b.batch.x = later_batch.y; return LaterClass(b.batch.x).batch
later_batch = Batch(a=later_defined)
later_batch.x = later_batch

class LaterClass:
    first = Batch(a=1)
    second, third = first.a, first.b
    first.c = third
    __slots__ = ("batch", "other")
    for i in range(3): first[i] = Batch(i=i).j
    if flag: conditional = Batch(a=1)
    def __init__(self, b: Any = None) -> None:
        self.batch = self.other = Batch(a=1)
        self.batch.x, self.late.y, self.first.z, self.other.batch.a = 1, 2, 3, 4
        self.early()
    def early(self): self.late = Batch(a=self.mutual()); return self.late.a, self.undefined.a
    def mutual(self): return self.early() or self.late.b or self.prop.c
    @property
    def prop(self): return Batch(a=self.mutual())
    @prop.setter
    def prop(self, value: Batch): value.a = self.prop.b; self.prop.c = value
    @functools.cached_property
    def cached(self) -> Batch: self.cached.x = 1; return Batch(a=1)
    @classmethod
    def made(cls, b=Batch()): cls.first = Batch(b=1); cls.first.c; return cls().first.d
    @staticmethod
    def static(self): self.x = Batch(a=1); self.x.b; del self.x.b, self.x
    def __getattr__(self, name: str) -> Batch: return Batch(name=name).other

class Plain(Batch): ...
class Declared(Batch):
    obs: np.ndarray[Any, Any]
    act: Batch = Batch(a=1)
    def __init__(self, **fields: Any) -> None: super().__init__(**fields, a=super().obs); super().x.y; self.z = super().z
    def read(self) -> Self: self.new = self.obs.x; self.act.b; return self.copy()[0].read().nope
class Dynamic(Declared, DynamicBatch):
    def __getattr__(self, name: str) -> int: return super().__getattr__(name)
    def __setattr__(self, name: str, value: Any) -> None: super().__setattr__(name, Batch(value=value).x)
class Record(BatchRecord):
    obs: np.ndarray[Any, Any]
    act: Batch = Batch()
class GenericBatch(Batch, Generic[R]): value: R
class Meta(type):
    batch = Batch(a=1)
    def __call__(cls, *args: Any, **kwargs: Any) -> Batch: return Batch(*args, **kwargs)
    def __getattr__(cls, name: str) -> Batch: return cls.batch.b
class OfMeta(metaclass=Meta, batch=Batch(a=1)): ...
class MetaBatch(Batch, metaclass=abc.ABCMeta):
    @abc.abstractmethod
    def obs(self) -> Batch: return super().obs()
Plain(a=1).a, Plain.a, Plain(a=1)[0].b, Declared(obs=1).act.b, Declared().new, Dynamic(a=1).b, OfMeta(a=1).a, OfMeta.x.y
MetaBatch(a=1).b, GenericBatch[int](value=1).value, GenericBatch[Batch](a=1).value.x, Batch[int](a=1), Batch[Any, int]().x
Record(obs=1, act=2).new, Record().obs.x, cat([Plain(), Declared(), Batch()]).x, stack([Record(obs=1)]).y, extend(Plain(a=1), Record, obs=1)
plain = Plain(a=1)
plain.a, plain.b, plain.c = plain, Batch(a=plain), 1
del plain.a, plain["b"], plain

@dataclasses.dataclass
class Data:
    batch: Batch
    made: Batch = dataclasses.field(default_factory=lambda: Batch(a=1))
    shared: Batch = Batch(a=1)
    def __post_init__(self) -> None: self.batch.x = self.made.y; self.shared.z, dataclasses.replace(self, batch=Batch(q=1)).batch.q
class Tuple(NamedTuple):
    batch: Batch = Batch(a=1)
    other: "Tuple | None" = None
class Typed(TypedDict, total=False):
    batch: Batch
    inner: "Typed"
class Kind(enum.Enum):
    one = Batch(a=1)
    two = one.b
class Asks(Protocol[R]):
    batch: Batch
    def obs(self) -> R: return Batch(a=self.batch.x).b
class Box(Generic[B]):
    def __init__(self, b: B, *more: "Box[B]") -> None: self.b = b; self.b.x = more[0].b.y; self.c = Batch(b=self.b); self.c.d
    def get(self) -> B: return self.b or self.c or Box(Batch(a=1)).get().b
typed: Typed = {"batch": Batch(a=1), "inner": {"batch": Batch()}}
Data(Batch(a=1)).made.b, Tuple().batch.b, Tuple(Batch(c=1))[0].d, typed["batch"].b, Batch(typed).inner.batch.x, Batch(**typed).y
Kind.one.value.a, Kind["two"].value.x, Box(Batch(a=1)).b.c, Box[Plain](Plain()).get().x, Batch(d=Data, t=Tuple(), k=Kind.one).t.x
asks: Asks[Batch] = Batch(batch=1, obs=lambda: 1)
asked: BatchProtocol = Batch(a=1)
asked.a, asks.obs().x
wanted: Callable[..., Batch] = Batch
wanted(a=1).b, (wanted or Batch)(a=1).b

def hides(Batch: Any = Batch, cat=cat) -> None: Batch(a=1).b, cat([Batch(a=1)]).c
class Batch(Batch): inner = Batch(a=1)  # type: ignore[no-redef]
Batch(a=1).b
Batch = dict
Batch(a=1).b
from typedbatch import *
from typedbatch import Batch
Batch(a=1).b
del Batch
Batch(a=1).b
if sys.version_info < (3, 8):
    Batch(a=1).never
reveal_type("the end")
