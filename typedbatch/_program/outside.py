"""Effects of functions of Python, its library and numpy on the values that they are given: a row for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Final

import numpy as np

from typedbatch._program import operations, shapes
from typedbatch._program.arrays.sizes import Name, Size, named, number
from typedbatch._program.arrays.values import Array as Known
from typedbatch._program.arrays.values import Layer, Many, Scalar, Several, item_of
from typedbatch._program.batch_arrays import number_of_rows
from typedbatch._program.classes import attribute_of
from typedbatch._program.containers import update, written_dict
from typedbatch._program.frames import Call
from typedbatch._program.heap import BatchObject, DictObject, InstanceObject, ListObject
from typedbatch._program.judge import read_field
from typedbatch._program.machine import Machine
from typedbatch._program.notes import reveal
from typedbatch._program.shipped import shipped
from typedbatch._program.values import (
    ARRAY,
    NONE,
    UNKNOWN,
    Array,
    Atom,
    Class,
    External,
    Literal,
    Partial,
    Ref,
    Result,
    Shaped,
    TypeVariable,
    Value,
    constant,
    is_numeric,
    text_of,
    union,
)  # fmt: skip
from typedbatch.batch import Batch

KEEPS_NOTHING: Final = frozenset({
    "asyncio", "contextlib", "einops", "gymnasium", "jaxtyping", "json", "logging", "math", "numpy", "os", "pathlib",
    "pickle", "pprint", "random", "re", "statistics", "string", "sys", "threading", "time", "torch", "tqdm",
    "typedbatch", "typing", "warnings",
})  # fmt: skip
"""Libraries that neither keep nor change the batches that they are given."""
_MAKE_ARRAYS: Final = frozenset({
    "arange", "array", "as_tensor", "asarray", "empty", "eye", "from_numpy", "full", "linspace", "ones", "rand",
    "randint", "randn", "randperm", "tensor", "zeros",
})  # fmt: skip
"""Functions that return an array whatever they are given, and not a batch for a batch."""
_LONGEST_DISPLAY: Final = 8

_SPECIAL: Final = {
    "abs": ("__abs__",), "bool": ("__bool__", "__len__"), "float": ("__float__",), "hash": ("__hash__",),
    "int": ("__int__", "__index__"), "len": ("__len__",), "print": ("__str__", "__repr__"), "repr": ("__repr__",),
    "round": ("__round__",), "str": ("__str__", "__repr__"),
}  # fmt: skip
"""Special methods that Python's own functions call, of which the first that there is counts."""

_COPYING: Final = ("__copy__", "__deepcopy__", "__setstate__", "__reduce__")

Row = Callable[[Machine, Call], Value]


def call_external(machine: Machine, name: str, call: Call) -> Value:
    """Call something from outside of the program and of this package."""
    row, (root, _, rest) = ROWS.get(name), name.partition(".")
    if root == "builtins" and rest in _SPECIAL:
        machine.call_first_special(union(*call.values()), _SPECIAL[rest], call.node)
    if row is not None:
        return row(machine, call)
    if root == "builtins":
        if rest == "object.__setattr__":
            return _setattr(machine, call)
        if "." in rest:  # A method by its class, as ``list.append``.
            machine.escape_all(call)
        machine.escape_functions(call)
        return UNKNOWN
    if root not in KEEPS_NOTHING:
        if root == "unittest":  # ``mock.patch("module.NAME", 5)``, ``mock.patch.object(module, "NAME", 5)``
            for value in call.args[:2]:
                machine.open_variable((text_of(value) or "").rpartition(".")[2])
        machine.escape_all(call)
        return (Result(name),) if rest else UNKNOWN
    machine.escape_functions(call)
    if name.startswith(("torch.testing.", "numpy.testing.", "torch._check")):
        for value in call.values():
            operations.take_question(machine, value)
    if root in ("einops", "numpy", "torch"):
        is_plain = all(machine.is_plain(value) for value in call.values())
        is_known = is_plain or name.startswith(("torch.nn.", "torch.compile", "torch.jit."))
        known = operations.call_function(machine, name, call) if is_known else None
        if known:
            return known
        if rest in _MAKE_ARRAYS:
            if not is_plain:  # An array of objects holds them.
                machine.escape_all(call)
            return ARRAY if is_plain else UNKNOWN
        if not is_plain:
            is_elementwise = root == "numpy" and isinstance(getattr(np, rest, None), np.ufunc)
            return machine.copied(call.first) if is_elementwise and call.first is not None else UNKNOWN
    return (Result(name),)


