"""Step 6: all of it in one job, with results in files, each of them exactly once.

pystate run step6_sink.py INPUT OUTPUT
"""

import json
import sys

from payments import in_time, read
from step3_timers import alerts
from step4_ttl import strange
from step5_window import spent

from pystate.common import Encoder, Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy


def write(rows, folder, name):
    """Write rows as lines of JSON, into files that appear when the checkpoint that holds them is complete."""
    lines = rows.map(lambda row: json.dumps(row.as_dict()), Types.STRING()).name(f"{name} as JSON")
    sink = (
        FileSink.for_row_format(f"{folder}/{name}", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".jsonl").build())
        .build()
    )
    lines.sink_to(sink).name(name).uid(f"{name}-files")


def build(env, source, target, cases=alerts):
    payments = in_time(read(env, source))
    write(cases(payments), target, "alerts")
    write(strange(payments), target, "strange")
    write(spent(payments), target, "spent")


def main(source, target):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(2_000)
    build(env, source, target)
    env.execute("payments")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
