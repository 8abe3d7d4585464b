"""Elements and state of classes of the program's own file: a second run of it goes on from a savepoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.engines import on_both_engines

PROGRAM = """
import collections, dataclasses, enum, json, pickle, sys, threading
from pystate.common import Configuration, Duration, Types
from pystate.datastream import KeyedProcessFunction, ListStateDescriptor, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat

Pair = collections.namedtuple("Pair", "key n")

class Kind(enum.Enum):
    EVEN = 0
    ODD = 1

@dataclasses.dataclass
class Total:
    n: int
    kind: Kind
    seen: list
    last = None

class Sum(KeyedProcessFunction):
    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.PICKLED_BYTE_ARRAY()))
        self.pairs = ctx.get_list_state(ListStateDescriptor("pairs", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, pair, ctx):
        total = self.total.value() or Total(0, Kind.EVEN, [])
        assert isinstance(total, Total) and total.kind is Kind(total.n % 2), total
        assert type(pair) is Pair and all(type(one) is Pair for one in self.pairs.get())
        total = Total(total.n + pair.n, Kind((total.n + pair.n) % 2), [*total.seen, pair])
        self.total.update(total)
        self.pairs.add(pair)
        assert list(self.pairs.get()) == total.seen
        yield total

def main(engine, folder, savepoints, savepoint, expected):
    class Loc:
        def __init__(self, total):
            self.total = total

    settings = Configuration()
    settings.set_string("execution.engine", engine)
    settings.set_string("state.backend.type", "rocksdb")
    settings.set_string("restart-strategy.type", "none")
    settings.set_string("spark.master", "local[8,1]")
    if savepoint:
        settings.set_string("execution.state-recovery.path", savepoint)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(2 if savepoint else 1)
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
    lines = env.from_source(lines.monitor_continuously(Duration.of_seconds(1)).build(), None, "lines").uid("lines")
    pairs = lines.map(lambda line: Pair(int(line) % 3, int(line)))
    totals = pairs.key_by(lambda pair: pair.key, Types.LONG()).process(Sum()).uid("sum")
    found, all_there = [], threading.Event()

    def take(frame, epoch):
        for row in frame.collect():
            loc = pickle.loads(row[0])
            assert isinstance(loc, Loc) and type(loc.total) is Total and all(type(pair) is Pair for pair in loc.total.seen)
            assert loc.total.kind is Kind(loc.total.n % 2)
            found.append(loc.total.n)
        if len(found) >= int(expected):
            all_there.set()

    totals.map(lambda total: Loc(total)).for_each_batch(take)
    client = env.execute_async("totals")
    ended = client.get_job_execution_result()
    while not all_there.wait(0.2) and not ended.done():
        pass
    if ended.done():
        ended.result()
    print(json.dumps([sorted(found), client.stop_with_savepoint(False, savepoints).result()]))

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@on_both_engines
def test_state_of_the_programs_own_classes_goes_on_in_its_next_run_at_another_parallelism(tmp_path, engine):
    program, folder = tmp_path / "job.py", tmp_path / "lines"
    program.write_text(PROGRAM)
    folder.mkdir()
    environment = {**os.environ, "PYSTATE_HOME": str(tmp_path / "home")}

    def run(numbers, savepoint=""):
        part = tmp_path / "part"
        part.write_text("\n".join(map(str, numbers)))
        part.rename(folder / f"{numbers[0]}.txt")
        words = [str(program), engine, str(folder), str(tmp_path / "savepoints"), savepoint, str(len(numbers))]
        ran = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout.splitlines()[-1])

    found, savepoint = run([0, 1, 2, 3, 4, 5])
    assert found == [0, 1, 2, 3, 5, 7]
    found, _ = run([6, 7, 8], savepoint)
    assert found == [9, 12, 15]
