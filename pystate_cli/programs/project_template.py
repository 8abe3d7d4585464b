"""The files of a new project: a job with keyed state, its test, its settings."""

from __future__ import annotations

import textwrap

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

_CONF = """
# The settings of this project; `pystate config` shows all, with their defaults and where each comes from.

"state.backend.type" = "hashmap"
"parallelism.default" = 1

"execution.checkpointing.interval" = "10 s"
"execution.checkpointing.dir" = "${{PYSTATE_HOME}}/checkpoints"
"execution.checkpointing.savepoint-dir" = "${{PYSTATE_HOME}}/savepoints"
"execution.checkpointing.externalized-checkpoint-retention" = "RETAIN_ON_CANCELLATION"
"""

_README = """
# {name}

A pystate job: `{module}.py` counts the words in the text files of `input`.

    python -m pytest                        # the job's function, without Spark
    pystate doctor                          # can jobs run here?
    pystate run {module}.py input --once    # read what is there, and end
    pystate run -d {module}.py              # watch the folder
    pystate watch {name}
    pystate stop {name}                     # end it behind a savepoint, and print its path
    pystate run -d -s SAVEPOINT {module}.py # go on from there, with -p at another parallelism

Settings are in `conf/flink-conf.toml`.
"""

_PYTEST = """
[pytest]
pythonpath = .
testpaths = tests
"""

_INPUT = """
to be or not to be
that is the question
"""


def project_files(name: str) -> dict[str, str]:
    """Return the files of a project: path -> text.

    Args:
        name: Its name: letters, digits, `-`, `_` and `.`.
    """
    module = module_name(name)
    words = {"name": name, "module": module}
    files = {
        f"{module}.py": _JOB,
        f"tests/test_{module}.py": _TEST,
        "conf/flink-conf.toml": _CONF,
        "pytest.ini": _PYTEST,
        "README.md": _README,
        "input/hamlet.txt": _INPUT,
    }
    filled = {path: _filled(text, words) for path, text in files.items()}
    return {**filled, "README.md": _aligned(filled["README.md"])}


def module_name(name: str) -> str:
    """Return the name of the project's program as Python can import it."""
    plain = "".join(character if character.isalnum() else "_" for character in name.lower())
    return f"job_{plain}" if not plain[:1].isalpha() else plain


def _filled(text: str, words: dict[str, str]) -> str:
    return textwrap.dedent(text).lstrip("\n").format(**words)


def _aligned(text: str) -> str:
    """Put the remarks behind commands under each other, whatever the names in front of them are."""
    commands = [line.split(" # ") for line in text.splitlines() if line.startswith("    ") and " # " in line]
    width = max((len(command.rstrip()) for command, *_ in commands), default=0)
    for command, *remark in commands:
        text = text.replace(" # ".join([command, *remark]), f"{command.rstrip():{width}}  # {' # '.join(remark)}")
    return text
