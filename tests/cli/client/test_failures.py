"""What is shown of an exception in a job."""

from __future__ import annotations

import json
import os
import runpy
import traceback
from pathlib import Path

import pytest

import pystate
from pystate.common.errors import JobGraphError, UsageError
from pystate.common.user_code.user_frames import user_frame
from pystate.runtime.rest.failure_messages import OurError
from pystate_cli.client.failures import failure_of
from pystate_cli.programs.given_program import check_program

LIBRARY = os.__file__
OURS = str(Path(pystate.__file__).parent / "runtime" / "slot" / "subtask.py")


def frames(*files: str) -> str:
    lines = [f'  File "{file}", line {number}, in f{number}\n    code()\n' for number, file in enumerate(files, 1)]
    return f"Traceback (most recent call last):\n{''.join(lines)}ValueError: no\n"


def cause(trace: str, name: str = "UserFunctionError", where: str | None = "count, subtask 0") -> tuple[OurError, str]:
    return OurError(class_name=name, message="ValueError: no", where=where), trace


@pytest.mark.parametrize(
    ("files", "frame"),
    [
        (["/a/job.py"], ['File "/a/job.py", line 1, in f1']),
        (["/a/job.py", "/a/lib.py", LIBRARY], ['File "/a/lib.py", line 2, in f2']),
        (["/a/job.py", OURS], ['File "/a/job.py", line 1, in f1']),
        (["/a/job.py", "<frozen importlib._bootstrap>"], ['File "/a/job.py", line 1, in f1']),
        ([OURS, LIBRARY], []),
        ([], []),
    ],
)
def test_the_last_frame_of_the_user_is_the_one_to_look_at(files, frame):
    assert user_frame(frames(*files)) == frame


def test_of_a_chain_of_exceptions_the_last_one_counts():
    chain = frames("/a/first.py") + "\nDuring handling of the above exception, another exception occurred:\n\n"

    assert user_frame(chain + frames("/a/second.py")) == ['File "/a/second.py", line 1, in f1']


def test_a_real_trace_is_understood(tmp_path):
    program = tmp_path / "job.py"
    program.write_text("import json\n\ndef share(text):\n    return json.loads(text)\nshare('{')\n")
    try:
        runpy.run_path(str(program))
    except json.JSONDecodeError:
        trace = traceback.format_exc()

    assert user_frame(trace) == [f'File "{program}", line 4, in share']


def test_the_frame_stands_below_the_place():
    assert str(failure_of(*cause(frames("/a/job.py")))) == (
        'ValueError: no\n  at: count, subtask 0\n      File "/a/job.py", line 1, in f1'
    )
    assert (
        str(failure_of(*cause(frames("/a/job.py"), where=None))) == 'ValueError: no\n  at: File "/a/job.py", line 1, in f1'
    )


def test_a_place_is_not_said_twice():
    failed = failure_of(*cause(frames("/a/job.py"), "NameError", "/a/job.py, line 1"))

    assert str(failed) == 'NameError: ValueError: no\n  at: File "/a/job.py", line 1, in f1'


def test_an_error_of_ours_has_no_frame():
    assert str(failure_of(*cause(frames("/a/job.py"), "RestoreError"))) == "ValueError: no\n  at: count, subtask 0"


def test_a_syntax_error_in_a_module_shows_the_line(tmp_path):
    module = tmp_path / "module.py"
    module.write_text("def f(:\n")
    try:
        compile(module.read_text(), str(module), "exec")
    except SyntaxError as error:
        trace = frames("/a/job.py").rpartition("ValueError")[0] + "".join(traceback.format_exception_only(error))

    shown = user_frame(trace)
    assert shown[:2] == [f'File "{module}", line 1', "    def f(:"]
    assert shown[2].strip() == "^"


def test_a_syntax_error_of_the_program_is_said_with_line_text_and_caret(tmp_path):
    program = tmp_path / "job.py"
    program.write_text("x = 1\ndef f(:\n    pass\n")

    with pytest.raises(JobGraphError) as caught:
        check_program(program)

    first, second, text, caret = str(caught.value).splitlines()
    assert (first, second) == ("SyntaxError: invalid syntax", f'  at: File "{program}", line 2')
    assert text == "    def f(:"
    assert text[caret.index("^")] in "(:"


@pytest.mark.parametrize("content", [b"\0", b"\xff\xfe", b"if 1:\nx\n"])
def test_what_python_can_not_read_is_refused(tmp_path, content):
    program = tmp_path / "job.py"
    program.write_bytes(content)

    with pytest.raises(JobGraphError):
        check_program(program)


def test_a_program_with_another_encoding_or_a_warning_is_fine(tmp_path, capfd, recwarn):
    program = tmp_path / "job.py"
    program.write_bytes("# -*- coding: latin-1 -*-\nx = 'ä' is 'ö'\n".encode("latin-1"))

    check_program(program)

    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


def test_a_file_that_can_not_be_read_is_said_so(tmp_path, monkeypatch):
    def refused(_path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refused)

    with pytest.raises(UsageError, match="can't be read: Permission denied"):
        check_program(tmp_path / "job.py")
