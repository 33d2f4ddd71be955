"""The command ``typedbatch`` as it is called: what it prints, how it ends, and that files execute nothing."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import get_args

import h5py
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import typedbatch
from tests.files.helpers import Evil
from tests.typing.caches import MYPY, PLUGIN, warm
from typedbatch import Batch, RolloutBatch, RolloutBatchProtocol
from typedbatch._report import page_address
from typedbatch.cli.arguments import read
from typedbatch.cli.commands import app
from typedbatch.errors import Code, StorageError
from typedbatch.files import save
from typedbatch.testing import example

PAGES = Path(typedbatch.__file__).parents[1] / "docs" / "errors"
ROLLOUT = "RolloutBatchProtocol"
SHORT = "N is 3 here, but 6 in obs, obs_next, act, terminated, truncated"
SETTINGS = {"COLUMNS": "200", "NO_COLOR": "1", "PYTHONWARNINGS": "error"}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command in this process: one of its own, as in :func:`process`, needs most of its time to import torch."""
    with contextlib.chdir(cwd), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        done = CliRunner().invoke(app, arguments, env=SETTINGS)
        for name in ("mine", "inferred"):  # modules of this folder; another one has others of these names
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The installed command."""
    command = [str(Path(sys.executable).with_name("typedbatch")), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **SETTINGS}, check=False)


@pytest.fixture
def folder(tmp_path):
    """Files of every sort, some of them right."""
    batch = example(RolloutBatchProtocol, N=6)
    arrays = {name: value for name, value in batch.items() if name != "info"}
    np.savez(tmp_path / "fine.npz", **arrays, info=np.zeros(6))
    save(batch, tmp_path / "fine.safetensors")
    save(batch, tmp_path / "fine.h5")
    torch.save(batch.to_torch().to_dict(), tmp_path / "tensors.pt")
    save(Batch(batch, rew=np.zeros(3)), tmp_path / "short.h5")
    np.savez(tmp_path / "objects.npz", o=np.array(["a", None], object))
    (tmp_path / "junk.npz").write_bytes(b"junk")
    return tmp_path


@pytest.mark.parametrize("file", ["fine.h5", "short.h5", "nothing.h5"])
def test_the_installed_command_does_what_it_does_in_this_process(file, folder):
    """Which is how the tests below call it."""
    here, there = (call("validate", file, "--as", ROLLOUT, cwd=folder) for call in (run, process))
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)
    assert here.returncode == ["fine.h5", "short.h5", "nothing.h5"].index(file)


def test_files_that_match(folder):
    done = run("validate", "fine.npz", "fine.safetensors", "fine.h5", "--as", ROLLOUT, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "ok  fine.npz  Batch(obs, obs_next, act, rew, terminated, truncated, info)\n"
        "ok  fine.safetensors  Batch(obs, info, obs_next, act, rew, terminated, truncated)\n"
        "ok  fine.h5  Batch(obs, info, obs_next, act, rew, terminated, truncated)\n"
        "3 of 3 files match\n"
    )


def test_a_file_that_does_not(folder):
    done = run("validate", "short.h5", "fine.h5", "--as", f"typedbatch:{ROLLOUT}", cwd=folder)
    assert done.returncode == 1
    assert done.stdout.startswith("FAILED  short.h5\nbatch is not a RolloutBatchProtocol (1 problem)\n")
    assert "  boundary   file short.h5\n" in done.stdout
    assert f"  batch.rew  {SHORT}\n" in done.stdout
    assert done.stdout.endswith("1 of 2 files match\n")


def test_files_that_cannot_be_read(folder):
    done = run("validate", "junk.npz", "fine.h5", "nothing.npz", "short.h5", "--as", ROLLOUT, cwd=folder)
    assert done.returncode == 2
    assert "UNREADABLE  junk.npz\njunk.npz is not an npz file, or is cut off\n" in done.stdout
    assert "nothing.npz cannot be read: [Errno 2] No such file or directory" in done.stdout
    assert done.stdout.endswith("1 of 4 files match\n")


def test_the_stage_is_a_part_of_the_name(folder):
    assert run("validate", "tensors.pt", "--as", ROLLOUT, cwd=folder).returncode == 1
    assert run("validate", "tensors.pt", "--as", f"{ROLLOUT}[Tensor]", cwd=folder).returncode == 0


def test_a_schema_of_ones_own(folder):
    (folder / "mine.py").write_text(
        "from typing import Annotated, Any\nimport numpy as np\nfrom typedbatch import BatchRecord, Finite\n"
        "class Rewards(BatchRecord):\n    rew: Annotated[np.ndarray[Any, Any], Finite]\n"
    )
    np.savez(folder / "nan.npz", rew=np.array([np.nan]))
    assert run("validate", "nan.npz", "--as", "mine:Rewards", cwd=folder).returncode == 0
    done = run("validate", "nan.npz", "--as", "mine:Rewards", "--level", "values", cwd=folder)
    assert done.returncode == 1
    assert "TB401 wrong-values" in done.stdout


def test_json(folder):
    done = run("validate", "short.h5", "fine.h5", "junk.npz", "--as", ROLLOUT, "--format", "json", cwd=folder)
    short, fine, junk = json.loads(done.stdout)
    assert (short["file"], short["ok"], short["error"]) == ("short.h5", False, None)
    assert [(one["path"], one["code"]) for one in short["problems"]] == [("rew", "TB302 dimension-conflict")]
    assert fine == {"file": "fine.h5", "ok": True, "error": None, "problems": []}
    assert junk["error"] == "junk.npz is not an npz file, or is cut off"


def test_annotations_for_github(folder):
    done = run("validate", "short.h5", "junk.npz", "fine.h5", "--as", ROLLOUT, "--format", "github", cwd=folder)
    assert done.stdout.splitlines() == [
        f"::error file=short.h5,title=TB302 dimension-conflict::batch.rew: {SHORT}%0A{page_address('TB302')}",
        "::error file=junk.npz,title=unreadable::junk.npz is not an npz file, or is cut off",
    ]
    fine = run("validate", "fine.h5", "--as", ROLLOUT, "--format", "github", cwd=folder)
    assert fine.stdout == "1 of 1 file matches\n"


OWN = "typedbatch has no '{}', and a schema of your own is written as module:Name"


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("RolloutBatchProtocl", f"{OWN.format('RolloutBatchProtocl')}; did you mean 'RolloutBatchProtocol'?\n"),
        ("LogpOldProtocl", f"{OWN.format('LogpOldProtocl')}; did you mean 'LogpOldProtocol'?\n"),
        ("mine", f"{OWN.format('mine')}\n"),
        ("nowhere:Rollout", "cannot find the module 'nowhere'"),
        ("typedbatch:cat", "typedbatch:cat is not a schema: "),
        ("a b", "a schema is written as module:Name or module:Name[Tensor], got 'a b'"),
        (
            f"{ROLLOUT}[int]",
            "RolloutBatchProtocol[int] is not a schema: the kind of a batch is one of Tensor, ndarray, Any, got 'int'",
        ),
    ],
)
def test_a_schema_that_is_none(schema, text, folder):
    done = run("validate", "fine.h5", "--as", schema, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith(text)


def test_wrong_use(folder):
    for arguments in (("validate", "fine.h5"), ("validate", "--as", ROLLOUT), ("nothing",)):
        assert run(*arguments, cwd=folder).returncode == 2
    assert run("validate", "fine.h5", "--as", ROLLOUT, "--level", "all", cwd=folder).returncode == 2
    assert "Check code, and check, describe and show files of batches." in run(cwd=folder).stdout


def test_no_file_executes_anything(tmp_path):
    evil = Evil(tmp_path / "executed")
    with (tmp_path / "a.pkl").open("wb") as file:
        pickle.dump({"obs": evil}, file)
    torch.save({"obs": evil}, tmp_path / "a.pt")
    objects = np.empty(1, object)
    objects[0] = evil
    np.savez(tmp_path / "a.npz", obs=objects)
    save(Batch(a=evil), tmp_path / "a.safetensors", allow_pickle=True)
    for name in ("a.pkl", "a.pt", "a.npz", "a.safetensors"):
        for command in (("validate", name, "--as", "ObsBatchProtocol"), ("show", name), ("infer", name)):
            done = run(*command, cwd=tmp_path)
            assert done.returncode == 2
            assert "could execute anything" in done.stdout + done.stderr
    assert not (tmp_path / "executed").exists()


def test_pickles_are_loaded_if_that_is_said(tmp_path):
    objects = np.array(["a", None], object)
    with (tmp_path / "a.pkl").open("wb") as file:
        pickle.dump({"obs": objects}, file)
    np.savez(tmp_path / "a.npz", obs=objects)
    torch.save({"obs": torch.zeros(2), "more": {1}}, tmp_path / "a.pt")
    for name in ("a.pkl", "a.npz", "a.pt"):
        done = run("show", name, "--unsafe-pickle", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "obs  " in done.stdout


@pytest.mark.parametrize("name", ["a.npz", "a.pt", "a.safetensors", "a.h5", "a.pkl"])
def test_damage_is_an_error_of_the_librarys_own(name, tmp_path):
    path, rng = tmp_path / name, np.random.default_rng(0)
    batch = Batch(a=np.arange(50), b={"c": np.zeros((3, 4))})
    if name == "a.npz":
        np.savez(path, a=batch.a)
    elif name == "a.pt":
        torch.save({"a": torch.arange(50)}, path)
    elif name == "a.pkl":
        path.write_bytes(pickle.dumps({"a": 1}))
    else:
        save(batch, path)
    data = path.read_bytes()
    for _ in range(60):
        changed = bytearray(data[: rng.integers(1, len(data) + 1)])
        changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with contextlib.suppress(StorageError):
            read(path, unsafe_pickle=False)


def test_what_holds_no_batch(tmp_path):
    torch.save(torch.zeros(3), tmp_path / "a.pt")
    with pytest.raises(StorageError, match=r"does not contain arrays by name, but torch f32\[3\]"):
        read(tmp_path / "a.pt", unsafe_pickle=False)
    with pytest.raises(StorageError, match=r"a\.txt cannot be read: expected a file that ends in \.safetensors, "):
        read(tmp_path / "a.txt", unsafe_pickle=False)


def test_infer_writes_what_validate_takes(folder):
    done = run("infer", "fine.safetensors", "--name", "Mine", "--style", "record", cwd=folder)
    assert done.returncode == 0
    (folder / "inferred.py").write_text(done.stdout)
    assert run("validate", "fine.safetensors", "--as", "inferred:Mine", cwd=folder).returncode == 0
    assert run("validate", "short.h5", "--as", "inferred:Mine", cwd=folder).returncode == 1
    assert run("infer", "fine.h5", "--style", "class", cwd=folder).returncode == 2
    assert "style= must be 'protocol' or 'record'" in run("infer", "fine.h5", "--style", "class", cwd=folder).stderr


def test_show_is_a_tree(tmp_path):
    save(Batch(obs={"cam": np.zeros((2, 3), np.uint8)}, note="x", t=torch.zeros(2)), tmp_path / "a.safetensors")
    assert run("show", "a.safetensors", cwd=tmp_path).stdout == (
        "a.safetensors  Batch\n"
        "├── obs\n"
        "│   └── cam  u8[2,3]  6 bytes  [0, 0, 0, 0, ...]\n"
        "├── note  str\n"
        "└── t  torch f32[2]  8 bytes  [0, 0]\n"
    )


def test_protocols_are_listed_after_those_they_inherit_from(tmp_path):
    lines = run("protocols", cwd=tmp_path).stdout.splitlines()
    assert "RolloutBatchProtocol(ObsBatchProtocol): obs_next, act, rew, terminated, truncated" in lines
    names = [line.partition("(")[0].partition(":")[0] for line in lines]
    assert len(names) == 16
    assert names.index("BatchProtocol") == 0
    assert names.index("BatchWithReturnsProtocol") < names.index("BatchWithAdvantagesProtocol")
    mermaid = run("protocols", "--mermaid", cwd=tmp_path).stdout
    assert mermaid.startswith("classDiagram\n")
    assert "    ObsBatchProtocol <|-- RolloutBatchProtocol\n    RolloutBatchProtocol : obs_next\n" in mermaid


def test_without_typer_it_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None\nfrom typedbatch.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "the command typedbatch needs typer and rich; pip install 'typedbatch[cli]'\n"


def test_the_hook_for_pre_commit_calls_what_there_is(folder):
    text = Path(__file__).parents[2].joinpath(".pre-commit-hooks.yaml").read_text()
    hooks = [dict(line.strip("- ").split(": ", 1) for line in hook.splitlines()) for hook in text.split("\n- ")]
    assert [hook["entry"] for hook in hooks] == ["typedbatch validate", "typedbatch check"]
    said = hooks[0]
    assert re.search(said["files"], "data/fine.npz")
    assert run(*said["entry"].split()[1:], "--as", ROLLOUT, "fine.npz", cwd=folder).returncode == 0


def test_the_class_of_a_file_is_kept(tmp_path):
    save(example(RolloutBatch), tmp_path / "a.safetensors")
    assert type(read(tmp_path / "a.safetensors", unsafe_pickle=False)) is Batch


def odd_npz(path: Path, header: str) -> None:
    """An npz file whose one member has such a header."""
    data = header.encode().ljust(118) + b"\n"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000000,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999999,)}",
        "{'descr': ((((",
        "",
    ],
)
def test_headers_that_cannot_be(header, tmp_path):
    odd_npz(tmp_path / "a.npz", header)
    with pytest.raises(StorageError, match=r"a\.npz cannot be read: "):
        read(tmp_path / "a.npz", unsafe_pickle=False)


def test_compressed_data_that_changed(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.random.default_rng(0).random(1000))
    data = bytearray(path.read_bytes())
    data[100:120] = bytes(byte ^ 255 for byte in data[100:120])
    path.write_bytes(data)
    np.savez(tmp_path / "fine.npz", obs=np.zeros(2), info=np.zeros(2))
    done = run("validate", "a.npz", "fine.npz", "--as", "ObsBatchProtocol", cwd=tmp_path)
    assert done.returncode == 2
    assert "a.npz cannot be read: " in done.stdout
    assert "ok  fine.npz" in done.stdout


def test_a_folder_and_a_file_of_another_sort(tmp_path):
    (tmp_path / "dir.npz").mkdir()
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    with pytest.raises(StorageError, match="Is a directory"):
        read(tmp_path / "dir.npz", unsafe_pickle=False)
    with pytest.raises(StorageError, match="is not an npz file"):
        read(tmp_path / "one.npz", unsafe_pickle=False)


@pytest.mark.parametrize("ending", ["npz", "pt", "pth", "safetensors", "h5", "hdf5", "pkl", "pickle"])
def test_a_pipe_is_refused_and_nobody_waits_for_its_other_end(ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    os.mkfifo(path)
    for command in (["show"], ["infer"], ["validate", "--as", "BatchProtocol"]):
        done = run(*command, str(path), "--unsafe-pickle", cwd=tmp_path)
        assert done.returncode == 2
        assert f"{path} is not a regular file" in done.stdout + done.stderr


def test_tensors_without_a_size_are_shown(tmp_path):
    torch.save({"a": torch.eye(2).to_sparse()}, tmp_path / "a.pt")
    done = run("show", "a.pt", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "a.pt  Batch\n└── a  torch f32[2,2]  [1, 0, 0, 1]\n")


def test_names_do_not_reach_the_terminal_raw(tmp_path):
    np.savez(tmp_path / "a.npz", **{"\x1b[31mred": np.zeros(2)})
    for arguments in (("show", "a.npz"), ("validate", "a.npz", "--as", "BatchProtocol")):
        assert "\x1b" not in run(*arguments, cwd=tmp_path).stdout


def test_what_lies_beside_the_data_stands_in_for_no_library(tmp_path):
    save(Batch(obs=np.zeros(2), info={}), tmp_path / "a.h5")
    (tmp_path / "h5py.py").write_text("print('EXECUTED')")
    (tmp_path / "mine.py").write_text("from typedbatch import ObsBatchProtocol")
    for schema in ("ObsBatchProtocol", "mine:ObsBatchProtocol"):
        done = process("validate", "a.h5", "--as", schema, cwd=tmp_path)
        assert (done.returncode, "EXECUTED" in done.stdout) == (0, False)


@pytest.mark.parametrize(
    ("module", "schema", "text"),
    [
        ("raise ValueError('no')", "mine:A", "mine cannot be imported: ValueError: no"),
        ("def", "mine:A", "mine cannot be imported: SyntaxError"),
        ("import sys; sys.exit(7)", "mine:A", "mine cannot be imported: SystemExit: 7"),
        ("import nowhere", "mine:A", "mine cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("A = None", "mine:A", "mine:A is not a schema: "),
        ("from typedbatch import *\nclass A(BatchRecord): ...", "mine:A[Tensor]", "mine:A[Tensor] is not a schema: "),
        ("def __getattr__(name): raise KeyError(name)", "mine:A", "mine:A is not a schema: "),
        ("", ".:A", "a schema is written as module:Name"),
        ("", "ObsBatchProtocol[Tensor,Tensor,Tensor]", "ObsBatchProtocol[Tensor,Tensor,Tensor] is not a schema: "),
    ],
)
def test_modules_that_answer_with_anything(module, schema, text, tmp_path):
    (tmp_path / "mine.py").write_text(module)
    np.savez(tmp_path / "a.npz", a=np.zeros(2))
    done = run("validate", "a.npz", "--as", schema, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(text), done.stderr


def test_hdf5_files_of_others(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["s"] = "text"
        file["a"] = np.arange(3)
    assert read(tmp_path / "a.h5", unsafe_pickle=False).s == "text"
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file.create_dataset("v", (2,), h5py.vlen_dtype(np.int64))
    with pytest.raises(
        StorageError, match=r"a\.h5 cannot be read: field 'v': arrays of variable length, or of references, are not"
    ):
        read(tmp_path / "a.h5", unsafe_pickle=False)


@pytest.mark.parametrize("code", ["TB302", "tb302", "[TB302 dimension-conflict]"])
def test_explain_prints_the_page_of_a_code(code, tmp_path):
    done = run("explain", code, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == f"{(PAGES / 'TB302.md').read_text(encoding='utf-8')}\n{page_address('TB302')}\n"


@pytest.mark.parametrize(("code", "page"), [("attr-defined", "batch-field"), ("[arg-type]", "batch-argument")])
def test_explain_knows_the_codes_of_mypy_for_the_same(code, page, tmp_path):
    assert run("explain", code, cwd=tmp_path).stdout.startswith(f"# {page}")


def test_the_addresses_are_those_of_the_documentation():
    settings = tomllib.loads((PAGES.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    address = page_address("TB302 dimension-conflict")
    assert address == f"{settings['project']['urls']['Documentation']}/errors/TB302.html"


def test_every_code_has_a_page_and_a_slip_is_pointed_out(tmp_path):
    for code in get_args(Code):
        assert run("explain", code, cwd=tmp_path).stdout.startswith(f"# {code}")
    done = run("explain", "batch-shpe", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected one of the codes TB101" in done.stderr
    assert "got 'batch-shpe'" in done.stderr
    assert "did you mean 'batch-shape'" in done.stderr


@pytest.mark.slow
def test_doctor_says_what_a_report_of_a_bug_needs(kept, tmp_path, monkeypatch):
    monkeypatch.setenv("MYPY_CACHE_DIR", str(warm(kept, PLUGIN, tmp_path / "with plugin")))
    (tmp_path / "mypy.ini").write_text(PLUGIN.settings["mypy.ini"] + "files = mine\n")
    lines = run("doctor", cwd=tmp_path).stdout.splitlines()
    assert len(lines) == 10
    assert lines[0] == f"typedbatch         {typedbatch.__version__}"
    assert lines[-1] == "mypy plugin        on, in the settings that mypy finds in this folder"
    monkeypatch.setenv("MYPY_CACHE_DIR", str(warm(kept, MYPY, tmp_path / "without")))
    (tmp_path / "mypy.ini").write_text(MYPY.settings["mypy.ini"])
    found = json.loads(run("doctor", "--json", cwd=tmp_path).stdout)
    assert found["numpy"] == np.__version__
    assert found["mypy plugin"].startswith("off in this folder")
    assert str(tmp_path) not in str(found)
    (tmp_path / "mypy.ini").write_text("[mypy]\nplugins = nobody.has.it\n")
    assert json.loads(run("doctor", "--json", cwd=tmp_path).stdout)["mypy plugin"].startswith("mypy could not be run")
