"""Public programs that move to typedbatch: edits of our own lines, which are applied, run and checked."""
