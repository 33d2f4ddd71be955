"""Names that fields may get in the texts of a program, and reads of names that nothing in it makes."""

from __future__ import annotations

import ast

import pytest

from tests.program.helpers import found_in, write
from typedbatch import posttraining
from typedbatch._program.vocabulary import is_plain, vocabulary_of
from typedbatch.schema import schema_of

RUN = """from typedbatch import Batch

def learn(batch):
    batch.unmade

def make(keys):
    return Batch({key: 1 for key in keys}, obs=1)

if __name__ == "__main__":
    learn(make(keys()))
"""
KEYS = "def keys():\n    return iter(sorted(['act', 'rew']))\n"


def names(text: str) -> set[str]:
    return vocabulary_of(ast.parse(text), "").names


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("Batch(a=1).b", {"a"}), ("b.a = b.c", {"a"}), ("b.a += 1; b['c'] += 1", set()), ("b['a'] = b['c']", {"a"}),
        ("b.update({'a': 1}, c=2)", {"a", "c"}), ("setattr(b, 'a', 1)", {"a"}), ("'a b,c'.split()", {"a", "b", "c"}),
        ("add_argument('--step-size')", {"step_size"}), ("class C:\n    a: int\n    b = 1", {"C", "a", "b"}),
        ("'a docstring'\nprint('a')", set()),
    ],
)  # fmt: skip
def test_names_that_a_text_makes(text, made):
    assert names(text) == made


@pytest.mark.parametrize(
    ("text", "name", "may"),
    [
        ("b[f'{x}_mean'] = 1", "rew_mean", True), ("b[f'{x}_mean'] = 1", "rew_std", False),
        ("b['next_' + x] = 1", "next_obs", True), ("b['%s_mean' % x] = 1", "rew_mean", True),
        ("b['{}_mean'.format(x)] = 1", "rew_mean", True), ("print(f'mean of {x}')", "rew_mean", False),
    ],
)  # fmt: skip
def test_names_that_are_put_together(text, name, may):
    assert vocabulary_of(ast.parse(text), "").may_make(name) is may


def found(folder, **files: str) -> list[str]:
    write(folder, {f"{name}.py": text for name, text in files.items()})
    return [name for one in found_in(folder) for name in one.names]


@pytest.mark.parametrize(
    "text",
    ["b.split(32)", "b.split(8, shuffle=True)", "x[t + 1] = 2", "', '.join(names)", "f'{x:.2f}'", "def load(): load()"],
)
def test_a_name_that_nothing_makes_is_reported_of_a_batch_of_unknown_fields(text, tmp_path):
    assert found(tmp_path, run=f"{KEYS}{RUN}", other=f"import run\n{text}\n") == ["unmade"]


@pytest.mark.parametrize(
    "text",
    [
        "b.unmade = 1", "import gymnasium", "import pickle", "from typedbatch.bridges import tensordict",
        "from typedbatch import SampleBatch", "from numpy import *", "import json\njson.loads(x)",
        "Batch(**vars(args))", "Batch({f.__name__: f() for f in (g, h)})", "Batch({k[4:]: v for k, v in d.items()})",
        "k = name.upper()", "k = name.split('.')", "b[f'{x}{y}'] = 1", "b[prefix + name] = 1", "b['un' + name] = 1",
        "''.join(letters)", "for n, p in net.named_parameters(): b[n] = p",
    ],
)  # fmt: skip
def test_another_file_may_make_it(text, tmp_path):
    assert found(tmp_path, run=f"{KEYS}{RUN}", other=f"import run\n{text}\n") == []


def test_a_package_that_others_use_says_nothing_of_names_that_it_does_not_make(tmp_path):
    assert found(tmp_path, run=f"{KEYS}{RUN}".replace('if __name__ == "__main__":', "if True:")) == []


def test_fields_of_records_are_known_of_modules_that_make_them():
    declared = {
        field.name
        for name in posttraining.__all__
        if isinstance(record := getattr(posttraining, name), type) and hasattr(record, "__validated__")
        for field in schema_of(record).fields
    }
    assert declared <= names("from typedbatch.posttraining import Ready\n")


@pytest.mark.parametrize("module", ["numpy", "torch.nn.functional", "typedbatch", "typedbatch.buffers.replay", "math"])
def test_libraries_that_add_no_fields(module):
    assert is_plain(module)
