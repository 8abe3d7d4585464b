"""What programs answer, as text that two systems can be compared by. Imports neither of them: both run this file.

A program is a public function with one parameter, `env`, in a file of `programs`: PyFlink's words, and a stream, or several
by name, in return. Another system runs the same file with its own name in the place of `pyflink`.

What a file says of its programs beside them:

- `PACED`: those that sleep between elements, so that each of them is behind the watermark of those before.
- `ONE_SUBTASK`: those whose answers depend on an order that more than one subtask doesn't keep.
- `BATCH`: those that are run in batch mode, too. Flink starts workers anew for each of their stages, so they are few.
"""

from __future__ import annotations

import json
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Program:
    """A program that a system runs.

    Attributes:
        name: Its file and its function.
        build: Makes its streams.
        paced: Whether it sleeps between elements.
        batch: Whether it is run in batch mode, too.
        parallelisms: Those it is run with.
    """

    name: str
    build: Callable[[Any], Any]
    paced: bool
    batch: bool
    parallelisms: tuple[int, ...]

    def streams(self, env: Any) -> dict[str, Any]:
        """Return its streams by the name that answers have them by."""
        made = self.build(env)
        return (
            {f"{self.name}:{label}": stream for label, stream in made.items()}
            if isinstance(made, dict)
            else {self.name: made}
        )


def load_programs(system: str, only: Sequence[str] = ("",)) -> list[Program]:
    """Return programs, written for `system`: the name of a package with PyFlink's names in it.

    Args:
        system: The package.
        only: Texts, one of which is in the names of those that are wanted.
    """
    found = []
    for path in sorted(PROGRAMS.glob("[a-z]*.py")):
        # no module that could be imported, so that functions travel to workers by value
        module = types.ModuleType(f"{path.stem}_of_{system}")
        exec(compile(path.read_text("utf-8").replace("pyflink", system), path, "exec"), module.__dict__)  # noqa: S102
        for name, function in vars(module).items():
            code = getattr(function, "__code__", None)
            if not name.startswith("_") and code is not None and code.co_varnames[: code.co_argcount] == ("env",):
                paced = name in getattr(module, "PACED", ())
                alone = paced or name in getattr(module, "ONE_SUBTASK", ())
                batch = name in getattr(module, "BATCH", ())
                found.append(Program(f"{path.stem}.{name}", function, paced, batch, (1,) if alone else (1, 2)))
    return [program for program in found if any(part in program.name for part in only)]


def plain(value: Any) -> Any:
    """Return a value as JSON that says its type too, where JSON has no such."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    name = type(value).__name__
    if isinstance(value, float):
        return {name: repr(value)}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": value.hex()}
    if isinstance(value, Mapping):
        return {"dict": sorted(([plain(key), plain(one)] for key, one in value.items()), key=json.dumps)}
    if name == "Row":
        return {name: [plain(one) for one in value]}
    if isinstance(value, (tuple, list)):
        return {name: [plain(one) for one in value]}
    return {name: str(value)}


class Labelled:
    """Turns elements of one stream into texts `[label, element]`; a function for `map`."""

    def __init__(self, label: str) -> None:
        self.label = label

    def __call__(self, value: Any) -> str:
        """Return the text."""
        return json.dumps([self.label, plain(value)])


def answers(texts: list[str], labels: list[str]) -> dict[str, dict[str, int]]:
    """Return, by label, each element as text and how often it came; labels without elements are there too."""
    counts: dict[str, Counter[str]] = {label: Counter() for label in labels}
    for text in texts:
        label, value = json.loads(text)
        counts[label][json.dumps(value)] += 1
    return {label: dict(sorted(found.items())) for label, found in sorted(counts.items())}
