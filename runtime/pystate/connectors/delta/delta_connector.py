"""Delta tables, for what knows no system by name."""

from __future__ import annotations

from collections.abc import Sequence

from pystate.common.overrides import override
from pystate.connectors.connector import Connector
from pystate.connectors.spark_format import SparkFormat


class DeltaConnector(Connector):
    """Delta tables."""

    @override
    def spark_formats(self) -> Sequence[SparkFormat]:
        return (DeltaFormat(),)


class DeltaFormat(SparkFormat):
    """The format `delta`, which has a limit of its own: 1,000 files an epoch."""

    names = ("delta",)
    implementation = "DeltaSource["
    limits_itself = True
