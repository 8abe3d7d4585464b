"""Step 4: state that expires. A large payment in a shop that the card hasn't been to for thirty days.

pystate run step4_ttl.py INPUT
"""

import sys

from payments import LARGE_CENTS, by_card, in_time, read

from pystate.common import Row, Time, Types
from pystate.datastream import KeyedProcessFunction, MapStateDescriptor, StateTtlConfig, StreamExecutionEnvironment

STRANGE = Types.ROW_NAMED(["card", "shop", "cents"], [Types.STRING(), Types.STRING(), Types.LONG()])
TTL = StateTtlConfig.new_builder(Time.days(30)).update_ttl_on_create_and_write().never_return_expired().build()


class StrangeShops(KeyedProcessFunction):
    """Emits (card, shop, cents) of a large payment in a shop that is new to its card."""

    def open(self, runtime_context):
        shops = MapStateDescriptor("shops", Types.STRING(), Types.BOOLEAN())
        shops.enable_time_to_live(TTL)
        self.shops = runtime_context.get_map_state(shops)

    def process_element(self, payment, ctx):
        if payment.cents >= LARGE_CENTS and not self.shops.contains(payment.shop):
            yield Row(card=payment.card, shop=payment.shop, cents=payment.cents)
        self.shops.put(payment.shop, True)


def strange(payments):
    return by_card(payments).process(StrangeShops(), STRANGE).name("strange shops").uid("strange-shops")


def main(folder):
    env = StreamExecutionEnvironment.get_execution_environment()
    strange(in_time(read(env, folder))).print()
    env.execute("payments")


if __name__ == "__main__":
    main(sys.argv[1])
