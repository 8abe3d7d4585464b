"""The program takes each result once, whatever happens to the job's attempts."""

from __future__ import annotations

from collections import Counter

from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment

WORD = Types.STRING()
COUNTED = Types.TUPLE([WORD, Types.LONG()])
FILES, ROWS = 6, 40


def test_each_element_comes_once_over_a_failed_attempt(run_job, tmp_path):
    words, failed = tmp_path / "words", tmp_path / "failed"
    words.mkdir()
    for number in range(FILES):
        lines = [f"{number} {row}" if row else f"{number} {'poison' if number == 4 else 0}" for row in range(ROWS)]
        (words / f"{number}.txt").write_text("\n".join(lines))
    collected = []

    def number_of(line):
        if line.endswith("poison") and not failed.exists():
            failed.touch()
            message = "once"
            raise ValueError(message)
        return line.split()[0]

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        frame = env.spark.readStream.option("maxFilesPerTrigger", 1).text(str(words))
        lines = env.from_data_frame(frame, "words", bounded=True).uid("words").map(lambda row: row["value"], WORD)
        numbers = lines.rebalance().map(number_of, WORD).map(lambda number: (number, 1), COUNTED)
        counts = numbers.key_by(lambda pair: pair[0], WORD).sum(1).uid("counts")
        with counts.execute_and_collect("collected") as results:
            collected.extend(results)

    options = {
        "execution.checkpointing.interval": "100 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "0 s",
    }
    job = run_job(program, options)
    job.result()

    assert failed.exists()
    assert job.status["attempt"] == 1
    assert Counter(collected) == Counter((str(number), count) for number in range(FILES) for count in range(1, ROWS + 1))
