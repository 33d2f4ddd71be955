"""Programs as people write them, and the slips that people make in them.

A program is a file, or a package, in ``corpus/``. It is right. A comment of the form ``#! slip: code`` says what might
stand in place of the line above, at the same indentation; each such mistake is made in a copy of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
_MISTAKE = re.compile(r"(?P<indent>\s*)#! (?P<slip>[a-z0-9-]+): (?P<code>.*)")


@dataclass(frozen=True)
class Mistake:
    """One wrong line.

    Attributes:
        file: of which file of the program.
        line: its number, which is that of the right line.
    """

    file: str
    line: int
    slip: str
    code: str


@dataclass(frozen=True)
class Program:
    """A program of the corpus, as the texts of its files by their paths."""

    name: str
    files: dict[str, str]

    def mistakes(self) -> Iterator[Mistake]:
        """All that are described in it."""
        for file, text in self.files.items():
            for number, line in enumerate(text.splitlines()):
                match = _MISTAKE.fullmatch(line)
                if match is not None:
                    yield Mistake(file, number, match["slip"], match["indent"] + match["code"])

    def renamed(self, name: str) -> Program:
        """A copy that can be checked beside the original."""
        files = {}
        for file, text in self.files.items():
            own = re.compile(rf"^(\s*(?:from|import) ){self.name}\b", re.MULTILINE)
            files[file.replace(self.name, name, 1)] = own.sub(rf"\g<1>{name}", text)
        return Program(name, files)

    def with_mistake(self, mistake: Mistake) -> Program:
        """The program with a wrong line."""
        lines = self.files[mistake.file].splitlines()
        lines[mistake.line - 1] = mistake.code
        return Program(self.name, {**self.files, mistake.file: "\n".join(lines) + "\n"})

    def write(self, folder: Path) -> None:
        """Its files, without the descriptions of mistakes: empty lines stand for them."""
        for file, text in self.files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = ["" if _MISTAKE.fullmatch(line) else line for line in text.splitlines()]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def settings(config: str, names: Iterable[str]) -> str:
    """mypy's, for programs whose authors annotated what they liked; all other modules are checked as ever."""
    return f"""{config}
[mypy-{",".join(f"{name}.*" for name in names)}]
allow_untyped_calls = True
allow_untyped_defs = True
allow_incomplete_defs = True
"""


def programs(folder: Path = CORPUS) -> list[Program]:
    """All of a corpus."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py":
            found.append(Program(path.stem, {path.name: path.read_text(encoding="utf-8")}))
        elif (path / "__init__.py").exists():
            texts = {
                str(one.relative_to(folder)): one.read_text(encoding="utf-8") for one in sorted(path.rglob("*.py"))
            }
            found.append(Program(path.name, texts))
    return found
