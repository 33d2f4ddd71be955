"""Programs as a whole: which names their batches may have, and when not all of these are in sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from typedbatch import posttraining
from typedbatch.mypy.batches.program import Program, digest_of_file, program_of
from typedbatch.mypy.batches.vocabulary import is_of_library, vocabulary_of
from typedbatch.schema import schema_of

RUN = 'from typedbatch import Batch\nif __name__ == "__main__":\n    b = Batch(obs=1)\n'


def names(text: str) -> set[str]:
    """Return the names that a text may make, beside those of ``RUN``."""
    vocabulary = vocabulary_of(text)
    assert vocabulary is not None
    return {name for part in vocabulary.parts for name in part.makes if name}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("Batch(a=1).b", {"a"}),
        ("b.a = b.c", {"a"}),
        ("b.a += 1; b['c'] += 1", set()),
        ("b['a'] = b['c']", {"a"}),
        ("b.update({'a': 1}, c=2)", {"a", "c"}),
        ("setattr(b, 'a', 1)", {"a"}),
        ("'a b,c'.split()", {"a", "b", "c", "a b,c"}),
        ("add_argument('--step-size')", {"step_size"}),
        ("import numpy as np; np.sum(a, axis=0)", set()),
        ("from torch import nn; nn.Linear(bias=True)", set()),
        ("sorted(a, key=f); dict(a=1)", {"a"}),
        ("def f(*, a): ...\nf(a=1)", set()),
        ("def f(**fields): ...\nf(a=1)", {"a"}),
        ("class C:\n    a: int\n    b = 1", {"a", "b"}),
        ("class C:\n    def f(self): self.a = 1", set()),
        ("class C(Other):\n    def f(self): self.a = 1", {"a"}),
        ("class C(Batch):\n    def f(self): self.a = 1", {"a"}),
        ("class B: ...\nclass C(B, Generic[T]):\n    def f(self): self.a = 1", set()),
        ("'a docstring'\nprint('a')", set()),
    ],
)
def test_names_that_a_text_makes(text: str, made: set[str]) -> None:
    assert names(text) == made | {name.lower() for name in made}


@pytest.mark.parametrize(
    ("text", "name", "may"),
    [
        ("b[f'{x}_mean'] = 1", "rew_mean", True),
        ("b[f'{x}_mean'] = 1", "rew_std", False),
        ("b['next_' + x] = 1", "next_obs", True),
        ("b['%s_mean' % x] = 1", "rew_mean", True),
        ("b['{}_mean'.format(x)] = 1", "rew_mean", True),
        ("print(f'mean of {x}')", "mean", False),
    ],
)
def test_names_that_are_put_together(text: str, name: str, may: bool) -> None:
    vocabulary = vocabulary_of(text)
    assert vocabulary is not None
    assert any(part.may_make(name) for part in vocabulary.parts) is may


def make(folder: Path, files: dict[str, str]) -> None:
    """Write files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def program(folder: Path, files: dict[str, str], name: str) -> Program | None:
    """Return the program that one of some files belongs to, if all names in it are in sight."""
    make(folder, files)
    found = program_of(str(folder / name), name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    return found if found is not None and found.lacks("nobody_makes_this", "") else None


def test_a_file_that_is_run(tmp_path: Path) -> None:
    found = program(tmp_path, {"run.py": RUN}, "run.py")
    assert found is not None
    assert list(found.modules) == ["run"]
    assert (found.lacks("obs", ""), found.lacks("observation", "")) == (False, True)


@pytest.mark.parametrize("start", ["", "def f(): ...\n", "x = 1\n"])
def test_a_file_that_is_imported_only(start: str, tmp_path: Path) -> None:
    assert program(tmp_path, {"some.py": f"{start}from typedbatch import Batch\n"}, "some.py") is None


@pytest.mark.parametrize(
    "text",
    [
        "import gymnasium",
        "import pickle",
        "from typedbatch.bridges import tensordict",
        "from typedbatch import SampleBatch",
        "from numpy import *",
        "import json\njson.loads(x)",
        "Batch(**vars(args))",
        "Batch(args.__dict__)",
        "Batch({f.__name__: f() for f in (g, h)})",
        "Batch({k[4:]: v for k, v in d.items()})",
        "Batch({k.removeprefix('obs_'): v for k, v in d.items()})",
        "k = name.upper()",
        "k = name.split('.')",
        "b[f'{x}{y}'] = 1",
        "b[prefix + name] = 1",
        "''.join(letters)",
        "for n, p in net.named_parameters(): b[n] = p",
        "def (",
    ],
)
def test_names_that_come_from_elsewhere(text: str, tmp_path: Path) -> None:
    assert program(tmp_path, {"run.py": f"{RUN}{text}\n"}, "run.py") is None


@pytest.mark.parametrize(
    "text", ["b.split(32)", "self.batch.split(8, shuffle=True)", "x[t + 1] = 2", "', '.join(names)", "f'{x:.2f}'"]
)
def test_what_looks_like_making_names_and_is_not(text: str, tmp_path: Path) -> None:
    assert program(tmp_path, {"run.py": f"{RUN}{text}\n"}, "run.py") is not None


def test_a_function_of_the_program_may_be_called_load(tmp_path: Path) -> None:
    text = f"{RUN}def load(x): ...\nload(1)\n"
    assert program(tmp_path, {"run.py": text}, "run.py") is not None
    assert program(tmp_path, {"run.py": f"{text}import json\njson.load(x)\n"}, "run.py") is None


def test_modules_are_followed(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/__main__.py": "from p.a import f\nfrom . import b\n",
        "p/a.py": "from typedbatch import Batch\ndef f(): return Batch(made_in_a=1)\n",
        "p/b/__init__.py": "from .c import D\n",
        "p/b/c.py": "class D:\n    made_in_c: int\n",
        "p/unused.py": "Batch(unused=1)",
        "elsewhere.py": "Batch(elsewhere=1)",
    }
    for name in ("p/__init__.py", "p/__main__.py", "p/a.py", "p/b/c.py"):
        found = program(tmp_path, files, name)
        assert found is not None
        assert sorted(found.modules) == ["p", "p.__main__", "p.a", "p.b", "p.b.c"]
        assert [found.lacks(one, "f") for one in ("made_in_a", "made_in_c", "unused", "elsewhere")] == [
            False, False, True, True,
        ]  # fmt: skip
    assert program(tmp_path, files, "p/unused.py") is None


def test_tests_and_scripts_beside_it_may_make_fields_too(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/__main__.py": RUN,
        "tests/test_p.py": "import pytest\nfrom p import x\nBatch(made_in_test=1)",
        "script.py": "import p.__main__\nBatch(made_in_script=1)",
    }
    found = program(tmp_path, files, "p/__main__.py")
    assert found is not None
    assert [found.lacks(name, "") for name in ("made_in_test", "made_in_script", "other")] == [False, False, True]
    make(tmp_path, {"script.py": "import p, pickle\n"})
    assert program(tmp_path, {}, "p/__main__.py") is None


def test_a_package_that_is_not_run(tmp_path: Path) -> None:
    assert program(tmp_path, {"p/__init__.py": "", "p/a.py": RUN}, "p/a.py") is None


DEAD = f"""{RUN}    f(b)
    Learner().learn(b)
def f(b): b.one = 1; g(b)
def g(b): b.two = 2
def h(b): b.three = 3; i(b)
def i(b): b.four = 4
class Learner:
    def learn(self, b): ...
    def process(self, b): b.five = 5
"""


def test_functions_that_no_run_comes_to_make_nothing(tmp_path: Path) -> None:
    found = program(tmp_path, {"run.py": DEAD}, "run.py")
    assert found is not None
    made = ("one", "two", "three", "four", "five")
    assert [found.lacks(name, "f") for name in made] == [False, False, True, True, True]
    assert not any(found.lacks(name, "i") for name in made), "nothing is said in a function that no run comes to"


def test_a_digest_changes_with_the_names(tmp_path: Path) -> None:
    files = {"run.py": f"from helpers import f\n{RUN}", "helpers.py": "def f(b): b.act = 1\n"}

    def digests() -> tuple[str, str]:
        found = program(tmp_path, {}, "run.py")
        assert found is not None, "run.py"
        return found.digest, digest_of_file(str(tmp_path / "helpers.py"))

    make(tmp_path, files)
    first = digests()
    make(tmp_path, {"helpers.py": "def f(b): b.action = 1\n"})
    assert all(one != other for one, other in zip(first, digests(), strict=True))


def test_fields_of_records_are_known_of_modules_that_make_them() -> None:
    text = "from typedbatch.posttraining import Ready\n"
    declared = {
        field.name
        for name in posttraining.__all__
        if isinstance(record := getattr(posttraining, name), type) and hasattr(record, "__validated__")
        for field in schema_of(record).fields
    }
    assert declared <= names(text)


@pytest.mark.parametrize("module", ["numpy", "torch.nn.functional", "typedbatch", "typedbatch.buffers.replay", "math"])
def test_libraries_that_add_no_fields(module: str) -> None:
    assert is_of_library(module)
