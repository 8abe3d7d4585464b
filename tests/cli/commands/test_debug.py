"""`pystate debug`: one record in one operator, with the state of its key."""

from __future__ import annotations

import dataclasses
import json
import os
import sys

import pytest

from pystate.common.files.home import PystateHome
from pystate.runtime.job_folder.failing_record import FailingRecord, keep_failing_record, kept_failing_records
from pystate.runtime.job_folder.submission import Submission, SubmissionFile
from pystate.testing import Program
from tests.cli.terminal import TerminalCommand
from tests.core.snapshot.snapshots import COUNT, WORDS, write_savepoint
from tests.testing.test_program_harness import JOB

MUCH = """
from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor

class Much(KeyedProcessFunction):
    def open(self, context):
        self.text = context.get_state(ValueStateDescriptor("text", Types.STRING()))

    def process_element(self, value, context):
        self.text.update("x" * 50_000)
        for time in range(500):
            context.timer_service().register_event_time_timer(time)

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1], Types.LONG()).key_by(lambda value: value).process(Much()).uid("count").print()
env.execute()
"""

pytestmark = pytest.mark.usefixtures("forked_programs")


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "counts.py"
    path.write_text(JOB)
    return path


@pytest.fixture
def savepoint(own_home):
    content = {COUNT: WORDS[COUNT]}
    return write_savepoint(own_home / "savepoints", snapshot_id="aaaa11112222", content=content, operator_state=False)


def test_a_what_if_on_one_key(pystate, job, savepoint):
    words = ("--operator", "means", "-s", "aaaa", "--record", "('key-7', 5)", "--timestamp", 8)
    code, out, err = pystate("debug", *words, job)

    assert (code, err) == (0, "")
    assert [line.split(":", 1) for line in out.splitlines() if "= {}" not in line and "= []" not in line] == [
        ["key", "         'key-7'"],
        ["record", "      ('key-7', 5)"],
        ["timestamp", "   8"],
        ["state", "       count = 7"],
        ["state", "       sum = None"],
        ["result", "      ('key-7', 20, 7, 8)"],
        ["state after", " count = 8"],
        ["state after", " sum = None"],
    ]
    plain = json.loads(pystate("debug", "--json", *words, job).out)
    assert (plain["result"], plain["stateAfter"][0]) == (["('key-7', 20, 7, 8)"], "count = 8")


def test_a_record_that_fails(pystate, job, tmp_path):
    code, out, err = pystate("debug", "--operator", "count", "--record", "('a', 0)", "--as-test", "test_it.py", job)

    assert code == 1
    assert out.splitlines()[-1] == "raised:      ZeroDivisionError: integer division or modulo by zero"
    trace = err.splitlines()
    assert trace[1].startswith(f'  File "{job}", line '), "the first frame is the program's"
    assert trace[-1] == "The test is test_it.py: python -m pytest test_it.py"
    assert (tmp_path / "test_it.py").exists()


def test_of_much_state_its_beginning_is_printed_and_all_as_json(pystate, tmp_path):
    program = tmp_path / "much.py"
    program.write_text(MUCH)
    words = ("debug", "--operator", "count", "--record", "1", program)

    out = pystate(*words).out

    timers = [line for line in out.splitlines() if line.startswith("timers after:")]
    assert timers[19:] == ["timers after:event time 19", "timers after:... and 480 more; --json prints all"]
    state = next(line for line in out.splitlines() if line.startswith("state after:"))
    assert state.endswith(f"... {len('text = ') + 50_002:,} characters; --json prints all")
    assert len(state) < 1_100
    plain = json.loads(pystate(*words[:1], "--json", *words[1:]).out)
    assert (len(plain["timersAfter"]), len(plain["stateAfter"][0])) == (500, len("text = ") + 50_002)


def test_pdb_stops_in_the_function_and_where_it_raises(job):
    command = TerminalCommand("debug", "--operator", "count", "--record", "('a', 0)", job, columns=120, rows=60)
    try:
        command.wait_for(lambda text: "(Pdb)" in text)
        command.press(b"p 'first', value\nc\n")
        command.wait_for(lambda text: "ZeroDivisionError" in text)
        command.press(b"p 'last', count\nq\n")
        assert command.end() == 1
    finally:
        command.close()
    text = command.screen.text
    assert "-> count = self.count.value() or 0" in text
    assert "('first', ('a', 0))" in text
    assert "-> yield value[0], 100 // value[1], count, ctx.timestamp()" in text
    assert "('last', 0)" in text


def test_wrong_calls(pystate, job):
    assert pystate("debug").code == 2
    assert pystate("debug", job).code == 2
    assert pystate("debug", "--record", "1", "nosuch.py").code == 2
    assert pystate("debug", "--operator", "count", "--record", "nosuch", job).code == 2
    code, out, err = pystate("debug", "--operator", "cuont", "--record", "1", job)
    assert code == 1
    assert "did you mean 'count'?" in err
    code, out, err = pystate("debug", "--operator", "count", "--input", "2", "--record", "('a', 1)", job)
    assert (code, out) == (2, "")
    assert err.startswith("error: The operator 'count' has no input 2.")
    code, out, err = pystate("debug", "--operator", "count", "--record", "('a', 1)", "--as-test", "no/test.py", job)
    assert code == 2
    assert err.startswith("error: The test can't be written: No such file or directory.")


