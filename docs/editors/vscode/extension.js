// Starts `typedbatch lsp` for the Python files and notebooks of a window.

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

// The Python of the setting, or the one that the Python extension has selected, or the first one on the path.
async function selectedPython(settings) {
  if (settings.get("python")) return settings.get("python");
  const python = vscode.extensions.getExtension("ms-python.python");
  if (!python) return "python3";
  const api = python.isActive ? python.exports : await python.activate();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  return api?.environments?.getActiveEnvironmentPath(folder)?.path ?? "python3";
}

async function start() {
  const settings = vscode.workspace.getConfiguration("typedbatch");
  const python = await selectedPython(settings);
  const [command, ...args] = settings.get("command")?.length
    ? settings.get("command")
    : [python, "-m", "typedbatch.cli", "lsp", "--stdio"];
  client = new LanguageClient(
    "typedbatch",
    "typedbatch",
    { command, args },
    {
      documentSelector: [{ language: "python" }, { notebook: "jupyter-notebook", language: "python" }],
      initializationOptions: { python, cache: settings.get("cache") || null, types: settings.get("types") !== false },
    },
  );
  await client.start();
}

async function restart() {
  const before = client;
  client = undefined;
  await before?.stop();
  await start();
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
  await start();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