def _text(machine: Machine, call: Call) -> Value:
    """Return a text as it is, and anything for other values."""
    machine.escape_functions(call)
    return call.first or UNKNOWN if text_of(call.first) is not None else UNKNOWN


def _type_variable(machine: Machine, call: Call) -> Value:
    bound = call.named.get("bound", ())
    cls = bound[0] if len(bound) == 1 else None
    return (TypeVariable(cls),) if isinstance(cls, (Class, External)) else (Result("typing.TypeVar"),)


def _choice(machine: Machine, call: Call) -> Value:
    """Choose an item, which may be the name of a field, or a number below one."""
    machine.escape_functions(call)
    first = call.first or UNKNOWN
    return ARRAY if all(map(is_numeric, first)) else machine.iterate(first, call.node)[1]


def _duplicate(machine: Machine, call: Call) -> Value:
    """Copy batches, and the outermost of other objects."""
    copied: list[Atom] = []
    for atom in call.first or UNKNOWN:
        found = machine.object_at(atom)
        if isinstance(atom, Ref) and isinstance(found, BatchObject):
            copied.append(machine.copy_batch(atom))
        elif isinstance(found, InstanceObject) and any(attribute_of(found.owner, name) for name in _COPYING):
            machine.escape((atom,))
            copied.append(UNKNOWN[0])
        elif isinstance(found, (ListObject, DictObject, InstanceObject)):
            copied.append(machine.heap.add(found.copy()))
        else:
            copied.append(atom if found is None else UNKNOWN[0])
    return tuple(copied)


def _duplicate_deeply(machine: Machine, call: Call) -> Value:
    """Copy batches and other objects. What these hold stands for itself and its copy."""
    copied = _duplicate(machine, call)
    machine.stand_for_several(tuple(atom for atom in copied if not machine.is_batch(atom)))
    return copied


def _partial(machine: Machine, call: Call) -> Value:
    if call.first is None or call.has_more or call.is_starred:
        machine.escape_all(call)
        return UNKNOWN
    return (Partial(call.first, tuple(call.args[1:]), tuple(call.named.items())),)


def _any_list(machine: Machine, call: Call) -> Value:
    """Make a list of the items of the first argument, in any order and number."""
    return machine.list_of(None, machine.iterate(call.first, call.node)[1] if call.first is not None else ())


def _list(machine: Machine, call: Call) -> Value:
    if call.first is None:
        return machine.list_of(())
    items, element = machine.iterate(call.first, call.node)
    return machine.list_of(items, element)


def _dict(machine: Machine, call: Call) -> Value:
    made = machine.dict_of({})
    ref = made[0]
    assert isinstance(ref, Ref)
    for value in call.args:
        update(machine, ref, value)
    written = written_dict(machine, ref)
    written.items.update(call.named)
    if call.has_more:
        written.is_exact, written.rest = False, UNKNOWN
    return made


def _defaultdict(machine: Machine, call: Call) -> Value:
    rest = machine.call(call.first, Call(node=call.node)) if call.first is not None else UNKNOWN
    return (machine.heap.add(DictObject({}, is_exact=False, rest=rest, has_default=True)),)


