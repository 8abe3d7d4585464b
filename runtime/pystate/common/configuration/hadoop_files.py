"""Hadoop's own settings, from the files of HADOOP_CONF_DIR: core-site.xml, hdfs-site.xml, yarn-site.xml."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree  # noqa: S405 - reads the operator's own settings only

from pystate.common.errors import ConfigurationError

CONF_DIR_VARIABLE = "HADOOP_CONF_DIR"
_VARIABLE = re.compile(r"\$\{([^${}\s]+)\}")
_DEEPEST = 20
"""Hadoop's own bound for variables in variables."""


def hadoop_properties(file: Path) -> dict[str, str]:
    """Return the settings in a file that have a value; none if there is no file.

    Args:
        file: One of Hadoop's `*-site.xml`.

    Raises:
        ConfigurationError: It can't be read.
    """
    if not file.is_file():
        return {}
    try:
        root = ElementTree.parse(file).getroot()  # noqa: S314 - see above
    except (OSError, ElementTree.ParseError) as error:
        message = f"Hadoop's settings can't be read: {error}"
        raise ConfigurationError(message, where=str(file)) from error
    found: dict[str, str] = {}
    for entry in root.iter("property"):
        name, value = ((entry.findtext(part) or "").strip() for part in ("name", "value"))
        if value:
            found.setdefault(name, value)
    return {name: _substituted(value, found) for name, value in found.items()}


def _substituted(value: str, values: dict[str, str]) -> str:
    """Return a value with the variables in it replaced that the same file sets."""
    for _ in range(_DEEPEST):
        replaced = _VARIABLE.sub(lambda match: values.get(match[1], match[0]), value)
        if replaced == value:
            break
        value = replaced
    return value
