"""Delta tables, for what knows no system by name."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from pystate.common.distribution import pip_install
from pystate.common.overrides import override
from pystate.connectors.connector import Connector
from pystate.connectors.finding import Finding, ok, warn
from pystate.connectors.spark_format import SparkFormat

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


class DeltaConnector(Connector):
    """Delta tables."""

    @override
    def spark_formats(self) -> Sequence[SparkFormat]:
        return (DeltaFormat(),)

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        if importlib.util.find_spec("deltalake") is None:
            yield ok("delta", f"Delta tables: {pip_install('delta')}")
            return
        installed = version("deltalake")
        if int(installed.partition(".")[0]) < 1:
            yield warn("delta", f"deltalake {installed} is installed, jobs need 1.5 or newer", pip_install("delta"))
            return
        yield ok("delta", f"Delta tables: deltalake {installed} is installed")


class DeltaFormat(SparkFormat):
    """The format `delta`, which has a limit of its own: 1,000 files an epoch."""

    names = ("delta",)
    implementation = "DeltaSource["
    limits_itself = True
