"""Completion, hover, definition and rename where a field is set in another module, a generator or a helper."""

from __future__ import annotations

import pytest

from tests.lsp.client import Editor

pytestmark = pytest.mark.slow

MODULES = {
    "agents/__init__.py": "",
    "agents/memory.py": """\
import numpy as np
from typedbatch import Batch


class Memory:
    def __init__(self) -> None:
        self.batch = Batch(obs=np.zeros((8, 4)), act=np.zeros(8, dtype=np.int64))

    def finish(self):
        self.batch.ret = self.batch.obs.sum(-1)
""",
    "agents/agent.py": """\
from agents.memory import Memory


class Agent:
    def __init__(self):
        self.memory = Memory()

    def learn(self):
        self.memory.finish()
        batch = self.memory.batch
        print(batch.ret)


agent = Agent()
agent.learn()
""",
    "agents/steps.py": """\
from dataclasses import dataclass

import numpy as np
from typedbatch import Batch


@dataclass
class Step:
    batch: Batch
    reward: float = 0.0


def steps(count):
    for number in range(count):
        batch = Batch(obs=np.zeros(4), act=1)
        if number > 3:
            batch.last = True
        yield Step(batch)
""",
    "agents/user.py": """\
from agents.steps import steps


def use(count):
    for step in steps(count):
        print(step.batch)
""",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """An editor with a package of classes."""
    folder = tmp_path_factory.mktemp("package").resolve()
    for name, text in MODULES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    editor = Editor(folder)
    yield editor
    editor.kill()


def test_fields_that_another_module_sets_are_offered(project):
    name = "agents/agent.py"
    project.open(name)
    project.type(name, MODULES[name].replace("print(batch.ret)", "print(batch.)"))
    assert project.labels(name, "print(batch.|)") == ["obs", "act", "ret"]
    project.type(name, MODULES[name])
    assert "ret  ndarray float64 (8,)" in project.hover(name, "print(bat|ch")
    assert project.definition(name, "print(batch.re|t") == ["memory.py:10"]


def test_an_edit_of_the_other_module_is_seen(project):
    name = "agents/memory.py"
    project.open("agents/agent.py")
    project.open(name)
    before = project.published[project.uri("agents/agent.py")]
    project.type(name, MODULES[name].replace("batch.ret =", "batch.gain ="))
    (found,) = project.after("agents/agent.py", before)
    assert found["message"] == 'Batch has no field "ret"; it has act, gain, obs'
    project.edit(name, MODULES[name])


def test_batches_of_generators_and_dataclasses_are_known(project):
    name = "agents/user.py"
    project.open(name)
    project.type(name, MODULES[name].replace("print(step.batch)", "print(step.batch.)"))
    assert project.labels(name, "print(step.batch.|)") == ["obs", "act", "last?"]
    project.type(name, MODULES[name])
    assert project.hover(name, "print(step.ba|tch") == (
        "```python\n(batch) Batch\n    obs    ndarray float64 (4,)\n    act    int\n    last?  bool\n```\n\n"
        "`?`: set on some of the ways to this line"
    )


def test_a_field_is_renamed_in_all_modules(project):
    project.open("agents/agent.py")
    made = project.rename("agents/agent.py", "print(batch.re|t", "returns")["changes"]
    assert {uri.rpartition("/")[2]: len(edits) for uri, edits in made.items()} == {"agent.py": 1, "memory.py": 1}


HELPER = """\
import numpy as np
from typedbatch import Batch, ObsBatchProtocol, BatchRecord
from jaxtyping import Float
from torch import Tensor


class Own(BatchRecord):
    obs: Float[np.ndarray, "N 4"]
    note: str


def helper(batch):
    total = batch.obs.sum()
    return batch


def normalize(batch, flag=False):
    if flag:
        print(batch)
    return batch


def declared(own: Own, given: ObsBatchProtocol[Tensor]):
    print(own, given)


helper(Batch(obs=np.zeros((3, 4)), act=np.zeros(3)))
helper(Batch(obs=np.zeros((5, 4)), rew=np.zeros(5)))
normalize(Batch(obs=1, name="x", items=[1, 2], none=None))
"""


def test_a_helper_that_gets_two_batches_shows_what_holds_for_both(editor):
    editor.open("helper.py", HELPER)
    assert editor.hover("helper.py", "    total = bat|ch.obs") == (
        "```python\n(batch) Batch\n    obs   ndarray float64 (?, 4)\n    act?  ndarray float64 (3,)\n"
        "    rew?  ndarray float64 (5,)\n```\n\n`?`: set on some of the ways to this line"
    )
    assert editor.definition("helper.py", "total = batch.o|bs") == ["helper.py:27", "helper.py:28"]


def test_sizes_in_which_calls_differ_have_the_declared_names(editor):
    text = """\
import numpy as np
from jaxtyping import Float


def total(obs: Float[np.ndarray, "N 4"]):
    found = obs.sum(-1)
    return found


total(np.zeros((3, 4)))
total(np.zeros((5, 4)))
"""
    editor.open("sizes.py", text)
    assert editor.hints("sizes.py") == ["6: (N,)"]


def test_a_branch_that_no_call_comes_to_is_known_too(editor):
    editor.open("branch.py", HELPER)
    assert editor.hover("branch.py", "        print(bat|ch)") == (
        "```python\n(batch) Batch\n    obs    int\n    name   str\n    items  ndarray\n    none   None\n```"
    )
    editor.type("branch.py", HELPER.replace("        print(batch)", "        batch."))
    assert editor.labels("branch.py", "        batch.|\n") == ["obs", "name", "items", "none"]


def test_declared_fields_are_shown_and_not_offered(editor):
    editor.open("declared.py", HELPER)
    assert editor.hover("declared.py", "print(ow|n, given") == (
        "```python\n(batch) Own\n    note  str\n    obs   ndarray floats (N, 4)\n```"
    )
    assert editor.hover("declared.py", "print(own, giv|en)") == (
        "```python\n(batch) ObsBatchProtocol\n    info  Batch | ndarray | Tensor\n    obs   Tensor (N, ...)\n```"
    )
    editor.type("declared.py", HELPER.replace("print(own, given)", "own."))
    assert editor.labels("declared.py", "    own.|\n") == []


@pytest.mark.parametrize("line", ["x = (", "def f(:", "if batch.obs", "for x in batch.", '"""', "batch.obs["])
def test_while_a_line_cannot_be_read_the_others_are_known(editor, line):
    name = f"typing{abs(hash(line))}.py"
    text = "from typedbatch import Batch\n\nbatch = Batch(obs=1)\n{}\nbatch.obz\n"
    editor.open(name, text.format("pass"))
    (found,) = editor.edit(name, text.format(line))
    assert found["range"]["start"]["line"] == 4
    editor.type(name, text.format(line) + "(batch.")
    assert editor.labels(name, "\n(batch.|") == ["obs"]
    assert "obs" in editor.hover(name, "\nbat|ch = ")


def test_a_program_of_many_modules_is_followed(tmp_path):
    folder = tmp_path.resolve()
    head = "from typedbatch import Batch\n\n\ndef f0(batch: Batch) -> Batch:\n    return batch\n"
    (folder / "m0.py").write_text(head, "utf-8")
    for at in range(1, 100):
        function = f"def f{at}(batch):\n    batch.x{at} = 1\n    return f{at - 1}(batch)\n"
        (folder / f"m{at}.py").write_text(f"from m{at - 1} import f{at - 1}\n\n\n{function}", "utf-8")
    editor = Editor(folder)
    try:
        text = "from m9 import f9\nfrom typedbatch import Batch\n\nbatch = f9(Batch(obs=1))\nbatch.obz\n"
        assert [one["code"] for one in editor.open("main.py", text)] == ["batch-field"]
        assert [one["code"] for one in editor.edit("main.py", text + "batch.x9\nbatch.y9\n")] == ["batch-field"] * 2
    finally:
        editor.kill()
