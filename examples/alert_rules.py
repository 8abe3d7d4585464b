"""Alerts with rules that change while the job runs: a rule is a pair of actions, which is broadcast to every subtask.

    pystate run examples/alert_rules.py

An alert is emitted when a user's last two actions are the current pair. The rule is broadcast state, the previous
action of each user is keyed state.
"""

from pystate.common import Row, Types
from pystate.datastream import (
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)

ACTION = Types.ROW_NAMED(["user", "action"], [Types.LONG(), Types.STRING()])
PATTERN = Types.ROW_NAMED(["first", "second"], [Types.STRING(), Types.STRING()])
PATTERNS = MapStateDescriptor("patterns", Types.STRING(), PATTERN)
IN_FORCE = "in force"


class PatternEvaluator(KeyedBroadcastProcessFunction):
    """Emits (user, pattern) when a user's last two actions are the current pattern."""

    def open(self, runtime_context: RuntimeContext):
        self.previous = runtime_context.get_state(ValueStateDescriptor("last-action", Types.STRING()))

    def process_element(self, value, ctx):
        pattern = ctx.get_broadcast_state(PATTERNS).get(IN_FORCE)
        previous = self.previous.value()
        if pattern is not None and previous is not None and (previous, value.action) == (pattern.first, pattern.second):
            yield ctx.get_current_key(), pattern
        self.previous.update(value.action)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(PATTERNS).put(IN_FORCE, value)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    actions = env.from_collection(
        [
            Row(user=user, action=action)
            for user, action in [(1001, "login"), (1002, "login"), (1001, "pay"), (1002, "logout"), (1003, "pay")]
        ],
        type_info=ACTION,
    )
    patterns = env.from_collection([Row(first="login", second="logout")], type_info=PATTERN)
    alerts = (
        actions.key_by(lambda action: action.user, key_type=Types.LONG())
        .connect(patterns.broadcast(PATTERNS))
        .process(PatternEvaluator(), output_type=Types.TUPLE([Types.LONG(), PATTERN]))
        .name("pattern evaluator")
        .uid("pattern-evaluator")
    )
    alerts.print("alert")
    env.execute("alert rules")


if __name__ == "__main__":
    main()
