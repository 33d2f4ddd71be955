-- Opens a program in Neovim 0.11 with one language server, edits it, and prints the times in milliseconds as JSON.
local given = vim.json.decode(vim.env.GIVEN)
local out = { first = {}, reported = {}, gone = {}, completed = {} }

local function since(started)
  return (vim.uv.hrtime() - started) / 1e6
end

local function wait_for(condition)
  local started = vim.uv.hrtime()
  if not vim.wait(60000, condition, 1) then
    io.stdout:write(given.name .. " does not answer\n")
    vim.cmd("cquit")
  end
  return since(started)
end

local function pause()
  vim.wait(400, function() return false end, 50)
end

local function reports()
  return #vim.diagnostic.get(0)
end

local function place_behind(text)
  for number, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    local _, last = line:find(text, 1, true)
    if last then return number - 1, last end
  end
end

local started = vim.uv.hrtime()
vim.lsp.config(given.name, {
  cmd = given.command,
  filetypes = { "python" },
  root_markers = { "pyproject.toml" },
  settings = { python = { pythonPath = given.python } },
})
vim.lsp.enable(given.name)
vim.cmd("edit " .. given.file)
wait_for(function() return reports() > 0 end)
out.first = { since(started) }
pause()

local row, column = place_behind("batch.rew")
for _ = 1, given.times do
  local before = reports()
  vim.api.nvim_buf_set_text(0, row, column, row, column, { "x" })
  table.insert(out.reported, wait_for(function() return reports() > before end))
  pause()
  vim.api.nvim_buf_set_text(0, row, column, row, column + 1, { "" })
  table.insert(out.gone, wait_for(function() return reports() == before end))
  pause()
end

row, column = place_behind("print(" .. given.batch)
local client = vim.lsp.get_clients({ bufnr = 0 })[1]
for _ = 1, given.times do
  local answer
  vim.api.nvim_buf_set_text(0, row, column, row, column, { "." })
  local asked = vim.uv.hrtime()
  client:request("textDocument/completion", {
    textDocument = vim.lsp.util.make_text_document_params(0),
    position = { line = row, character = column + 1 },
  }, function(failure, found) answer = failure and {} or found or {} end, 0)
  wait_for(function() return answer ~= nil end)
  table.insert(out.completed, since(asked))
  out.offers = vim.tbl_map(function(one) return one.label end, answer.items or answer)
  vim.api.nvim_buf_set_text(0, row, column, row, column + 1, { "" })
  pause()
end
io.stdout:write(vim.json.encode(out) .. "\n")
vim.cmd("qall!")
