// Starts `typedbatch lsp` for the Python files and notebooks of a window.

const fs = require("fs");
const path = require("path");
const vscode = require("vscode");
const { CloseAction, ErrorAction, LanguageClient } = require("vscode-languageclient/node");

let client;

// The Python of the setting, the one that the Python extension has selected, that of .venv, or the first one on the path.
async function selectedPython(settings) {
  if (settings.get("python")) return settings.get("python");
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const python = vscode.extensions.getExtension("ms-python.python");
  const api = python && (python.isActive ? python.exports : await python.activate());
  return api?.environments?.getActiveEnvironmentPath(folder)?.path ?? pythonOfProject(folder?.fsPath) ?? "python3";
}

function pythonOfProject(folder) {
  const places = folder ? [".venv/bin/python", ".venv/Scripts/python.exe"] : [];
  return places.map((place) => path.join(folder, place)).find((one) => fs.existsSync(one));
}

async function start() {
  const settings = vscode.workspace.getConfiguration("typedbatch");
  const python = await selectedPython(settings);
  const [command, ...args] = settings.get("command")?.length
    ? settings.get("command")
    : [python, "-m", "typedbatch.cli", "lsp", "--stdio"];
  let usual; // what handles the end of a server, once it has started
  const mine = (client = new LanguageClient(
    "typedbatch",
    "typedbatch",
    { command, args },
    {
      documentSelector: [{ language: "python" }, { notebook: "jupyter-notebook", language: "python" }],
      initializationOptions: { python, cache: settings.get("cache") || null, types: settings.get("types") !== false },
      // A server that does not start is not started four more times.
      initializationFailedHandler: () => false,
      errorHandler: {
        error: (...given) => usual?.error(...given) ?? { action: ErrorAction.Shutdown },
        closed: () => usual?.closed() ?? { action: CloseAction.DoNotRestart, handled: true },
      },
    },
  ));
  // When the server ends while it starts, the promise may be fulfilled all the same.
  await mine.start().catch(() => {});
  if (mine.isRunning()) {
    usual = mine.createDefaultErrorHandler();
  } else if (client === mine) {
    client = undefined;
    explain(command, args);
  }
}

async function explain(command, args) {
  const text = `typedbatch does not start: ${[command, ...args].join(" ")}. It needs a Python with typedbatch[lsp].`;
  const chosen = await vscode.window.showErrorMessage(text, "Open settings");
  if (chosen) await vscode.commands.executeCommand("workbench.action.openSettings", "typedbatch.python");
}

let last = Promise.resolve();

// Restarts wait for each other, since a Python may be selected while the first server starts.
function restart() {
  last = last.then(async () => {
    const before = client;
    client = undefined;
    await before?.stop();
    await start();
  });
  return last;
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("typedbatch.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("typedbatch") && restart()),
  );
  const python = vscode.extensions.getExtension("ms-python.python");
  const api = python && (python.isActive ? python.exports : await python.activate());
  const selected = api?.environments?.onDidChangeActiveEnvironmentPath?.(restart);
  if (selected) context.subscriptions.push(selected);
  await restart();
}

async function deactivate() {
  await last;
  await client?.stop();
}

module.exports = { activate, deactivate };
