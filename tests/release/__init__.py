"""What ``make release-check`` looks at before a release: what is built, installed, typed, and under which licences."""
