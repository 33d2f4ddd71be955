"""``typedbatch check``, without mypy: the files that it looks at, and what it prints of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from typedbatch._program import machine
from typedbatch.cli.check import check
from typedbatch.errors import SettingError

README = """\
import numpy as np
from typedbatch import Batch, RolloutBatchProtocol

def learn(batch: RolloutBatchProtocol) -> None: ...

batch = Batch(obs=np.zeros((4, 3)), act=[0, 1, 1, 0], rew=np.ones(4))
batch.rwe
learn(batch)
"""
LACKS = 'Batch lacks "info", "obs_next", "terminated", "truncated" of RolloutBatchProtocol; it has act, obs, rew'
FOUND = [
    'a.py:7:1: error: Batch has no field "rwe"; did you mean "rew"?  [batch-field]',
    f"a.py:8:7: error: {LACKS}  [batch-argument]",
]
LEARNER = """\
from data import make

class Learner:
    def __init__(self):
        self.batch = None
    def prepare(self):
        self.batch = make()
    def update(self):
        return self.batch.rew.mean()

learner = Learner()
learner.prepare()
learner.update()
"""
DATA = "from typedbatch import Batch\n\ndef make():\n    return Batch(obs=1)\n"


def lines(folder: Path, files: dict[str, str], *paths: str) -> list[str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return [str(one) for one in check([Path(path) for path in paths], folder=folder).found]


def test_mypy_is_not_needed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mypy", None)
    assert lines(tmp_path, {"a.py": README}) == FOUND


def test_one_file_says_what_the_project_says(tmp_path):
    files = {"pyproject.toml": "", "learner.py": LEARNER, "data.py": DATA, "other.py": "import learner\n"}
    expected = ['learner.py:9:16: error: Batch has no field "rew"; it has obs  [batch-field]']
    assert lines(tmp_path, files) == lines(tmp_path, {}, "learner.py") == expected
    assert lines(tmp_path, {}, "data.py") == []


def test_the_trace_says_how_the_program_comes_there(tmp_path):
    lines(tmp_path, {"learner.py": LEARNER, "data.py": DATA})
    (one,) = check(folder=tmp_path).found
    assert one.trace == ("data.py:4: made here", "learner.py:13: update() is called here")


@pytest.mark.parametrize(
    ("comment", "is_silent"),
    [
        ("# type: ignore", True), ("# type: ignore[batch-field]", True), ("# type: ignore[attr-defined, misc]", True),
        ("# type: ignore[misc]", False), ("# noqa", False),
    ],
)  # fmt: skip
def test_comments_that_ignore_an_error(tmp_path, comment, is_silent):
    text = f"from typedbatch import Batch\nBatch(obs=1).rew  {comment}\n"
    assert (lines(tmp_path, {"a.py": text}) == []) == is_silent
    assert lines(tmp_path, {"a.py": f"# mypy: ignore-errors\n{text.replace(comment, '')}"}) == []


def test_files_that_cannot_be_read_are_named_and_the_others_checked(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "self.py").symlink_to("self.py")
    found = lines(
        tmp_path, {"a.py": f"import b\n{README}", "b.py": "def f(:\n", "venv/pyvenv.cfg": "", "venv/c.py": README}
    )
    assert [one.partition(": ")[0] for one in found] == [
        "a.py:8:1",
        "a.py:9:7",
        "b.py:1:7",
        "pipe.py:1:1",
        "self.py:1:1",
    ]


def test_settings_say_which_files_are_checked(tmp_path):
    files = {
        "mypy.ini": "[mypy]\nfiles = src\nexclude = old\n", "src/a.py": README, "src/old.py": README, "b.py": README,
    }  # fmt: skip
    assert {one.partition(":")[0] for one in lines(tmp_path, files)} == {"src/a.py"}


@pytest.mark.parametrize("mypy", [False, True])
def test_a_path_that_is_not_there_is_named(tmp_path, mypy):
    with pytest.raises(SettingError, match=r"nowhere\.py does not exist"):
        check([Path("nowhere.py")], folder=tmp_path, mypy=mypy)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 1, FOUND[0]),
        (["--explain"], 1, f"{FOUND[0]}\n    a.py:6: made here\n{FOUND[1]}"),
        (["nowhere.py"], 2, "nowhere.py does not exist"),
        (["empty.py"], 0, "no findings"),
    ],
)
def test_the_command(tmp_path, arguments, code, words):
    lines(tmp_path, {"a.py": README, "empty.py": ""})
    run = [str(Path(sys.executable).with_name("typedbatch")), "check", *arguments]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr


def test_json_has_the_trace(tmp_path):
    lines(tmp_path, {"a.py": README})
    run = [str(Path(sys.executable).with_name("typedbatch")), "check", "--format", "json"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert [(one["line"], one["code"], one["trace"]) for one in json.loads(done.stdout)] == [
        (7, "batch-field", ["a.py:6: made here"]),
        (8, "batch-argument", ["a.py:6: made here"]),
    ]


def test_a_program_of_too_many_steps_is_named(tmp_path, monkeypatch):
    calls = "\n".join(f"def f{at}(b):\n    return f{at - 1}(f{at - 1}(f{at - 1}(b)))" for at in range(1, 13))
    text = f"from typedbatch import Batch\n\ndef f0(b):\n    return Batch(b)\n{calls}\nf12(Batch(obs=1))\nf0(1).rew\n"
    files = {"a.py": text, "b.py": DATA + "make().rew\n"}
    found = 'b.py:5:1: error: Batch has no field "rew"; it has obs  [batch-field]'
    assert lines(tmp_path, files) == [found]
    assert check(folder=tmp_path).warnings == ""
    monkeypatch.setattr(machine, "_LEAST_STEPS", -600)
    assert check(folder=tmp_path).warnings == (
        "a.py:1: module is not run to its end, as the program takes too many steps; less is found\n"
        "b.py:1: module is not run to its end, as the program takes too many steps; less is found"
    )
