"""Windows and side outputs in a job on real Spark, over a restore at another parallelism and on another backend."""

from __future__ import annotations

from collections import Counter

import pytest

from pystate.common import Types
from pystate.common.errors import JobCancelledError
from pystate.datastream import OutputTag, ProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from tests.faults.workload import Sink, Watched

WORD = Types.STRING()
COUNTED = Types.TUPLE([WORD, Types.LONG()])
SHORT = OutputTag("short", COUNTED)
EVEN = OutputTag("even", WORD)
SIZE = 7


class Split(ProcessFunction):
    """Runs before the shuffle; words whose last digit is even go into its side output as well."""

    def process_element(self, value, ctx):
        yield value
        if int(value[-1]) % 2 == 0:
            yield EVEN, value


class Number(ProcessWindowFunction[str, tuple, str, object]):
    """Emits the window's number, for each other window into the side output."""

    def process(self, key, context, elements):
        assert list(elements) == [key] * SIZE
        number = context.window().id
        yield (SHORT, (key, number)) if number % 2 else (key, number)


@pytest.mark.slow
def test_full_windows_and_side_outputs_are_those_of_all_words_whatever_happens_in_between(run_job, tmp_path):
    watched = Watched(tmp_path / "words", 1)
    main, side, even = Sink(), Sink(), Sink()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_source(FileSource(str(watched.folder), monitor_interval_ms=1000), None, "words").uid("words")
        split = words.process(Split(), WORD).uid("split")
        windows = split.key_by(lambda word: word, WORD).count_window(SIZE).process(Number(), COUNTED).uid("windows")
        windows.for_each_batch(main)
        windows.get_side_output(SHORT).for_each_batch(side)
        split.get_side_output(EVEN).key_by(lambda word: word, WORD).count_window(1).reduce(max).uid("even").for_each_batch(
            even
        )
        env.execute("count windows")

    def windows_expected():
        return Counter((word, number) for word, count in watched.words.items() for number in range(count // SIZE))

    def even_expected():
        return Counter({(word,): count for word, count in watched.words.items() if int(word[-1]) % 2 == 0})

    def all_is_out():
        out = main.rows.total() + side.rows.total()
        return out >= windows_expected().total() and even.rows.total() >= even_expected().total()

    watched.add(3, different=8)
    job = run_job(program, {"state.backend.type": "rocksdb"})
    job.wait_for(all_is_out)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    watched.add(2, different=8)
    resumed = run_job(program, {"execution.state-recovery.path": path, "parallelism.default": "3"})
    resumed.wait_for(all_is_out)
    assert main.rows + side.rows == windows_expected()
    assert {number % 2 for _, number in main.rows} == {0}
    assert {number % 2 for _, number in side.rows} == {1}
    assert even.rows == even_expected()