def _thread(machine: Machine, call: Call) -> Value:
    target = call.named.get("target")
    args = call.named.get("args")
    items = machine.iterate(args, call.node)[0] if args is not None else ()
    if target is not None and items is not None and "kwargs" not in call.named:
        machine.start(target, Call(list(items)))
    else:
        machine.escape_all(call)
    return (Result("threading.Thread"),)


def _first(machine: Machine, call: Call) -> Value:
    return call.first or UNKNOWN


def _gather(machine: Machine, call: Call) -> Value:
    return machine.list_of(None if call.is_starred else call.args, union(*call.args))


def _cast(machine: Machine, call: Call) -> Value:
    return call.get(1, "val") or UNKNOWN


def _chain(machine: Machine, call: Call) -> Value:
    return machine.list_of(None, union(*(machine.iterate(value, call.node)[1] for value in call.args)) or UNKNOWN)


def _sorted(machine: Machine, call: Call) -> Value:
    element = _ordered(machine, call)
    return machine.list_of(None, element)


def _ordered(machine: Machine, call: Call) -> Value:
    """Return what an item of the first argument may be, after the function ``key`` was called with it."""
    element = machine.iterate(call.first, call.node)[1] if call.first is not None else UNKNOWN
    if "key" in call.named and element:
        machine.call(call.named["key"], Call([element], node=call.node))
    return element


def _extreme(machine: Machine, call: Call) -> Value:
    if len(call.args) == 1:
        return union(_ordered(machine, call), call.named.get("default", ()))
    return union(*call.args) if call.args else UNKNOWN


def _filter(machine: Machine, call: Call) -> Value:
    if len(call.args) != 2:
        return UNKNOWN
    element = machine.iterate(call.args[1], call.node)[1]
    if call.args[0] != NONE:
        machine.call(call.args[0], Call([element], node=call.node))
    return machine.list_of(None, element)


def _next(machine: Machine, call: Call) -> Value:
    if call.first is None:
        return UNKNOWN
    element = machine.iterate(call.first, call.node)[1]
    return union(element or UNKNOWN, call.args[1] if len(call.args) > 1 else ())


def _enumerate(machine: Machine, call: Call) -> Value:
    if call.first is None:
        return UNKNOWN
    items, element = machine.iterate(call.first, call.node)
    any_pair = machine.list_of([ARRAY, union(element, *(items or ()))])
    if items is None or len(items) > _LONGEST_DISPLAY:
        return machine.list_of(None, any_pair)
    return machine.list_of([machine.list_of([ARRAY, item]) for item in items], any_pair)


def _zip(machine: Machine, call: Call) -> Value:
    if call.is_starred:
        return UNKNOWN
    arrays = [shapes.array_in(value) for value in call.args]
    known_arrays = [array for array in arrays if array is not None and array.axes]
    if arrays and len(known_arrays) == len(arrays):
        sizes = [array.axes[0].size for array in known_arrays if array.axes]
        count = sizes[0] if all(size == sizes[0] for size in sizes) else None
        return (Shaped(Many(Several(tuple(map(item_of, known_arrays))), count)),)
    given = [machine.iterate(value, call.node) for value in call.args]
    any_tuple = machine.list_of([union(element, *(items or ())) for items, element in given])
    known = [items for items, _ in given if items is not None]
    if not given or len(known) < len(given):
        return machine.list_of(None, any_tuple)
    return machine.list_of([machine.list_of(row) for row in zip(*known, strict=False)], any_tuple)


def _map(machine: Machine, call: Call) -> Value:
    if len(call.args) < 2:
        return UNKNOWN
    guards, mark = machine.guards, machine.heap.begin()
    machine.guard()
    inner = Call([machine.iterate(value)[1] for value in call.args[1:]], node=call.node)
    with machine.silently() if call.node in machine.later else nullcontext():
        element = machine.call(call.args[0], inner)
    machine.guards = guards
    machine.heap.apply(machine.heap.join({}, machine.heap.end(mark)))
    return machine.list_of(None, element)


