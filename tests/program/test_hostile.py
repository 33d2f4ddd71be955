"""Python that a run cannot follow: it opens what it touches, and nothing is said of it; nothing is executed."""

from __future__ import annotations

import textwrap

import pytest

from tests.program.helpers import found

HEAD = "from typedbatch import Batch\nimport numpy as np\n"
OPENS = {
    "decorator of a library": """
        from somewhere import registered
        @registered
        def make(): return Batch(obs=1)
        make().rew
        """,
    "decorator by a class": """
        class Adds:
            def __init__(self, function): self.function = function
            def __call__(self):
                batch = self.function(); batch.rew = 1
                return batch
        @Adds
        def make(): return Batch(obs=1)
        make().rew
        """,
    "metaclass": """
        class Meta(type):
            def __call__(cls, *args):
                made = super().__call__(*args); made.batch.rew = 1
                return made
        class Holder(metaclass=Meta):
            def __init__(self): self.batch = Batch(obs=1)
        Holder().batch.rew
        """,
    "__getattr__": """
        class Holder:
            def __init__(self): self.inner = Batch(obs=1)
            def __getattr__(self, name): return getattr(self.inner, name)
        Holder().rew
        """,
    "subclass with __getattr__": """
        class Lazy(Batch):
            def __getattr__(self, name): return 0
        Lazy(obs=1).rew
        """,
    "exec": "batch = Batch(obs=1)\nexec('batch.rew = 1')\nbatch.rew",
    "globals": "batch = Batch(obs=1)\nglobals()['batch'].rew = 1\nbatch.rew",
    "monkey-patching": """
        class Holder:
            def make(self): return Batch(obs=1)
        Holder.make = lambda self: Batch(rew=1)
        Holder().make().rew
        """,
    "patched from outside": """
        import unittest.mock
        class Holder:
            def make(self): return Batch(obs=1)
        with unittest.mock.patch.object(Holder, "make", lambda self: Batch(rew=1)):
            Holder().make().rew
        """,
    "unknown callback": """
        from somewhere import call
        batch = Batch(obs=1)
        def fill(): batch.rew = 1
        call(fill)
        batch.rew
        """,
    "thread": """
        import threading
        batch = Batch(obs=1)
        def fill(): batch.rew = 1
        threading.Thread(target=fill).start()
        batch.rew
        """,
    "names in a circle": """
        def ping(n): return Batch(obs=pong(n)) if n else Batch(end=1)
        def pong(n): return ping(n - 1)
        ping(3).obs.obs.anything
        """,
    "send to a generator": """
        def relay():
            batch = Batch(obs=1)
            while True:
                batch = yield batch
        running = relay()
        running.send(None)
        running.send(Batch(rew=1)).rew
        """,
    "class in a loop": """
        made = []
        for name in ("a", "b"):
            class Holder:
                batch = Batch(obs=1)
            setattr(Holder.batch, name, 1)
            made.append(Holder)
        made[0].batch.a
        """,
    "star arguments": """
        def read(first, second): return second.rew
        pair = [Batch(obs=1), Batch(rew=1)]
        read(*reversed(pair))
        """,
    "nested star": "first, *rest = [Batch(obs=1), Batch(rew=1)]\nrest[0].rew",
    "conditional import": """
        try:
            from somewhere import Batch as Made
        except ImportError:
            Made = Batch
        Made(obs=1).rew
        """,
    "class made by type()": "Made = type('Made', (Batch,), {'rew': 1})\nMade(obs=1).rew",
    "walrus and comprehension": "[made := Batch(obs=1) for _ in range(2)]\nmade.update(rew=1)\nmade.rew",
    "del of a name": "batch = Batch(obs=1)\ndel batch\nbatch = Batch(rew=1)\nbatch.rew",
    "slots of a lambda": "fill = lambda b: setattr(b, 'rew', 1)\nbatch = Batch(obs=1)\nfill(batch)\nbatch.rew",
}


@pytest.mark.parametrize("case", OPENS)
def test_nothing_is_said(case, tmp_path):
    assert found(tmp_path, HEAD + textwrap.dedent(OPENS[case])) == []


def test_modules_that_import_each_other_and_stars(tmp_path):
    text = "from b import *\nfrom typedbatch import Batch\n\ndef make():\n    return Batch(obs=1)\n"
    text += "\nif LATE:\n    other().rew\n"
    other = "import a\nLATE = True\n_HIDDEN = 1\n\ndef other():\n    return a.make()\n"
    assert found(tmp_path, text, b=other) == ['a:8: Batch has no field "rew"; it has obs']


def test_nothing_is_imported_or_executed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = "import side\nopen('touched', 'w').close()\nfrom typedbatch import Batch\nBatch(obs=1).rew\n"
    assert len(found(tmp_path, text, side="raise SystemExit\n")) == 1
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 90 + "1" + ")" * 90,
        "x = " + "+".join(["1"] * 3000),
        "def f(n):\n" + "".join(f"{' ' * (4 * depth)}if n:\n" for depth in range(1, 90)) + " " * 360 + "pass",
        "".join(f"def f{n}(b): return f{n + 1}(b)\n" for n in range(300))
        + "def f300(b): return b.rew\nf0(Batch(obs=1))",
        "def f(b):\n    return [f(b), f(b), g(b), g(b)]\ndef g(b):\n    return [f(b), g(b), f(b)]\nf(Batch(obs=1))",
        "b = Batch(obs=1)\nb.b = b\nfor _ in range(3): b = Batch(b, b=b)\nb.copy()",
        "b = Batch(obs=1)\n" + "b = Batch(one=b[0], other=b[1])\n" * 40,
    ],
    ids=["brackets", "sum", "branches", "chain", "circle", "nested", "tree"],
)
def test_deep_and_circular_programs_end(text, tmp_path):
    assert len(found(tmp_path, HEAD + text + "\nBatch(obs=1).last\n")) <= 1


def test_a_function_that_is_called_often_and_kept_is_no_trouble(tmp_path):
    calls = "".join(f"helper({at})\n" for at in range(30))
    text = (
        "from typedbatch import Batch\n\nkept = []\n\n\ndef keep(function):\n    kept.append(function)\n\n\n"
        f"def helper(x) -> int:\n    return x\n\n\n{calls}keep(helper)\nBatch(obs=1).rew\n"
    )
    assert found(tmp_path, text) == ['a:45: Batch has no field "rew"; it has obs']
