"""`DeltaSource`: reads a Delta table, as it is or version by version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pystate.common.errors import JobGraphError
from pystate.common.overrides import override
from pystate.common.time import Duration, Instant
from pystate.connectors.client_package import client_findings
from pystate.connectors.delta.delta_client import NEEDED, table_uri
from pystate.connectors.delta.delta_reading import DeltaReading
from pystate.connectors.early_check import EarlyFinding, SupportsEarlyCheck
from pystate.connectors.lakehouse.source_table import ChangeKind
from pystate.connectors.lakehouse.table_source import TableSource, TableSourceBuilder
from pystate.connectors.lakehouse.table_source_settings import StartKind, TableSourceSettings

_LATEST = "latest"
_HINTS = {ChangeKind.DELETES: "ignore_deletes()", ChangeKind.CHANGES: "skip_change_commits()"}


class DeltaSource(TableSource, SupportsEarlyCheck):
    """Reads the rows of a Delta table; made by `for_bounded_row_data` or `for_continuous_row_data`.

    Args:
        uri: The table.
        settings: How it is read.
        storage_options: How its storage is reached.
    """

    def __init__(self, uri: str, settings: TableSourceSettings, storage_options: Mapping[str, str]) -> None:
        super().__init__(settings)
        self.uri = uri
        self._storage_options = dict(storage_options)

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"DeltaSource({self.uri!r})"

    @staticmethod
    def for_bounded_row_data(uri: str) -> DeltaBoundedSourceBuilder:
        """Return a builder of a source of a table as it is at the start, or was at a version or time.

        Args:
            uri: A folder, or a URL of `s3://`.
        """
        return DeltaBoundedSourceBuilder(uri, TableSourceSettings())

    @staticmethod
    def for_continuous_row_data(uri: str) -> DeltaContinuousSourceBuilder:
        """Return a builder of a source of a table as it is at the start, and of the rows that are added then.

        Args:
            uri: A folder, or a URL of `s3://`.
        """
        return DeltaContinuousSourceBuilder(uri, TableSourceSettings(follows=True, skip_hint=_HINTS))

    @override
    def early_findings(self) -> Iterator[EarlyFinding]:
        return client_findings("deltalake", NEEDED, "delta", in_slots=False)

    @override
    def open_table(self) -> DeltaReading:
        return DeltaReading(self.uri, self._storage_options)


class _DeltaSourceBuilder(TableSourceBuilder):
    def __init__(self, uri: str, settings: TableSourceSettings) -> None:
        super().__init__(settings)
        self._uri = table_uri(uri)
        self._storage_options: dict[str, str] = {}

    def build(self) -> DeltaSource:
        """Return the source."""
        return DeltaSource(self._uri, self._settings, self._storage_options)


class DeltaBoundedSourceBuilder(_DeltaSourceBuilder):
    """Builds a bounded `DeltaSource`.

    Args:
        uri: The table.
        settings: Those to begin with.
    """

    def with_storage_options(self, storage_options: Mapping[str, str]) -> DeltaBoundedSourceBuilder:
        """Set how the storage is reached, by deltalake's own keys: `{"AWS_ENDPOINT_URL": ..., "AWS_REGION": ...}`."""
        self._storage_options = dict(storage_options)
        return self

    def version_as_of(self, version: int) -> DeltaBoundedSourceBuilder:
        """Read a version of the table."""
        return self._starting(StartKind.VERSION, version=_version(version))

    def timestamp_as_of(self, timestamp: Instant) -> DeltaBoundedSourceBuilder:
        """Read the version that was the newest at a time."""
        return self._starting_at(timestamp)


class DeltaContinuousSourceBuilder(_DeltaSourceBuilder):
    """Builds a `DeltaSource` that follows a table.

    Args:
        uri: The table.
        settings: Those to begin with.
    """

    def with_storage_options(self, storage_options: Mapping[str, str]) -> DeltaContinuousSourceBuilder:
        """Set how the storage is reached, by deltalake's own keys: `{"AWS_ENDPOINT_URL": ..., "AWS_REGION": ...}`."""
        self._storage_options = dict(storage_options)
        return self

    def starting_version(self, version: int | str) -> DeltaContinuousSourceBuilder:
        """Read what this version and later ones add, not the table as it is; "latest" for those after the start."""
        if version == _LATEST:
            return self._starting(StartKind.LATEST)
        return self._starting(StartKind.VERSION, version=_version(version))

    def starting_timestamp(self, timestamp: Instant) -> DeltaContinuousSourceBuilder:
        """Read what versions add that were committed at this time or later, not the table as it is."""
        return self._starting_at(timestamp)

    def update_check_interval(self, interval: Duration) -> DeltaContinuousSourceBuilder:
        """Set how often to look for new versions: 5 s."""
        return self._every(interval)

    def ignore_deletes(self) -> DeltaContinuousSourceBuilder:
        """Leave out versions that only remove files, such as a delete of whole partitions; without it they fail the job."""
        return self._skip(ChangeKind.DELETES)

    def skip_change_commits(self) -> DeltaContinuousSourceBuilder:
        """Leave out versions that delete, update, merge or overwrite, with the rows that they add, too."""
        return self._skip(ChangeKind.DELETES, ChangeKind.CHANGES)


def _version(version: int | str) -> int:
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        message = f"A version of a Delta table is a number from 0 on, not {version!r}."
        raise JobGraphError(message, hint='starting_version("latest") reads what is added from now on')
    return version
