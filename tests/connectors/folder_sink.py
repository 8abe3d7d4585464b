"""A sink in two phases: lines wait in one folder, and are moved to another when their checkpoint is complete."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from pathlib import Path

from pystate.connectors.sink import (
    Committer,
    CommittingSinkWriter,
    Sink,
    StatefulSinkWriter,
    SupportsCommitter,
    SupportsWriterState,
)


class FolderSink(Sink, SupportsCommitter):
    """Writes each element as a line.

    Args:
        root: Files wait in `waiting` below it, and are read in `visible`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def create_writer(self, context):
        return FolderWriter(self.root)

    def create_committer(self, context):
        return FolderCommitter(self.root)

    def lines(self) -> Counter[str]:
        """What a reader sees."""
        return Counter(line for file in self.root.glob("visible/*") for line in file.read_text().splitlines())

    def waiting(self) -> list[Path]:
        return list(self.root.glob("waiting/*"))


class FolderWriter(CommittingSinkWriter):
    def __init__(self, root: Path) -> None:
        self.folder = root / "waiting"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = None
        self.ends = []

    def write(self, element, context):
        if self.path is None:
            self.path = self.folder / uuid.uuid4().hex
        with self.path.open("a") as file:
            file.write(f"{element}\n")

    def flush(self, end_of_input):
        self.ends.append(end_of_input)

    def prepare_commit(self):
        path, self.path = self.path, None
        return [] if path is None else [path.name]


class FolderCommitter(Committer):
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "visible").mkdir(parents=True, exist_ok=True)

    def commit(self, requests):
        for request in requests:
            name = request.get_committable()
            try:
                os.rename(self.root / "waiting" / name, self.root / "visible" / name)
            except FileNotFoundError:
                if not (self.root / "visible" / name).exists():
                    raise
                request.signal_already_committed()


class RememberingSink(FolderSink, SupportsWriterState):
    """Writes a file only once it has `least` lines; a checkpoint holds the rest."""

    def __init__(self, root: Path, least: int) -> None:
        super().__init__(root)
        self.least = least

    def create_writer(self, context):
        return RememberingWriter(self, [])

    def restore_writer(self, context, recovered_state):
        return RememberingWriter(self, [line for part in recovered_state for line in part])


class RememberingWriter(FolderWriter, StatefulSinkWriter):
    def __init__(self, sink: RememberingSink, lines: list[str]) -> None:
        super().__init__(sink.root)
        self.least = sink.least
        self.held = lines

    def write(self, element, context):
        self.held.append(str(element))

    def prepare_commit(self):
        if len(self.held) < (1 if True in self.ends else self.least):
            return []
        held, self.held = self.held, []
        for line in held:
            super().write(line, None)
        return super().prepare_commit()

    def snapshot_state(self, checkpoint_id):
        return [self.held]
