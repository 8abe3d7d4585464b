"""A checkpoint or savepoint with its metadata."""

from __future__ import annotations

from pystate.common.configuration.option_types import nearest_name
from pystate.common.errors import SnapshotError
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, resolve_snapshot


class OpenedSnapshot:
    """A checkpoint or savepoint with its metadata; state is not read yet.

    Args:
        path: Its directory, or its `_metadata`.

    Attributes:
        location: Its directory.
        metadata: The content of its `_metadata`.

    Raises:
        SnapshotError: There is none, or it is damaged.
    """

    def __init__(self, path: str) -> None:
        self.location: SnapshotLocation = resolve_snapshot(path)
        self.metadata: CheckpointMetadata = read_metadata(self.location.read_metadata(), self.location.uri)

    def operator(self, uid: str) -> OperatorState:
        """Return the state of the operator with that uid.

        Raises:
            SnapshotError: There is none.
        """
        for operator in self.metadata.operators:
            if operator.uid == uid:
                return operator
        raise self.unknown(None, "operator", uid, [operator.uid for operator in self.metadata.operators])

    def unknown(self, uid: str | None, what: str, name: str, known: list[str]) -> SnapshotError:
        """Return the error for an unknown name, with the most similar known one.

        Args:
            uid: The operator that lacks it; None if it is the snapshot.
            what: What it is, for people.
            name: Its name.
            known: The names that there are.
        """
        near = nearest_name(name, known)
        whose = "The snapshot" if uid is None else f"The operator {uid!r}"
        message = f"{whose} has no {what} {name!r}; it has: {', '.join(map(repr, known)) or 'none'}."
        hint = None if near is None else f"did you mean {near!r}?"
        return SnapshotError(message, where=self.location.uri, hint=hint)
