"""Files, for what knows no system by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.overrides import override
from pystate.connectors.connector import Connector

if TYPE_CHECKING:
    from pystate.connectors.project_template import ProjectTemplate
    from pystate.connectors.spark_format import SparkFormat


class FilesConnector(Connector):
    """Files and folders."""

    @override
    def spark_formats(self) -> Sequence[SparkFormat]:
        from pystate.connectors.file_system.spark_files import FilesFormat

        return (FilesFormat(),)

    @override
    def position_of_source(self, found: Any, splits: Sequence[Any]) -> str | None:
        from pystate.connectors.file_system.file_splits import position_of

        return position_of(found, splits)

    @override
    def templates(self) -> Mapping[str, ProjectTemplate]:
        from pystate.connectors.file_system.files_template import TEMPLATE

        return {"files": TEMPLATE}
