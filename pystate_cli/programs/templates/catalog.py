"""The catalog of project templates of `pystate new`."""

from __future__ import annotations

from enum import Enum

from pystate_cli.programs.project_template import ProjectTemplate
from pystate_cli.programs.templates import count, files, kafka, windows


class TemplateName(str, Enum):
    """The names of templates."""

    COUNT = "count"
    FILES = "files"
    KAFKA = "kafka"
    WINDOWS = "windows"


TEMPLATES: dict[TemplateName, ProjectTemplate] = {
    TemplateName.COUNT: count.TEMPLATE,
    TemplateName.FILES: files.TEMPLATE,
    TemplateName.KAFKA: kafka.TEMPLATE,
    TemplateName.WINDOWS: windows.TEMPLATE,
}