def _setattr(machine: Machine, call: Call) -> Value:
    if len(call.args) < 2:
        return NONE
    name = text_of(call.args[1])
    if name is not None:
        if any(atom in UNKNOWN or isinstance(atom, (External, Result)) for atom in call.args[0]):  # It may be a module.
            machine.open_variable(name)
        machine.set_attribute(call.args[0], name, call.args[2] if len(call.args) > 2 else UNKNOWN, call.node)
    else:
        machine.may_have(call.args[0], None)
        _forget(machine, call.args[0])
        machine.are_layers_changed |= isinstance(shapes.lift(machine, union(*call.args[2:])), Layer)
    return NONE


def _forget(machine: Machine, value: Value) -> None:
    """Take it that the attributes of instances and classes may be anything else, too."""
    for atom in value:
        if isinstance(atom, Ref) and isinstance(machine.object_at(atom), InstanceObject):
            machine.forget_attributes(atom)
        elif isinstance(atom, Class):
            atom.attributes = {name: union(one, UNKNOWN) for name, one in atom.attributes.items()}


def _hasattr(machine: Machine, call: Call) -> Value:
    name = text_of(call.args[1]) if len(call.args) > 1 else None
    answer = machine.asked(call.first or UNKNOWN, name)
    return UNKNOWN if name is not None and hasattr(Batch, name) else answer


def _getattr(machine: Machine, call: Call) -> Value:
    name = text_of(call.get(1, "name"))
    if name is None or call.first is None:
        # What is called may be any method.
        instances = (atom for atom in call.first or () if isinstance(machine.object_at(atom), InstanceObject))
        return (*UNKNOWN, *(Partial(UNKNOWN, ((atom,),), ()) for atom in instances))
    if len(call.args) < 3:
        return machine.attribute(call.first, name, call.node)
    machine.may_have(call.first, name)
    if any(machine.is_batch(atom) for atom in call.first):
        return union(read_field(machine, call.first, name, call.node, is_asked=True), call.args[2])
    return union(machine.attribute(call.first, name, None), call.args[2])


def _lets_go(machine: Machine, call: Call) -> Value:
    machine.escape_all(call)
    return UNKNOWN


def _executes(machine: Machine, call: Call) -> Value:
    machine.escape_all(call)
    machine.escape_scopes(machine.frame.scope, machine.frame.source)
    machine.open_constants(machine.frame.source)
    return UNKNOWN


def _isinstance(machine: Machine, call: Call) -> Value:
    if len(call.args) < 2:
        return UNKNOWN
    value, classes = call.args[0], call.args[1]
    cls = classes[0] if len(classes) == 1 and isinstance(classes[0], External) else None
    is_plain_batch = cls is not None and shipped(cls.name) is Batch
    if cls is not None:
        other = cls.name.partition(".")[0] in ("builtins", "numpy", "torch") and cls.name != "builtins.object"
        if all(machine.is_batch(atom) for atom in value) and (is_plain_batch or other):
            return constant(is_plain_batch)
        if is_plain_batch and all(isinstance(atom, (Array, Literal)) for atom in value):
            return constant(False)
    if not is_plain_batch:
        machine.may_have(value, None)
    return UNKNOWN


def _type(machine: Machine, call: Call) -> Value:
    machine.escape_functions(call)
    return machine.class_of(call.first) if len(call.args) == 1 and call.first else UNKNOWN


def _vars(machine: Machine, call: Call) -> Value:
    _forget(machine, call.first or ())
    return _lets_go(machine, call)


def _number(machine: Machine, call: Call) -> Value:
    machine.escape_functions(call)
    return ARRAY


def _range(machine: Machine, call: Call) -> Value:
    machine.escape_functions(call)
    bounds = [one if isinstance(one := shapes.lift(machine, value), Size) else None for value in call.args]
    index = named(Name("i", machine.next_frame(), opaque=True))
    count = bounds[0] if len(bounds) == 1 else None
    if len(bounds) > 1 and bounds[0] == number(0):  # One round at least, if there is one.
        count = bounds[1] if len(bounds) == 2 else _steps(bounds[1], bounds[2])
    return (Shaped(Many(index, count)),)


