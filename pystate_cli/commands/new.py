"""`pystate new NAME`."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from pystate.common.distribution import pip_install
from pystate.common.errors import UsageError
from pystate.connectors.project_template import ProjectTemplate
from pystate_cli.arguments.completions import Completion, offered
from pystate_cli.arguments.options import JsonOption, VerboseOption
from pystate_cli.programs.project_files import filled_in, module_name, project_files
from pystate_cli.session import Session

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def _complete_template(incomplete: str) -> list[Completion]:
    return offered(_template_words(), incomplete)


def _template_words() -> Iterator[Completion]:
    from pystate_cli.programs.templates.catalog import templates

    for name, template in templates().items():
        yield name, template.about


def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project's name, or the path of its folder.")],
    template: Annotated[
        str,
        typer.Option(
            "--template",
            metavar="TEMPLATE",
            help="What the job is: count, windows, or one that a connector brings along, such as files.",
            autocompletion=_complete_template,
        ),
    ] = "count",
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Make a project: a job with state, a test of it that needs no Spark, and its settings.

    count counts the words in text files; windows has averages per minute of event time. Templates of connectors go from one
    system to another, exactly once: files, and what else is installed.
    """
    session = Session.of(context)
    folder = Path(name).expanduser().absolute()
    _check(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        message = f"{folder} is there already."
        raise UsageError(message, hint="choose another name")
    chosen = _template(template)
    files = project_files(folder.name, chosen, version("pyspark"))
    for path, text in files.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            message = f"The project can't be written: {error.strerror}."
            raise UsageError(message, where=str(target)) from error
        session.console.info(f"  {folder.name}/{path}")
    *needed, first_run = filled_in(chosen.first_run, {"module": module_name(folder.name)}).splitlines()
    for line in ("", f"cd {name}", pip_install("test"), *needed, "python -m pytest", first_run):  # tests need a client, too
        session.console.info(line)
    if as_json:
        session.console.result_json({"path": str(folder), "files": [str(path) for path in files]})
    else:
        session.console.result(str(folder))


def _template(name: str) -> ProjectTemplate:
    from pystate_cli.programs.templates.catalog import templates

    found = templates()
    if name not in found:
        message = f"There is no template {name!r}."
        raise UsageError(message, hint=f"one of {', '.join(found)}; other connectors bring others")
    return found[name]


def _check(folder: Path) -> None:
    module = module_name(folder.name)
    problem = None
    if not _NAME.fullmatch(folder.name):
        problem = f"{folder.name!r} can't be the name of a project: it takes letters, digits, '-', '_' and '.'."
    elif keyword.iskeyword(module) or module in sys.stdlib_module_names or module in ("pystate", "pyspark", "tests", "conf"):
        problem = f"The program would be called {module}.py, which Python knows as something else."
    if problem is not None:
        raise UsageError(problem, hint="for example pystate new word-count")
