"""Forms of statements that random packages are written from, each with its kind.

A form is filled in as ``str.format`` does. ``{b}`` and ``{c}`` are batches that are in scope, ``{v}`` and ``{u}`` local
names of batches, ``{l}`` a list of batches, ``{d}`` a dict of batches, ``{L}`` and ``{D}`` the same as
local names, ``{h}`` an object that holds batches. ``{f}``
and ``{g}`` are fields, ``{o}`` is a nested batch, ``{m}`` a field of one. ``{F}`` and ``{G}`` are flags, ``{w}`` is a
new batch, and ``{n}`` a number that no other statement has. The other slots are functions, by their role.
"""

from __future__ import annotations

from typing import TypeAlias

Forms: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of a kind and a form."""

FIELDS = ("act", "rew", "rwe", "adv")
"""Fields of batches."""
NESTED = ("obs", "info")
INNER = ("cam", "cma", "pos")
"""Fields of nested batches."""
SLIPS = ("rwe", "cma")
"""Those of the fields that are slips of others."""

READS: Forms = (
    *(("read", "{b}.{f}"),) * 6,
    *(("read-item", '{b}["{f}"]'),) * 4,
    *(("read-nested", "{b}.{o}.{m}"),) * 3,
    ("read-nested", '{b}["{o}"]["{m}"]'),
    ("read-nested", '{b}.{o}["{m}"]'),
    ("read-slice", "{b}[:2].{f}"),
    ("read-row", "{b}[0].{f}"),
    ("read-copy", "{b}.copy().{f}"),
    ("read-copied", "copy.copy({b}).{f}"),
    ("read-copied", "copy.deepcopy({b}).{f}"),
    ("read-made", "Batch({b}).{f}"),
    ("read-made", "Batch({b}, {g}=A).{f}"),
    ("read-joined", "cat([{b}, {b}]).{f}"),
    ("read-joined", 'cat([{b}, {c}], missing="pad").{f}'),
    ("read-joined", "stack([{b}, {c}]).{f}"),
    ("read-comprehension", "[t.{f} for t in {b}]"),
    ("read-comprehension", "[t.{f} for t in {b}.split(2)]"),
    ("read-comprehension", "[t.{f} for t in [{b}, {c}]]"),
    ("read-comprehension", '{{k: t.{f} for k, t in {{"a": {b}, "b": {c}}}.items()}}'),
    ("read-comprehension", "[t.{f} for t in {l}]"),
    ("read-choice", "({b} if {F} else {c}).{f}"),
    ("read-choice", "{F} and print({b}.{f})"),
    ("read-member", '{b}["values"]'),
    ("read-member", '{b}["items"]'),
    ("read-list", "{l}[0].{f}"),
    ("read-list", "{l}[-1].{f}"),
    ("read-table", '{d}["k"].{f}'),
    ("read-lambda", "(lambda: {b}.{f})()"),
    ("read-lambda", "(lambda t: t.{f})({b})"),
    ("read-lambda", "late{n} = lambda: {b}.{f}; late{n}()"),
    ("read-walrus", "(got{n} := {b}).{f}"),
    ("read-returned", "{new}({b}).{f}"),
    ("read-returned", "{back}({b}).{f}"),
    ("read-generic", "{same}({b}).{f}"),
    ("read-attribute", "{h}.data.{f}"),
    ("read-attribute", "{h}.info.{f}"),
    ("read-attribute", "{h}.data.{o}.{m}"),
    ("read-property", "{h}.current.{f}"),
    ("read-rebound", "base.CURRENT.{f}"),
    ("read-popped", '{b}.pop("{o}").{m}'),
    ("read-asked", '{b}.get("{o}", Batch({m}=A)).{m}'),
    ("read-method", "{h}.make().{f}"),
    ("read-computed", "({b} * 2).{f}"),
    ("read-computed", "np.exp({b}).{f}"),
    ("read-made", "Batch({b}, copy=True).{f}"),
    ("read-list", "next(iter({l})).{f}"),
    ("read-list", "[*{l}, {b}][-1].{f}"),
    ("read-unpacked", "[t.{f} for t, _ in [({b}, {c})]]"),
    ("read-part", "{h}.part.{f}"),
    ("read-kept", "[t.{f} for t in SEEN]"),
    ("read-kept", "[t.{f} for t in TABLE.values()]"),
    ("read-named", "{b}[NAME]"),
    ("read-alike", "{b}.allclose({c})"),
    ("read-pair", "pair{n} = ({b}, {c}); pair{n}[0].{f}"),
)

WRITES: Forms = (
    *(("write", "{b}.{f} = A"),) * 4,
    *(("write-item", '{b}["{f}"] = A'),) * 3,
    ("write-nested", "{b}.{o} = {w}"),
    ("write-nested", "{b}.{o}.{m} = A"),
    ("write-nested", '{b}["{o}"]["{m}"] = A'),
    ("write-nested", "{b}.{o} = {c}"),
    ("update", "{b}.update({f}=A)"),
    ("update", '{b}.update({{"{f}": A}})'),
    ("update", "{b}.update({c})"),
    ("update-computed", "{b}.update(**MORE)"),
    ("setdefault", '{b}.setdefault("{f}", A)'),
    ("setdefault", '{b}.{o}.setdefault("{m}", A)'),
    ("write-member", '{b}["values"] = A'),
    ("write-member", '{b}["items"] = A'),
    ("setattr", 'setattr({b}, "{f}", A)'),
    ("write-computed", "{b}[NAME] = A"),
    ("write-choice", "({b} if {F} else {c}).{f} = A"),
    ("write-lambda", "(lambda t: t.update({f}=A))({b})"),
    ("write-unpacked", "({b}.{f}, {c}.{f}) = (A, A)"),
    ("write-method", "add{n} = {b}.update; add{n}({f}=A)"),
    ("write-list", "{l}[0].{f} = A"),
    ("write-table", '{d}["k"].{f} = A'),
    ("write-attribute", "{h}.data.{f} = A"),
    ("write-attribute", "{h}.info.{f} = A"),
    ("write-property", "{h}.current.{f} = A"),
    ("write-rebound", "base.CURRENT.{f} = A"),
    ("write-method", "Batch.update({b}, {f}=A)"),
    ("write-method", '{b}.__setitem__("{f}", A)'),
    ("write-method", '{b}.set_array_at_key(np.zeros(4), "{f}")'),
    ("write-dict", "vars({b}).update({f}=A)"),
    ("write-dict", '{b}.__dict__["{f}"] = A'),
    ("write-mapped", "list(map({write}, [{b}, {c}]))"),
    ("write-mapped", "functools.partial({write}, {b})()"),
    ("write-mapped", "[{write}(t) for t in [{b}, {c}]]"),
    ("write-rows", "{b}[0] = {c}[0]"),
    ("swap-nested", "{b}.obs, {b}.info = {b}.info, {b}.obs"),
    ("in-place", "{b}.cat_([{c}])"),
    ("in-place", "{b}.stack_([{b}, {c}])"),
    ("in-place", "{b}.to_numpy_()"),
    ("write-part", "{h}.part.{f} = A"),
    ("write-pair", "pair{n} = ({b}, {c}); pair{n}[1].{f} = A"),
    ("write-computed", "{b}.update({{NAME: A}})"),
    ("write-computed", 'for name{n} in ("{f}", "{g}"): {b}[name{n}] = A'),
)

REMOVALS: Forms = (
    ("delete", "del {b}.{f}"), ("delete", 'del {b}["{f}"]'), ("delete", "del {b}.{o}"), ("pop", '{b}.pop("{f}")'),
    ("pop", '{b}.pop("{f}", None)'), ("pop", '{b}.{o}.pop("{m}")'), ("pop-any", "{b}.popitem()"),
    ("clear", "{b}.clear()"),
)  # fmt: skip

BINDINGS: Forms = (
    *(("new", "{v} = {w}"),) * 3, ("new-computed", '{v} = Batch(**{{"{f}": A, "{g}": A}})'),
    ("new-computed", "{v} = Batch(**MORE)"), ("copy", "{v} = {c}.copy()"), ("copied", "{v} = copy.copy({c})"),
    ("copied", "{v} = copy.deepcopy({c})"), ("made", "{v} = Batch({c})"), ("made", "{v} = Batch({c}, {f}=A)"),
    ("made", "{v} = Batch({o}={c}, {f}=A)"), ("alias", "{v} = {c}"), ("alias", "{v} = {c}"),
    ("alias-nested", '{v} = {c}["{o}"]'), ("alias-nested", '{v} = {c}.get("{o}", {b})'),
    ("alias-nested", '{v} = {c}.pop("{o}", {b})'), ("alias-nested", '{v} = {c}.setdefault("{o}", {b})'),
    ("alias-walrus", "print({v} := {c})"), ("alias-or", "{v} = {c} or {b}"), ("made-method", "{v} = {h}.make()"),
    ("computed", "{v} = {c} * 2"), ("computed", "{v} += 1"), ("computed", "{v} = np.exp({c})"),
    ("made", "{v} = Batch({c}, copy=True)"), ("joined", "{v} = Batch.cat([{c}, {c}])"),
    ("from-list", "{v} = next(iter({l}))"), ("from-list", "{v} = [{b}, {c}][1]"),
    ("from-loop", "for {v} in [{b}, {c}]: pass"), ("alias-nested", "{v} = {c}.{o}"), ("swap", "{v}, {u} = {u}, {v}"),
    ("slice", "{v} = {c}[:2]"), ("joined", "{v} = cat([{c}, {c}])"),
    ("joined", '{v} = cat([{b}, {c}], missing="pad")'), ("joined", "{v} = stack([{b}, {c}])"),
    ("choice", "{v} = {c} if {F} else {w}"), ("choice", "{v} = {b} if {F} else {c}"), ("returned", "{v} = {new}({c})"),
    ("returned", "{v} = {back}({c})"), ("generic", "{v} = {same}({c})"), ("from-list", "{v} = {l}[0]"),
    ("from-list", "{v} = {l}.pop()"), ("from-table", '{v} = {d}["k"]'), ("unpack", "{v}, {u} = ({b}, {c})"),
    ("unpack", "{v}, *_ = {l}"), ("unpack", "{v}, *_ = {c}"), ("from-attribute", "{v} = {h}.data"),
    ("from-attribute", "{v} = {h}.info"), ("from-property", "{v} = {h}.current"),
    ("from-rebound", "{v} = base.CURRENT"),
)  # fmt: skip

STORES: Forms = (
    ("append", "{l}.append({b})"), ("append", "{l}.append({w})"), ("list", "{L} = [{b}, {c}]"),
    ("list", "{L} = [{b}, *{l}]"), ("list-computed", "{L} = list({b}.split(2))"),
    ("list-computed", "{L} = [t for t in {b}]"), ("list-computed", "{L} = [{w} for _ in range(2)]"),
    ("list-computed", "{L} = [Batch(t, {f}=A) for t in {l}]"), ("table", '{d}["k"] = {b}'),
    ("table", '{D} = {{"k": {b}, "j": {c}}}'), ("table-computed", '{D} = {{k: {w} for k in ("k", "j")}}'),
    ("store-attribute", "{h}.data = {b}"), ("store-attribute", "{h}.info = {w}"), ("keep-list", "SEEN.append({b})"),
    ("keep-table", 'TABLE["k"] = {b}'), ("rebind", "base.CURRENT = {b}"),
)  # fmt: skip

CALLS: Forms = (
    ("call-reader", "{read}({b})"), *(("call-writer", "{write}({b})"),) * 2, ("call-maybe", "{maybe}({b})"),
    ("call-remover", "{remove}({b})"), ("call-back", "{back}({b})"), ("call-all", "{all}({b}, {c})"),
    ("call-each", "{each}([{b}, {c}])"), ("call-each", "{each}({l})"), ("call-untyped", "{loose}({b})"),
    ("call-keeper", "{keep}({b})"), ("call-kept", "{kept}()"), ("call-late", "{late}({b})"),
    ("method", "{h}.one({b})"), ("method", "{h}.two()"), ("get", '{b}.get("{f}")'),
)  # fmt: skip

BRANCHES: Forms = (
    *(("if", "if {F}:"),) * 4, ("if", "if not {F}:"), ("if", "if {F} and {G}:"), ("asked", 'if "{f}" in {b}:'),
    ("asked", 'if hasattr({b}, "{f}"):'), ("asked", 'if {b}.get("{f}") is not None:'),
    ("asked-not", 'if "{f}" not in {b}:'), ("asked-not", 'if not hasattr({b}, "{f}"):'),
    ("asked-and", 'if "{f}" in {b} and {F}:'), ("walrus", 'if (got{n} := {b}.get("{f}")) is not None:'),
    ("is", "if {b} is {c}:"), ("is", "if {F} is {G}:"), ("is-class", "if isinstance({b}, Batch):"),
)  # fmt: skip
"""Heads that may have an ``else``."""

LOOPS: Forms = (
    *(("loop", "for _ in range({F} + {G}):"),) * 2,
    ("loop-rows", "for t{n} in {b}:"),
    ("loop-split", "for t{n} in {b}.split(2, shuffle=False):"),
    ("loop-list", "for t{n} in list({l}):"),
    ("loop-display", "for t{n} in ({b}, {c}):"),
    ("loop-display", "for t{n} in [{b}, {w}]:"),
    ("loop-zip", "for t{n}, q{n} in zip({b}, {b}):"),
    ("loop-zip", "for t{n}, q{n} in zip(list({l}), [{b}, {c}]):"),
    ("loop-enumerate", "for _, t{n} in enumerate(list({l})):"),
    ("loop-table", "for _, t{n} in list({d}.items()):"),
    ("loop-table", "for t{n} in list({d}.values()):"),
    ("loop-rounds", "for t{n} in [{b}] * ({F} + {G}):"),
)
"""Heads that bind ``t`` and ``q``, with a number, in their bodies."""

WITHS: Forms = (
    ("with", "with contextlib.nullcontext({b}) as t{n}:"),
    ("with", "with contextlib.nullcontext():"),
    ("suppress", "with contextlib.suppress(KeyError, AttributeError):"),
)

ROLES: tuple[tuple[str, str], ...] = (
    ("read", "b: Batch) -> None"), ("write", "b: Batch) -> None"), ("maybe", "b: Batch) -> None"),
    ("remove", "b: Batch) -> None"), ("new", "b: Batch) -> Batch"), ("back", "b: Batch) -> Batch"),
    ("same", "b: B) -> B"), ("all", "*batches: Batch) -> None"), ("each", "batches: list[Batch]) -> None"),
    ("loose", "b)"), ("keep", "b: Batch) -> None"), ("kept", ") -> None"),
)  # fmt: skip
"""What the helper functions of a package are for, and what they take and return."""

KEEPING: Forms = (
    ("keep-list", "SEEN.append(b)"), ("keep-table", 'TABLE["k"] = b'), ("keep-attribute", "KEPT.info = b"),
    ("keep-attribute", "KEPT.data = b"), ("rebind", "base.CURRENT = b"),
)  # fmt: skip
"""Ways in which a helper stores its argument where others find it."""
