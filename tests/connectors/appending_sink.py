"""A sink in one phase: what is written stands there at once, and again where it is written again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pystate.connectors.sink import Sink, SinkWriter


class AppendingSink(Sink):
    """Appends each element as a line to a file of its subtask."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_writer(self, context):
        self.folder.mkdir(exist_ok=True)
        return AppendingWriter(self.folder / str(context.get_index_of_this_subtask()))

    def lines(self) -> Counter[str]:
        return Counter(line for file in self.folder.glob("*") for line in file.read_text().splitlines())


class AppendingWriter(SinkWriter):
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, element, context):
        with self.path.open("a") as file:
            file.write(f"{element}\n")

    def flush(self, end_of_input):
        pass