def _steps(stop: Size | None, step: Size | None) -> Size | None:
    """Return the rounds of ``range(0, stop, step)``."""
    if stop is None or step is None or stop.number is None or not step.number or step.number < 0:
        return None
    return number(-(-stop.number // step.number))


def _length(machine: Machine, call: Call) -> Value:
    held = shapes.lift(machine, call.first or ())
    size = held.axes[0].size if isinstance(held, Known) and held.axes else number_of_rows(machine, call.first or ())
    return _number(machine, call) if size is None else shapes.lower(size)


def _scalar(machine: Machine, call: Call) -> Value:
    machine.escape_functions(call)
    return (Shaped(Scalar()),)


ROWS: Final[Mapping[str, Row]] = {
    **dict.fromkeys(("copy.deepcopy", "pickle.dumps", "pickle.loads"), _duplicate_deeply),
    **dict.fromkeys(("threading.Thread", "threading.Timer", "multiprocessing.Process"), _thread),
    **dict.fromkeys(
        ("asyncio.Queue", "multiprocessing.Queue", "queue.LifoQueue", "queue.PriorityQueue", "queue.Queue",
         "queue.SimpleQueue"), lambda machine, call: machine.list_of(None)
    ),
    **dict.fromkeys(
        ("asyncio.create_task", "asyncio.ensure_future", "asyncio.run", "asyncio.shield", "asyncio.wait_for"), _first
    ),
    **dict.fromkeys(
        ("contextlib.closing", "contextlib.nullcontext", "numpy.random.shuffle", "random.shuffle"), _lets_go
    ),
    **dict.fromkeys(("builtins.eval", "builtins.exec", "builtins.globals", "builtins.locals"), _executes),
    **dict.fromkeys(("builtins.list", "builtins.tuple"), _list),
    **dict.fromkeys(
        ("builtins.frozenset", "builtins.iter", "builtins.reversed", "builtins.set", "collections.deque",
         "itertools.cycle", "itertools.islice"), _any_list
    ),
    **dict.fromkeys(("builtins.dict", "collections.OrderedDict"), _dict),
    **dict.fromkeys(("builtins.max", "builtins.min"), _extreme),
    **dict.fromkeys(
        ("builtins.abs", "builtins.int", "builtins.round"), _number
    ),
    "asyncio.gather": _gather,
    "builtins.range": _range,
    "builtins.float": _scalar,
    "builtins.len": _length,
    **dict.fromkeys(
        ("math.cos", "math.exp", "math.fabs", "math.log", "math.log10", "math.log2", "math.pow", "math.sin",
         "math.sqrt"), _scalar
    ),
    "builtins.enumerate": _enumerate,
    "builtins.filter": _filter,
    "builtins.getattr": _getattr,
    "builtins.hasattr": _hasattr,
    "builtins.isinstance": _isinstance,
    "builtins.map": _map,
    "builtins.next": _next,
    "builtins.setattr": _setattr,
    "builtins.str": _text,
    "builtins.sorted": _sorted,
    "builtins.type": _type,
    "builtins.vars": _vars,
    "builtins.zip": _zip,
    "collections.defaultdict": _defaultdict,
    "copy.copy": _duplicate,
    "functools.partial": _partial,
    "itertools.chain": _chain,
    "numpy.random.choice": _choice,
    **dict.fromkeys(("typing.reveal_type", "typing_extensions.reveal_type"), reveal),
    **dict.fromkeys(("typing.TypeVar", "typing_extensions.TypeVar"), _type_variable),
    "typing.cast": _cast,
}  # fmt: skip
"""Functions by their full names. Others of Python's own leave their arguments as they are and return anything."""
