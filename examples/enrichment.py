"""Enriches transactions with details of their users, which are broadcast and change while the job runs.

    pystate run examples/enrichment.py

A transaction of an unknown user is emitted without details.
"""

from pystate.common import Row, Types
from pystate.datastream import BroadcastProcessFunction, MapStateDescriptor, StreamExecutionEnvironment

TRANSACTION = Types.ROW_NAMED(["id", "user", "amount"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])
USER = Types.ROW_NAMED(["user", "name", "country"], [Types.LONG(), Types.STRING(), Types.STRING()])
ENRICHED = Types.ROW_NAMED(
    ["id", "user", "amount", "name", "country"],
    [Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.STRING()],
)
USERS = MapStateDescriptor("users", Types.LONG(), USER)


class Enrich(BroadcastProcessFunction):
    """Adds name and country of the user to a transaction."""

    def process_element(self, value, ctx):
        user = ctx.get_broadcast_state(USERS).get(value.user)
        name, country = (None, None) if user is None else (user.name, user.country)
        yield Row(id=value.id, user=value.user, amount=value.amount, name=name, country=country)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(USERS).put(value.user, value)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    transactions = env.from_collection(
        [Row(id=1, user=7, amount=12.5), Row(id=2, user=8, amount=3.0), Row(id=3, user=9, amount=1.0)],
        type_info=TRANSACTION,
    )
    users = env.from_collection(
        [Row(user=7, name="Ada", country="GB"), Row(user=8, name="Linus", country="FI")], type_info=USER
    )
    enriched = transactions.connect(users.broadcast(USERS)).process(Enrich(), output_type=ENRICHED)
    enriched.name("enrich").uid("enrich").print()
    env.execute("enrichment")


if __name__ == "__main__":
    main()
