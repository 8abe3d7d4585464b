"""The words in text files, counted: a function with state, and nothing else."""

from __future__ import annotations

from pystate.connectors.project_template import ProjectTemplate

_JOB = '''
"""Counts the words in the text files of a folder, with a state per word.

    pystate run {module}.py                 watch the folder input, until the job is stopped or cancelled
    pystate run {module}.py input --once    read what is there, and end
"""

import argparse
import re

from pystate.common import Duration, Types
from pystate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat

WORD = re.compile(r"\\w+")


class CountWords(KeyedProcessFunction):
    """Emits (word, how often it was seen so far) for every word."""

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default="input")
    parser.add_argument("--once", action="store_true", help="end when everything is read")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), arguments.folder)
    if not arguments.once:
        files = files.monitor_continuously(Duration.of_seconds(1))
    (
        env.from_source(files.build(), None, "text files")
        .uid("text-files")
        .flat_map(lambda line: WORD.findall(line.lower()), output_type=Types.STRING())
        .name("words")
        .key_by(lambda word: word, key_type=Types.STRING())
        .process(CountWords(), output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
        .name("count words")
        .uid("count-words")  # the state is found by it in the next version of the program: keep it
        .print()
    )
    env.execute("{name}")


if __name__ == "__main__":
    main()
'''

_TEST = '''
"""Tests of the job's function, without Spark: python -m pytest"""

from pystate.common import Types
from pystate.testing import ProcessFunctionTestHarnesses

from {module} import CountWords


def harness():
    return ProcessFunctionTestHarnesses.for_keyed_process_function(CountWords(), lambda word: word, Types.STRING())


def test_each_word_has_a_count_of_its_own():
    counting = harness()

    counting.process_elements(["a", "b", "a"])

    assert counting.extract_output() == [("a", 1), ("b", 1), ("a", 2)]


def test_an_epoch_that_is_rolled_back_leaves_no_trace():
    counting = harness()
    counting.process_element("a")
    counting.end_epoch()
    counting.process_element("a")
    counting.roll_back_epoch()

    counting.process_element("a")

    assert counting.extract_output()[-1] == ("a", 2)
'''

_INPUT_0 = """
to be or not to be
that is the question
"""

TEMPLATE = ProjectTemplate(
    about="counts the words in the text files of `input`",
    job=_JOB,
    test=_TEST,
    files={"input/hamlet.txt": _INPUT_0},
    commands=(
        ("pystate run {module}.py input --once", "read what is there, and end"),
        ("pystate run -d {module}.py", "watch the folder"),
    ),
    first_run="pystate run {module}.py input --once",
)
