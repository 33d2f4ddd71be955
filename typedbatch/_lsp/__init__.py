"""The language server, ``typedbatch lsp``: what a run of the program knows, shown while it is typed.

Two processes: the server, which speaks with the editor, and a worker, in which programs are run. A run may take long;
the worker is then ended and started again. mypy checks types in a third process, on opening and saving.
"""
