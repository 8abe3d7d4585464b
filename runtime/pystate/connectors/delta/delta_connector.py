"""Delta tables, for what knows no system by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

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
