"""examples/ops/upgrade.sh on a real job: a bug in a map is mended while the stream goes on."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from tests.e2e.commands.test_command_line import JOB_ID, ROOT, Shell
from tests.waiting import LONGEST_S, wait_until

FILES, LINES = 30, 20
KEYS = 7

# the map tells on each row which program it went through; the state after it must know nothing of the upgrade
PROGRAM = """
import json
import sys
from pathlib import Path
from pystate.common import Duration, Row, Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat

PRICED = Types.ROW_NAMED(["number", "price"], [Types.LONG(), Types.LONG()])
RESULT = Types.ROW_NAMED(["key", "count", "number", "price"], [Types.LONG()] * 4)

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(key=ctx.get_current_key(), count=count, number=value.number, price=value.price)

def price(line):
    number = int(line)
    return Row(number=number, price=PRICE)

def append(frame, epoch):
    rows = [json.dumps([row.key, row["count"], row.number, row.price]) + "\\n" for row in frame.collect()]
    with open(sys.argv[2], "a") as file:
        file.write("".join(rows))

env = StreamExecutionEnvironment.get_execution_environment()
files = (
    FileSource.for_record_stream_format(StreamFormat.text_line_format(), sys.argv[1])
    .monitor_continuously(Duration.of_millis(200))
    .set_max_files_per_epoch(4)
    .build()
)
numbers = env.from_source(files, None, "numbers").map(price, output_type=PRICED)
counts = numbers.key_by(lambda row: row.number % 7, key_type=Types.LONG()).process(Count(), output_type=RESULT).uid("count")
counts.for_each_batch(append)
env.execute("prices")
"""


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path)
    yield made
    made.close()


def rows(path):
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def refuse_damaged(shell, tmp_path, program):
    """A savepoint whose _metadata is cut off, or missing, is one sentence."""
    metadata = next((tmp_path / "savepoints").glob("savepoint-*/_metadata"))
    metadata.write_bytes(metadata.read_bytes()[:100])
    for words in ("damaged", "_metadata"):
        refused = shell("run", "-d", "-s", metadata.parent, program, shell.folder, tmp_path / "none", exit_code=1)
        assert refused.stdout == ""
        errors = [line for line in refused.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert words in refused.stderr.lower()
        assert "Traceback" not in refused.stderr
        metadata.unlink(missing_ok=True)


@pytest.mark.timeout(300)
@pytest.mark.slow  # three starts of a job
def test_upgrade_mends_a_bug_without_losing_or_doubling_anything(shell, tmp_path):
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text(PROGRAM.replace("PRICE)", "number * 10)"))  # the bug
    new.write_text(PROGRAM.replace("PRICE)", "number * 100)"))
    sink = tmp_path / "sink.jsonl"
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "pystate").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pystate_cli "$@"\n')
    (commands / "pystate").chmod(0o755)

    def feed():
        for number in range(FILES):
            shell.add(f"{number:03}.txt", [str(number * LINES + line) for line in range(LINES)])
            time.sleep(0.25)

    first = shell("run", "-d", "-p", "2", old, shell.folder, sink).stdout.strip()
    feeder = threading.Thread(target=feed)
    feeder.start()
    wait_until(lambda: rows(sink))

    environment = {
        **shell.environment,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "SAVEPOINT_DIR": str(tmp_path / "savepoints"),
        "RUN_OPTIONS": "-p 3",
    }
    command = [ROOT / "examples" / "ops" / "upgrade.sh", "prices", new, shell.folder, sink]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S)
    assert done.returncode == 0, done.stderr
    assert JOB_ID.fullmatch(done.stdout)
    feeder.join()
    wait_until(lambda: len(rows(sink)) >= FILES * LINES)
    listed = shell("list", "-a").stdout
    assert f"{first} : prices (FINISHED)" in listed
    assert f"{done.stdout.strip()} : prices (RUNNING)" in listed
    shell("cancel", "prices")
    refuse_damaged(shell, tmp_path, new)

    found = rows(sink)
    assert sorted(number for _, _, number, _ in found) == list(range(FILES * LINES)), "lost or doubled"
    factors = [price // number if number else None for _, _, number, price in found]
    cut = factors.index(100)
    assert 10 in factors[:cut]
    assert set(factors[:cut]) <= {10, None}, "old results up to the cut"
    assert set(factors[cut:]) <= {100, None}, "new ones after it"
    for key in range(KEYS):
        counts = [count for found_key, count, _, _ in found if found_key == key]
        assert counts == list(range(1, len(counts) + 1)), "the state knows nothing of the upgrade"
