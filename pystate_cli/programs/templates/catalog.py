"""The catalog of project templates of `pystate new`."""

from __future__ import annotations

from enum import Enum

from pystate.connectors.file_system import files_template
from pystate.connectors.kafka import kafka_template
from pystate.connectors.project_template import ProjectTemplate
from pystate_cli.programs.templates import count, windows


class TemplateName(str, Enum):
    """The names of templates."""

    COUNT = "count"
    FILES = "files"
    KAFKA = "kafka"
    WINDOWS = "windows"


TEMPLATES: dict[TemplateName, ProjectTemplate] = {
    TemplateName.COUNT: count.TEMPLATE,
    TemplateName.FILES: files_template.TEMPLATE,
    TemplateName.KAFKA: kafka_template.TEMPLATE,
    TemplateName.WINDOWS: windows.TEMPLATE,
}
