"""`pystate debug [OPTIONS] job.py [ARGUMENTS]`, and `pystate debug [OPTIONS] JOB [FAILURE]`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.loaded_configuration import parse_dynamic_properties
from pystate.common.errors import UsageError
from pystate.common.files.home import JobDirectory, read_json, write_json
from pystate.runtime.job_folder.submission import SubmissionFile
from pystate.runtime.rest.failure_messages import OurError
from pystate_cli.arguments.job_selection import JOB_ID, connect_to_job
from pystate_cli.arguments.options import ConfDirOption, JsonOption, PropertyOption, VerboseOption
from pystate_cli.arguments.savepoint_places import check_starting_snapshot, starting_path
from pystate_cli.programs.given_program import check_program, given_program
from pystate_cli.programs.program_arguments import (
    PROGRAM_FLAGS,
    PROGRAM_WITH_VALUE,
    PythonFilesOption,
    starting_option,
    with_job_file_after_options,
)
from pystate_cli.session import Session

DEBUGGER = (sys.executable, "-m", "pystate.testing.debug_process")
_SHORTEST_PREFIX = 4
_FLAGS = PROGRAM_FLAGS | {"--no-debugger"}
_WHAT_IF = {"--record", "--timestamp", "--input", "--key", "--watermark", "--processing-time"}
_WITH_VALUE = PROGRAM_WITH_VALUE | _WHAT_IF | {"--operator", "--as-test"}


def debug(
    context: typer.Context,
    job: Annotated[
        str, typer.Argument(metavar="JOB.PY|JOB", help="The program; or a job, of which a kept record is replayed.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ARGUMENTS|FAILURE]",
            help="The program's arguments; or the number of the kept record, the latest.",
        ),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            "--record",
            metavar="EXPRESSION",
            help="The record, as a Python expression with the names of the program: 5, ('a', 1), Row(word='a').",
        ),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option("--operator", metavar="UID|NAME", help="The operator that takes it; the only one where there is one."),
    ] = None,
    savepoint_path: Annotated[
        str | None, starting_option("The savepoint or checkpoint with the state of its key; without it there is none.")
    ] = None,
    timestamp: Annotated[
        int | None, typer.Option("--timestamp", metavar="MS", help="Its timestamp, milliseconds since 1970.")
    ] = None,
    input_number: Annotated[
        int, typer.Option("--input", metavar="1|2", min=1, max=2, help="The input of the operator, where it has two.")
    ] = 1,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="EXPRESSION", help="A key whose timers fire, in place of a record."),
    ] = None,
    watermark: Annotated[
        int | None, typer.Option("--watermark", metavar="MS", help="Event time up to which they fire, ms since 1970.")
    ] = None,
    processing_time: Annotated[
        int | None, typer.Option("--processing-time", metavar="MS", help="Processing time up to which they fire.")
    ] = None,
    as_test: Annotated[
        Path | None, typer.Option("--as-test", metavar="FILE", help="Write it as a test with the harness, too.")
    ] = None,
    no_debugger: Annotated[
        bool, typer.Option("--no-debugger", help="Process the record without stopping.", show_default=False)
    ] = False,
    properties: PropertyOption = None,
    conf_dir: ConfDirOption = None,
    python_files: PythonFilesOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Replay a record or a timer in one operator with the state of its key, under pdb, without Spark.

    With a job it is the one at which the job failed, kept with pystate.debug.keep-failing-records; the state is the one
    that the key had then, or with -s that of a snapshot. With a program it is a what-if on one key: --record, or --key and a
    time up to which its timers fire; and -s.

    It stops at the first line of the function that is called, and again where that raises. The program is executed up
    to its execute(). In a pipe, with --json and with --no-debugger nothing stops; exit code 1 if the function raises.
    """
    session = Session.of(context)
    console = session.console
    request: dict[str, Any] = {
        "operator": operator,
        "record": record,
        "timestamp": timestamp,
        "input": input_number,
        "key": key,
        "watermark": watermark,
        "processing_time": processing_time,
        "debugger": not (no_debugger or as_json) and console.can_ask,
        "as_test": None if as_test is None else str(as_test.absolute()),
        "json": as_json,
        "failure": None,
    }
    if _is_program(job):
        program = given_program(
            session,
            job,
            arguments,
            _FLAGS | _WITH_VALUE,
            properties=properties,
            python_files=python_files,
            conf_dir=conf_dir,
            savepoint_path=savepoint_path,
        )
        if (record is None) is (key is None) or (key is not None and (watermark is None) is (processing_time is None)):
            message = "Give a record, or a key and a time up to which its timers fire."
            hint = "--record EXPRESSION; --key EXPRESSION with --watermark or --processing-time; or pystate debug JOB"
            raise UsageError(message, hint=hint)
        place = None
        request |= {
            "job_file": str(program.path),
            "arguments": program.arguments,
            "configuration": program.configuration.to_dict(),
            "savepoint_path": program.starting,
        }
    else:
        directory = _job_directory(session, job)
        submission = SubmissionFile.read_from(directory.submission)
        failure = _kept(directory, arguments or [], {} if submission is None else submission.configuration)
        if submission is None:
            message = f"The job {directory.path.name} was not started by a job manager, so its program isn't known."
            raise UsageError(message, where=str(failure), hint="start it with pystate run")
        check_program(Path(submission.job_file))
        place = submission.working_directory
        if not Path(place).is_dir():
            console.info(f"The folder in which the job was started is gone: {place}. The program is executed in this one.")
            place = None
        settings = parse_dynamic_properties(properties or [])
        configuration = Configuration({**submission.configuration, **settings})
        request |= {
            "job_file": submission.job_file,
            "arguments": submission.arguments,
            "configuration": configuration.to_dict(),
            "savepoint_path": None if savepoint_path is None else starting_path(savepoint_path, configuration),
            "failure": str(failure),
        }
    if as_test is not None:
        _check_free(as_test)
    check_starting_snapshot(request["savepoint_path"], here=True)
    with tempfile.TemporaryDirectory(prefix="pystate-debug-") as folder:
        asked = Path(folder, "request.json")
        write_json(asked, request, mode=0o600)
        code = subprocess.run([*DEBUGGER, str(asked)], cwd=place, check=False).returncode  # noqa: S603 - ours
        failure = read_json(asked.with_name("failure.json"))
    if failure is not None:
        raise OurError.from_plain(failure).error()
    if as_test is not None:
        console.info(f"The test is {as_test}: python -m pytest {as_test}")
    return code


