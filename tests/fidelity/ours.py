"""Runs the programs here, in one process without Spark."""

from __future__ import annotations

from pystate.common import Types
from pystate.core.api.executor import current_executor, register_executor
from pystate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from tests.fidelity.answers import Labelled, Program, answers
from tests.fidelity.in_process import ALL, InProcessExecutor


class Collected:
    """The elements of streams, as texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.labels: list[str] = []

    def collect(self, program: Program, env: StreamExecutionEnvironment) -> None:
        """Build a program, and collect what its streams give."""
        for label, stream in program.streams(env).items():
            self.labels.append(label)
            stream.map(Labelled(label), Types.STRING()).for_each_batch(self._take)

    def collect_all(self, programs: list[Program], env: StreamExecutionEnvironment) -> None:
        """Build programs, and collect all they give by one sink: each sink is a query of Spark's in each epoch."""
        streams = {label: stream for program in programs for label, stream in program.streams(env).items()}
        self.labels += streams
        texts = [stream.map(Labelled(label), Types.STRING()) for label, stream in streams.items()]
        texts[0].union(*texts[1:]).for_each_batch(self._take)

    def answers(self) -> dict[str, dict[str, int]]:
        """Return what has come, by the name of the stream."""
        return answers(self.texts, self.labels)

    def _take(self, frame, epoch):
        self.texts += [row[0] for row in frame.collect()]


def ask(program: Program, parallelism: int, rows_per_epoch: int = ALL, mode: str = "STREAMING") -> dict[str, dict[str, int]]:
    """Return what a program answers here."""
    before = current_executor()
    register_executor(InProcessExecutor(parallelism, rows_per_epoch))
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_runtime_mode(RuntimeExecutionMode[mode])
        collected = Collected()
        collected.collect(program, env)
        env.execute(program.name)
    finally:
        register_executor(before)
    return collected.answers()
