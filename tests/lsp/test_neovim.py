"""Neovim, with a client of its own: it attaches, shows diagnostics and completes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed"),
]

TEXT = """\
from typedbatch import Batch

batch = Batch(obs=1, act=2)
print(batch.obz)
batch.
"""
SCRIPT = """
local out = {}
local client = vim.lsp.start_client({
  name = "typedbatch",
  cmd = { "%(python)s", "-m", "typedbatch.cli", "lsp", "--stdio" },
  root_dir = "%(folder)s",
  init_options = { types = false },
})
vim.cmd("edit %(folder)s/a.py")
vim.lsp.buf_attach_client(0, client)
out.attached = vim.wait(600000, function() return vim.lsp.buf_is_attached(0, client) end, 50)
vim.wait(600000, function() return #vim.diagnostic.get(0) > 0 end, 50)
out.diagnostics = vim.tbl_map(function(one)
  return { line = one.lnum, column = one.col, message = one.message, source = one.source }
end, vim.diagnostic.get(0))
local params = { textDocument = vim.lsp.util.make_text_document_params(), position = { line = 4, character = 6 } }
local answers = vim.lsp.buf_request_sync(0, "textDocument/completion", params, 600000)
out.completions = vim.tbl_map(function(one) return one.label end, answers[client].result)
io.open("%(folder)s/out.json", "w"):write(vim.json.encode(out))
vim.cmd("qall!")
"""


def test_neovim_attaches_shows_diagnostics_and_completes(tmp_path):
    folder = tmp_path.resolve()
    (folder / "a.py").write_text(TEXT, "utf-8")
    script = folder / "script.lua"
    script.write_text(SCRIPT % {"python": sys.executable, "folder": folder}, "utf-8")
    command = ["nvim", "--headless", "--clean", "-c", f"luafile {script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (folder / "out.json").exists(), done.stderr
    found = json.loads((folder / "out.json").read_text("utf-8"))
    assert found["attached"]
    assert found["diagnostics"] == [
        {
            "line": 3, "column": 6, "message": 'Batch has no field "obz"; did you mean "obs"?', "source": "typedbatch",
        }
    ]  # fmt: skip
    assert found["completions"] == ["obs", "act"]
