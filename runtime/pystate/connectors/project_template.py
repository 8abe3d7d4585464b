"""What `pystate new --template NAME` makes a project of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "ProjectTemplate",
]


@dataclass(frozen=True)
class ProjectTemplate:
    """A kind of project. In its texts `{name}` stands for the project's name, `{module}` for that of its program.

    Attributes:
        about: The purpose of its program, as the rest of a sentence.
        job: The program.
        test: Its test.
        first_run: The command that runs it for the first time; before it, a line each, what that needs.
        commands: The commands to run it, each with a remark.
        files: More files, by path.
        settings: More lines of its settings; `{spark}` is Spark's version there.
    """

    about: str
    job: str
    test: str
    first_run: str
    commands: tuple[tuple[str, str], ...]
    files: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
