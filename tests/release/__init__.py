"""Checks of ``make release-check`` before a release: of the files, their installation, types and licenses."""
