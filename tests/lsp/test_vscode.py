"""The extension for VS Code, with stand-ins for the editor and its client library."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed"),
]

EXTENSION = Path(__file__).parents[2] / "docs" / "editors" / "vscode"
PROGRAM = """
const Module = require("module");
const given = JSON.parse(process.argv[1]);
const started = [], commands = {};
let selected;
const python = {
  isActive: false,
  activate: async () => ({
    environments: {
      getActiveEnvironmentPath: () => ({ path: "/selected/python" }),
      onDidChangeActiveEnvironmentPath: (call) => { selected = call; return {}; },
    },
  }),
};
const vscode = {
  workspace: {
    getConfiguration: () => ({ get: (name) => given.settings[name] }),
    workspaceFolders: [{ uri: { fsPath: given.folder } }],
    onDidChangeConfiguration: () => ({}),
  },
  extensions: { getExtension: () => (given.hasPython ? python : undefined) },
  commands: {
    registerCommand: (name, call) => { commands[name] = call; return {}; },
    executeCommand: async (...call) => { started.push(call); },
  },
  window: { showErrorMessage: async (...call) => { started.push(call); return call[1]; } },
};
class LanguageClient {
  constructor(id, name, server, options) { this.given = { server, options }; }
  async start() { started.push(this.given); if (given.fails) throw new Error("it has ended"); }
  isRunning() { return !given.fails; }
  createDefaultErrorHandler() { return {}; }
  async stop() { started.push("stopped"); }
}
const library = { LanguageClient, CloseAction: { DoNotRestart: 1 }, ErrorAction: { Shutdown: 2 } };
const load = Module._load;
Module._load = (name, ...rest) =>
  name === "vscode" ? vscode : name === "vscode-languageclient/node" ? library : load(name, ...rest);
(async () => {
  const extension = require(given.path);
  await extension.activate({ subscriptions: [] });
  await commands["typedbatch.restart"]();
  if (selected) await selected();
  await extension.deactivate();
  console.log(JSON.stringify(started));
})();
"""


def run(settings: dict, *, has_python: bool = True, folder: str = "/project", fails: bool = False) -> list:
    given = {"settings": settings, "hasPython": has_python, "folder": folder, "fails": fails}
    given["path"] = str(EXTENSION / "extension.js")
    command = ["node", "-e", PROGRAM, json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_selected_python_runs_the_server():
    first, *rest = run({})
    assert first["server"] == {"command": "/selected/python", "args": ["-m", "typedbatch.cli", "lsp", "--stdio"]}
    assert first["options"]["initializationOptions"] == {"python": "/selected/python", "cache": None, "types": True}
    assert [one["language"] for one in first["options"]["documentSelector"]] == ["python", "python"]
    assert rest == ["stopped", first, "stopped", first, "stopped"]


def test_settings_say_otherwise():
    first, *_ = run({"python": "/own/python", "command": ["typedbatch", "lsp"], "cache": "/tmp/cache", "types": False})
    assert first["server"] == {"command": "typedbatch", "args": ["lsp"]}
    assert first["options"]["initializationOptions"] == {"python": "/own/python", "cache": "/tmp/cache", "types": False}


def test_without_the_python_extension_the_path_is_searched():
    first, *_ = run({}, has_python=False)
    assert first["server"]["command"] == "python3"


def test_without_the_python_extension_the_environment_of_the_folder_is_taken(tmp_path):
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert run({}, has_python=False, folder=str(tmp_path))[0]["server"]["command"] == str(python)
    assert run({}, folder=str(tmp_path))[0]["server"]["command"] == "/selected/python"


def test_a_server_that_does_not_start_is_explained_and_not_started_again():
    first, told, asked, *rest = run({}, has_python=False, fails=True)
    assert told == [
        "typedbatch does not start: python3 -m typedbatch.cli lsp --stdio. It needs a Python with typedbatch[lsp].",
        "Open settings",
    ]
    assert asked == ["workbench.action.openSettings", "typedbatch.python"]
    assert rest == [first, told, asked]  # by the command typedbatch.restart, and nothing is left to stop


def test_all_settings_are_declared():
    declared = json.loads((EXTENSION / "package.json").read_text("utf-8"))["contributes"]["configuration"]["properties"]
    text = (EXTENSION / "extension.js").read_text("utf-8")
    assert {f"typedbatch.{name}" for name in ("python", "command", "cache", "types")} == set(declared)
    assert all(f'get("{name.partition(".")[2]}")' in text for name in declared)