def _job_directory(session: Session, text: str) -> JobDirectory:
    """Return the folder of a job, by its id, the beginning of that, or its name."""
    jobs = session.home.jobs
    found = [path.name for path in jobs.glob(f"{text.lower()}*") if JOB_ID.fullmatch(path.name)] if text.isalnum() else []
    if len(found) != 1 or len(text) < _SHORTEST_PREFIX:
        found = [connect_to_job(session, None, text, None)[1]]
    return session.home.job(found[0])


def _check_free(test: Path) -> None:
    from pystate.testing.written_test import WRITTEN

    with contextlib.suppress(OSError):
        if test.read_bytes().startswith(WRITTEN.encode()):
            return
    if os.path.lexists(test):
        message = "There is another file already where the test is to be written."
        raise UsageError(message, where=str(test), hint="name another file after --as-test")


def _kept(directory: JobDirectory, words: list[str], configuration: dict[str, str]) -> Path:
    from pystate.runtime.job_folder.failing_record import kept_failing_records

    kept = kept_failing_records(directory.path)
    numbers = ", ".join(map(str, sorted(kept)))
    if not kept:
        message = f"The job {directory.path.name} has kept no record at which it failed."
        hint = f"run it with -D {PystateOptions.KEEP_FAILING_RECORDS.key}=10"
        if Configuration(configuration).get(PystateOptions.KEEP_FAILING_RECORDS):
            hint = "what open(), sources and functions before key_by() fail of isn't kept: pystate exceptions JOB"
        raise UsageError(message, hint=hint)
    if len(words) > 1 or (words and not words[0].isdecimal()):
        message = f"A kept record has a number: {numbers}; not {' '.join(words)}."
        raise UsageError(message)
    wanted = words[0].lstrip("0") if words else str(max(kept))
    found = [path for number, path in kept.items() if str(number) == wanted]
    if not found:
        message = f"The job has no kept record {wanted[:40]}; it has {numbers}."
        raise UsageError(message)
    return found[0]


def debug_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments of `debug` with that of `-py` as a positional one; options may follow the name of a job."""
    options: list[str] = []
    rest = with_job_file_after_options(arguments, _FLAGS, _WITH_VALUE, "debug")
    positional: list[str] = []
    while rest:
        word, *rest = rest
        takes = [word, *rest[:1]] if word in _WITH_VALUE else [word]
        if word.startswith("-"):
            options += takes
            rest = rest[len(takes) - 1 :]
        else:
            positional.append(word)
        if positional and _is_program(positional[0]):  # all that follows is its own
            break
    return [*options, *positional, *rest]


def _is_program(word: str) -> bool:
    return word.endswith(".py") or Path(word).is_file()
