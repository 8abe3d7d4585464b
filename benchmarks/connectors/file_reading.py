"""Rows a second of CSV and JSON files that slots read, beside Spark's own readers of the same files (micro-batch engine).

    python benchmarks/connectors/file_reading.py [ROWS] [ROUNDS] [PARALLELISM]

A job reads files of rows with five columns, of which each subtask gets one per epoch, and keeps one row in a thousand.
The first epochs (Spark's classes, Python workers) don't count. Readers take turns, and each ratio is of two runs that
followed each other. Rows per processor's second count the time of this process, Spark's and all Python workers', so that
neighbours on the machine matter less. Then one slot's reader alone (`slot` in the place of ROWS does this only).
"""

import io
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from processes import processors_s

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.connectors.file_system.formats.csv_format import CsvFormat
from pystate.connectors.file_system.formats.json_format import JsonFormat
from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.formats.csv import CsvReaderFormat, CsvSchema
from pystate.datastream.formats.json import JsonLinesFormat
from pystate.runtime.driver.embedded import LocalExecutor

EPOCHS, COLD = 12, 4
KEPT = 1000
MOST_AT_ONCE = 500
ROW = Types.ROW_NAMED(
    ["id", "name", "price", "count", "flag"],
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.INT(), Types.BOOLEAN()],
)
COLUMNS = "id LONG, name STRING, price DOUBLE, count INT, flag BOOLEAN"


def row_of(number):
    return number, f"name-{number % 1000}", number * 0.25, number % 100, number % 2 == 0


def csv_line(row):
    return ",".join(str(value).lower() if value is True or value is False else str(value) for value in row)


def json_line(row):
    return json.dumps(dict(zip(ROW.get_field_names(), row, strict=True)))


LINES = {"CSV": csv_line, "JSON": json_line}
READERS = {"CSV": CsvReaderFormat.for_schema(CsvSchema(ROW)), "JSON": JsonLinesFormat(ROW)}
IN_SLOT = {"CSV": CsvFormat(CsvSchema(ROW), "UTC"), "JSON": JsonFormat(ROW, "UTC")}


def write_files(folder, line, rows, files):
    folder.mkdir()
    for file in range(files):
        numbers = range(file * rows // files, (file + 1) * rows // files)
        (folder / f"{file:04}").write_text("".join(f"{line(row_of(number))}\n" for number in numbers))


def in_slots(env, name, folder, parallelism):
    source = FileSource.for_record_stream_format(READERS[name], str(folder))
    return env.from_source(source.set_max_files_per_epoch(parallelism).build(), None, name)


def by_spark(env, name, folder, parallelism):
    reader = env.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", parallelism)
    return env.from_data_frame(getattr(reader, name.lower())(str(folder)), bounded=True)


class Epochs:
    """When epochs came out, how many rows they kept, and how much the processors had done by then."""

    def __init__(self):
        self.at = []

    def __call__(self, frame, epoch):
        if kept := frame.count():
            self.at.append((time.monotonic(), processors_s(), kept))


def measured(make, name, folder, parallelism):
    """Return rows a second, and rows per processor's second, of all epochs but the cold ones."""
    env, epochs = StreamExecutionEnvironment.get_execution_environment(), Epochs()
    kept = make(env, name, folder, parallelism).filter(lambda row: row["id"] % KEPT == 0)
    kept.for_each_batch(epochs)
    env.execute(name)
    assert len(epochs.at) > COLD + 1, f"{len(epochs.at)} epochs"
    (started, used, _), (ended, used_at_end, _) = epochs.at[COLD], epochs.at[-1]
    share = sum(kept for _, _, kept in epochs.at[COLD + 1 :]) * KEPT
    return share / (ended - started), share / (used_at_end - used)


def slot_alone(rows):
    print("\n| one slot's reader alone | rows per processor's second |\n|---|---|")
    for name, line in LINES.items():
        data = "".join(f"{line(row_of(number))}\n" for number in range(rows)).encode()
        best = 0.0
        for _ in range(3):
            used, count, records = time.process_time(), 0, IN_SLOT[name].open(io.BytesIO(data), name, 0)
            while (elements := records.read(MOST_AT_ONCE)) is not None:
                count += len(elements)
            best = max(best, count / (time.process_time() - used))
        print(f"| {name} | {best:,.0f} |", flush=True)


def main():
    print(machine())
    if sys.argv[1:] == ["slot"]:
        slot_alone(200_000)
        return
    rows, rounds, parallelism = (int(value) for value in (sys.argv[1:] + ["1200000", "3", "2"][len(sys.argv) - 1 :]))
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    configuration = Configuration({"parallelism.default": str(parallelism), "restart-strategy.type": "none"})
    configuration.set_string("pystate.source.max-rows-per-epoch", str(rows))
    register_executor(LocalExecutor(configuration, PystateHome(root / "home")))
    print(f"{rows:,} rows, parallelism {parallelism}, median of {rounds}\n")
    print("| | in slots, rows/s | by Spark, rows/s | ratio | in slots, rows/cpu s | by Spark, rows/cpu s | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, line in LINES.items():
        folder = root / name
        write_files(folder, line, rows, EPOCHS * parallelism)
        pairs = [[measured(make, name, folder, parallelism) for make in (in_slots, by_spark)] for _ in range(rounds)]
        cells = []
        for figure in (0, 1):
            ours, theirs = ([pair[side][figure] for pair in pairs] for side in (0, 1))
            ratio = statistics.median(mine / spark for mine, spark in zip(ours, theirs, strict=True))
            cells += [f"{statistics.median(ours):,.0f}", f"{statistics.median(theirs):,.0f}", f"{ratio:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    slot_alone(200_000)


if __name__ == "__main__":
    main()
