"""The files of a new project: a job with keyed state, its test, its settings."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from pystate.connectors.project_template import ProjectTemplate

_CONF = """
# The settings of this project; `pystate config` shows all, with their defaults and where each comes from.

"state.backend.type" = "hashmap"
"parallelism.default" = 1

"execution.checkpointing.interval" = "10 s"
"execution.checkpointing.dir" = "${PYSTATE_HOME}/checkpoints"
"execution.checkpointing.savepoint-dir" = "${PYSTATE_HOME}/savepoints"
"execution.checkpointing.externalized-checkpoint-retention" = "RETAIN_ON_CANCELLATION"
"""

_README = """
# {name}

A pystate job: `{module}.py` {about}.

    pip install 'pystate-spark[test]' # pytest
{clients}    python -m pytest                        # its parts, without Spark
    pystate doctor                          # can jobs run here?
    pystate check {module}.py               # what is wrong with it, without Spark
{commands}
    pystate dev {module}.py                 # run it, and at each save go on with the new code
    pystate watch {name}
    pystate stop {name}                     # end it with a savepoint, and print its path
    pystate run -d -s SAVEPOINT {module}.py # go on from there, with -p at another parallelism

Settings are in `conf/flink-conf.toml`.
"""

_PYTEST = """
[pytest]
pythonpath = .
testpaths = tests
"""


def project_files(name: str, template: ProjectTemplate, spark_version: str = "") -> dict[str, str]:
    """Return the files of a project: path -> text.

    Args:
        name: Its name: letters, digits, `-`, `_` and `.`.
        template: Its kind.
        spark_version: The version of the installed Spark.
    """
    module = module_name(name)
    clients: list[str] = []
    commands: list[str] = []
    for command, remark in template.commands:  # its test may need the clients, too
        (clients if command.startswith("pip install") else commands).append(f"    {command} # {remark}")
    words = {
        "clients": "".join(f"{line}\n" for line in clients),
        "commands": "\n".join(commands),
        "about": template.about,
        "spark": spark_version,
        "name": name,
        "module": module,
    }
    files = {
        f"{module}.py": template.job,
        f"tests/test_{module}.py": template.test,
        "conf/flink-conf.toml": _CONF + template.settings,
        "pytest.ini": _PYTEST,
        "README.md": _README,
        **template.files,
    }
    filled = {path: filled_in(text, words).lstrip("\n") for path, text in files.items()}
    return {**filled, "README.md": _aligned(filled["README.md"])}


def module_name(name: str) -> str:
    """Return the project's module name, which Python can import."""
    plain = "".join(character if character.isalnum() else "_" for character in name.lower())
    return f"job_{plain}" if not plain[:1].isalpha() else plain


def filled_in(text: str, words: Mapping[str, str]) -> str:
    """Return a text with placeholders in braces replaced; other braces stay."""
    text = textwrap.dedent(text)
    for word, value in words.items():
        text = text.replace(f"{{{word}}}", value)
    return text


def _aligned(text: str) -> str:
    """Align the remarks after commands."""
    commands = [line.split(" # ") for line in text.splitlines() if line.startswith("    ") and " # " in line]
    width = max((len(command.rstrip()) for command, *_ in commands), default=0)
    for command, *remark in commands:
        text = text.replace(" # ".join([command, *remark]), f"{command.rstrip():{width}}  # {' # '.join(remark)}")
    return text
