"""Step 3: event time and timers. A small payment opens a case for a minute; at its end there is one alert, with the sum.

pystate run step3_timers.py INPUT
"""

import sys

from payments import LARGE_CENTS, MINUTE_MS, SMALL_CENTS, by_card, in_time, read

from pystate.common import Row, Types
from pystate.datastream import KeyedProcessFunction, MapStateDescriptor, StreamExecutionEnvironment

ALERT = Types.ROW_NAMED(["card", "cents", "time"], [Types.STRING(), Types.LONG(), Types.LONG()])


class Cases(KeyedProcessFunction):
    """Emits (card, cents, time of the small payment) for each small payment that large ones followed within a minute."""

    def open(self, runtime_context):
        self.taken = runtime_context.get_map_state(MapStateDescriptor("taken", Types.LONG(), Types.LONG()))

    def process_element(self, payment, ctx):
        if payment.cents < SMALL_CENTS:
            self.taken.put(payment.time, 0)
            ctx.timer_service().register_event_time_timer(payment.time + MINUTE_MS)
        elif payment.cents >= LARGE_CENTS:
            for opened, cents in list(self.taken.items()):
                if opened <= payment.time <= opened + MINUTE_MS:
                    self.taken.put(opened, cents + payment.cents)

    def on_timer(self, timestamp, ctx):
        opened = timestamp - MINUTE_MS
        cents = self.taken.get(opened)
        self.taken.remove(opened)
        if cents:
            yield Row(card=ctx.get_current_key(), cents=cents, time=opened)


def alerts(payments):
    return by_card(payments).process(Cases(), ALERT).name("cases").uid("cases")


def main(folder):
    env = StreamExecutionEnvironment.get_execution_environment()
    alerts(in_time(read(env, folder))).print()
    env.execute("payments")


if __name__ == "__main__":
    main(sys.argv[1])