@pytest.fixture
def failed_job(own_home, job, tmp_path):
    """The id of a job of the program that has failed twice, at the second of two records."""
    directory = PystateHome(own_home).job("ab" * 16)
    directory.path.mkdir(parents=True)
    submission = Submission(str(job), [], str(tmp_path), None, None, False, {}, attached=True, python=sys.executable)
    SubmissionFile.of(submission, directory.path.name, 1).write_to(directory.submission)
    program = Program(job)
    program._configuration.set_string("pystate.debug.keep-failing-records", "2")
    for last in (("a", 0), ("b", 0)):
        with program.harness("count") as harness, pytest.raises(ZeroDivisionError):
            harness.process((last[0], 5))
            harness.process(last)
        record = FailingRecord.from_bytes(harness._chain.failing_record, "")
        record = dataclasses.replace(record, uid="count", operator="means")  # in a harness every operator has one uid
        keep_failing_record(directory.path, record.to_bytes(), 2)
    return directory.path.name


@pytest.mark.parametrize(("words", "record"), [((), "('b', 0)"), ((1,), "('a', 0)"), ((2, "--timestamp", 3), "('b', 0)")])
def test_a_record_that_a_job_has_kept(pystate, failed_job, words, record):
    code, out, err = pystate("debug", failed_job[:6], *words, "--json")

    said = json.loads(out)
    assert code == 1
    assert (said["record"], said["state"][0]) == (record, "count = 1")
    assert said["failed"] == "ZeroDivisionError: integer division or modulo by zero, in 'means', subtask 0, attempt 0"


def test_a_kept_record_becomes_a_test_and_fails_until_the_function_is_mended(pystate, failed_job, job, tmp_path):
    assert pystate("debug", failed_job, "--as-test", "test_it.py").code == 1
    text = (tmp_path / "test_it.py").read_text()
    assert "{'count': 1}" in text
    assert """process(program.value("('b', 0)"))""" in text

    job.write_text(JOB.replace("100 // value[1]", "100 // (value[1] or 1)"))
    code, out, err = pystate("debug", failed_job)
    assert code == 0
    assert "it is mended" in out


def test_a_kept_record_that_is_not_there(pystate, failed_job, own_home):
    assert "The job has no kept record 7; it has 1, 2." in pystate("debug", failed_job, 7).err
    assert pystate("debug", failed_job, "x").code == 2
    for path in kept_failing_records(PystateHome(own_home).job(failed_job).path).values():
        path.unlink()
    code, out, err = pystate("debug", failed_job)
    assert code == 2
    assert "try: run it with -D pystate.debug.keep-failing-records=10" in err


def test_odd_kept_files_and_numbers_are_told_in_a_sentence(pystate, failed_job, own_home):
    folder = PystateHome(own_home).job(failed_job).path / "failing-records"
    code, out, err = pystate("debug", failed_job, "9" * 5000)
    assert (code, out) == (2, "")
    assert f"has no kept record {'9' * 40}; it has 1, 2." in err
    assert pystate("debug", failed_job, "0001", "--json").code == 1, "it is number 1, which fails"
    odd = folder / "7.record"
    for make in (odd.mkdir, lambda: os.mkfifo(odd, 0o600), lambda: odd.symlink_to(folder / "nosuch")):
        make()
        code, out, err = pystate("debug", failed_job)
        assert (code, out) == (1, "")
        assert err.startswith("error: The kept record can't be read: ")
        assert f"  at: {odd}" in err
        odd.rmdir() if odd.is_dir() else odd.unlink()


def test_a_program_that_has_changed_or_gone_since(pystate, failed_job, job, own_home, tmp_path):
    submission = PystateHome(own_home).job(failed_job).submission
    submission.write_text(submission.read_text().replace(f'"{tmp_path}"', f'"{tmp_path}/gone"'))
    code, out, err = pystate("debug", failed_job)
    assert code == 1, "it fails as before"
    assert f"The folder in which the job was started is gone: {tmp_path}/gone." in err

    for text, message in (
        (
            JOB.replace("    def open(self, ctx):", "    def open(self, ctx):\n        raise OSError('no database')"),
            "OSError: no database",
        ),
        ("raise RuntimeError('early')\n" + JOB, "RuntimeError: early\n  at: "),
        ("x = = 1", "SyntaxError: invalid syntax"),
    ):
        job.write_text(text)
        code, out, err = pystate("debug", failed_job)
        assert code == 1
        assert f"error: {message}" in err
        assert "pystate/testing" not in err, "no frames of ours"
    job.unlink()
    code, out, err = pystate("debug", failed_job)
    assert (code, out) == (2, "")
    assert err.startswith("error: The job file can't be read: No such file or directory.")


def test_a_test_never_takes_the_place_of_another_file(pystate, failed_job, job, tmp_path):
    code, out, err = pystate("debug", failed_job, "--as-test", job)
    assert (code, out) == (2, "")
    assert err.startswith("error: There is another file already where the test is to be written.")
    assert job.read_text() == JOB
    for _ in range(2):  # but that of its own test
        assert pystate("debug", failed_job, "--as-test", tmp_path / "test_it.py").code == 1


def test_a_job_that_keeps_records_but_none_of_this_failure(pystate, failed_job, own_home):
    directory = PystateHome(own_home).job(failed_job)
    for path in kept_failing_records(directory.path).values():
        path.unlink()
    written = SubmissionFile.read_from(directory.submission)
    settings = {"pystate.debug.keep-failing-records": "10"}
    SubmissionFile.of(dataclasses.replace(written, configuration=settings), failed_job, 1).write_to(directory.submission)
    code, out, err = pystate("debug", failed_job)
    assert code == 2
    assert "try: what open(), sources and functions before key_by() fail of isn't kept" in err
