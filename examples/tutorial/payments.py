"""What all steps of docs/tutorial.md share: what a payment is, and where payments come from.

python payments.py FOLDER [NUMBER]      write file NUMBER of the example's payments into FOLDER
"""

import json
import random
import sys
from pathlib import Path

from pystate.common import Duration, Types, WatermarkStrategy
from pystate.common.types import Row
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream.connectors.file_system import FileSource, StreamFormat

PAYMENT = Types.ROW_NAMED(["card", "shop", "cents", "time"], [Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
SMALL_CENTS, LARGE_CENTS = 100, 50_000
MINUTE_MS = 60_000


def parse(line):
    """Return the payment of a line of JSON in a list; nothing of a line that is no payment."""
    try:
        found = json.loads(line)
        return [Row(card=found["card"], shop=found["shop"], cents=int(found["cents"]), time=int(found["time"]))]
    except (ValueError, KeyError, TypeError):
        return []


def read(env, folder):
    """Return the payments in the files of a folder, and in those that will come."""
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
    source = lines.monitor_continuously(Duration.of_seconds(1)).build()
    return env.from_source(source, None, "payments").uid("payments").flat_map(parse, PAYMENT).name("parse")


class TimeOfPayment(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.time


def in_time(payments):
    """Return the payments with their time as event time; they may be in disorder by ten seconds."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_idleness(Duration.of_seconds(1))
    return payments.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(TimeOfPayment()))


def by_card(payments):
    return payments.key_by(lambda payment: payment.card, Types.STRING())


# -------------------- payments to try it with

START_MS = 1_772_323_200_000  # 2026-03-01 00:00 UTC
PAYMENTS_A_FILE = 240
SHOPS = ("bakery", "books", "cinema", "grocer", "pharmacy", "trains")


def invented(number):
    """Return the payments of file `number`: twenty minutes of twelve cards, three of which are tried out and emptied."""
    chosen = random.Random(number)
    start = START_MS + number * 20 * MINUTE_MS
    times = sorted(chosen.randrange(20 * MINUTE_MS - 90_000) for _ in range(PAYMENTS_A_FILE))
    payments = [
        Row(
            card=f"card-{chosen.randrange(12)}",
            shop=chosen.choice(SHOPS),
            cents=chosen.randrange(200, 9_000),
            time=start + time,
        )
        for time in times
    ]
    for turn in range(3):
        card, time = f"card-{(number + turn) % 12}", start + (2 + 5 * turn) * MINUTE_MS
        payments.append(Row(card=card, shop="kiosk", cents=50 + turn, time=time))
        for purchase in range(turn + 1):  # the last one comes too late to belong to the case
            cents, later = 60_000 + purchase, 20_000 * (purchase + 1) + (5_000 if purchase == 2 else 0)
            payments.append(Row(card=card, shop="jeweller", cents=cents, time=time + later))
    return sorted(payments, key=lambda payment: payment.time)


def write(folder, number):
    """Write the payments of file `number`; the file appears as a whole."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    part = Path(folder, f".{number}.part")
    part.write_text("".join(json.dumps(payment.as_dict()) + "\n" for payment in invented(number)), "utf-8")
    part.rename(Path(folder, f"{number}.jsonl"))


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
