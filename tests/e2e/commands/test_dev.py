"""`pystate dev` on Spark: state goes on over a save and a kill, what does not fit leaves the job alone, nothing is left."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LONGEST_S, wait_until

ROOT = Path(__file__).parents[3]
PROGRAM = """
from pystate.common import Types, WatermarkStrategy
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy

from naming import NAME


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{NAME} {count}"


env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda n: n, None, RateLimiterStrategy.per_second(5), Types.LONG())
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
numbers.key_by(lambda _: "all", Types.STRING()).process(Count(), Types.STRING()).uid("count").print()
env.execute("counted")
"""
PRINTED = re.compile(r"(old|new) (\d+)\n")


def processes_of(home: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(home) in words:
                found.append(words)
    return found


def printed(output: Path) -> list[int]:
    return [int(number) for _, number in PRINTED.findall(output.read_text())]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_state_goes_on_over_a_save_and_nothing_is_left_of_a_session(tmp_path):
    home, program = tmp_path / "home", tmp_path / "project" / "job.py"
    program.parent.mkdir()
    naming = program.with_name("naming.py")
    program.write_text(PROGRAM)
    naming.write_text('NAME = "old"\n')
    output, told = tmp_path / "output", tmp_path / "told"
    environment = {**os.environ, "PYSTATE_HOME": str(home), "PYSTATE_CONF_DIR": str(ROOT / "conf")}
    command = [sys.executable, "-m", "pystate_cli", "dev", "-p", "1", str(program)]

    def begin() -> subprocess.Popen[bytes]:
        with output.open("wb") as out, told.open("wb") as err:
            return subprocess.Popen(command, stdout=out, stderr=err, env=environment, cwd=tmp_path)

    session = begin()

    def says(*sentences: str) -> None:
        def there() -> bool:
            assert session.poll() is None, told.read_text()
            return all(sentence in told.read_text() for sentence in sentences)

        wait_until(there)

    try:
        says("Version 1 runs after")
        wait_until(lambda: "old 3\n" in output.read_text())
        program.write_text(PROGRAM.replace("Types.LONG()))", "Types.STRING()))"))
        says("project/job.py:11: error: State 'count' was written as VALUE of LONG", "The job goes on with version 1.")
        program.write_text(PROGRAM)
        says("the code of the job is the same")
        naming.write_text('NAME = "new"\n')
        says("Version 4 runs after")
        wait_until(lambda: re.search(r"new \d+\n", output.read_text()))
        session.kill()
        session.wait(LONGEST_S)
        before = printed(output)
        assert before == list(range(1, len(before) + 1)), "none is lost or doubled"
        session = begin()
        says("and its session was killed: this one takes it over.", "Version 1 runs after")
        wait_until(lambda: len(printed(output)) > 3)
    finally:
        session.send_signal(signal.SIGTERM)
        code = session.wait(LONGEST_S)
    assert code == 0, told.read_text()
    assert "To go on from the last savepoint: pystate dev -s " in told.read_text()
    after = printed(output)
    assert after == list(range(after[0], after[0] + len(after))), "none is lost or doubled"
    assert after[0] > before[-1]
    wait_until(lambda: not processes_of(home))
    assert [path.name for path in (home / "dev").glob("*/*")] == ["savepoints"]
