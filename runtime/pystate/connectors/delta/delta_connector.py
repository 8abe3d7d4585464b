"""Delta tables, for what knows no system by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.overrides import override
from pystate.connectors.client_package import client_finding
from pystate.connectors.connector import Connector
from pystate.connectors.finding import Finding
from pystate.connectors.spark_format import SparkFormat

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate.connectors.project_template import ProjectTemplate


class DeltaConnector(Connector):
    """Delta tables."""

    @override
    def spark_formats(self) -> Sequence[SparkFormat]:
        return (DeltaFormat(),)

    @override
    def position_of_splits(self, splits: Sequence[Any]) -> str | None:
        from pystate.connectors.lakehouse.table_split import position_of

        return position_of(splits, lambda file: "partition" in file and "spec" not in file)

    @override
    def position_of_source(self, found: Any, splits: Sequence[Any]) -> str | None:
        from pystate.connectors.lakehouse.table_split import position_of_read_table

        return self.position_of_splits(splits) if splits else position_of_read_table(found)

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        yield client_finding("delta", "Delta tables", "deltalake", (1, 5))

    @override
    def templates(self) -> Mapping[str, ProjectTemplate]:
        from pystate.connectors.delta.delta_template import TEMPLATE

        return {"lakehouse": TEMPLATE}


class DeltaFormat(SparkFormat):
    """The format `delta`, which has a limit of its own: 1,000 files an epoch."""

    names = ("delta",)
    implementation = "DeltaSource["
    limits_itself = True

    @override
    def describe_offset(self, offset: Any, log: Mapping[str, bytes]) -> str | None:
        from pystate.connectors.lakehouse.table_split import describe_position

        return describe_position(offset)  # of a DeltaSource or an IcebergSource: the source of Spark's has others
