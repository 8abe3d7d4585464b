"""Step 2: keyed state. A card that pays next to nothing, and a large amount right after it, has been tried out.

pystate run step2_state.py INPUT
"""

import sys

from payments import LARGE_CENTS, SMALL_CENTS, by_card, read

from pystate.common import Row, Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor

ALERT = Types.ROW_NAMED(["card", "cents"], [Types.STRING(), Types.LONG()])


class SmallThenLarge(KeyedProcessFunction):
    """Emits (card, cents) of a large payment whose card paid a small one just before."""

    def open(self, runtime_context):
        self.small = runtime_context.get_state(ValueStateDescriptor("last-was-small", Types.BOOLEAN()))

    def process_element(self, payment, ctx):
        if self.small.value() and payment.cents >= LARGE_CENTS:
            yield Row(card=payment.card, cents=payment.cents)
        if payment.cents < SMALL_CENTS:
            self.small.update(True)
        else:
            self.small.clear()


def alerts(payments):
    return by_card(payments).process(SmallThenLarge(), ALERT).name("small then large").uid("small-then-large")


def main(folder):
    env = StreamExecutionEnvironment.get_execution_environment()
    alerts(read(env, folder)).print()
    env.execute("payments")


if __name__ == "__main__":
    main(sys.argv[1])
