"""The language server, ``typedbatch lsp``: what the mypy plugin knows of a project, shown while it is typed.

Two processes: the server, which speaks with the editor, and a worker, in which mypy is kept in memory. mypy cannot be
interrupted, and may crash; the worker is then ended and started again.
"""
