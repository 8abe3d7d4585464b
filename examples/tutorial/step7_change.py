"""Step 7: the program changes, its state stays. An alert also says how many there have been for the card.

pystate run -s SAVEPOINT step7_change.py INPUT OUTPUT
"""

import sys

from payments import by_card
from step3_timers import Cases
from step6_sink import build

from pystate.common import Row, Types
from pystate.datastream import StreamExecutionEnvironment, ValueStateDescriptor

NUMBERED = Types.ROW_NAMED(["card", "cents", "time", "number"], [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])


class NumberedCases(Cases):
    """Numbers the alerts of each card, from the savepoint on."""

    def open(self, runtime_context):
        super().open(runtime_context)
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.LONG()))

    def on_timer(self, timestamp, ctx):
        for alert in super().on_timer(timestamp, ctx):
            self.number.update((self.number.value() or 0) + 1)
            yield Row(card=alert.card, cents=alert.cents, time=alert.time, number=self.number.value())


def numbered(payments):
    return by_card(payments).process(NumberedCases(), NUMBERED).name("cases").uid("cases")


def main(source, target):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(2_000)
    build(env, source, target, cases=numbered)
    env.execute("payments")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
