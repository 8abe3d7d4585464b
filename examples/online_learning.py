"""Online learning: a logistic regression by stochastic gradient descent, whose weights are state.

    pystate run examples/online_learning.py FOLDER [--follow]

The files have one observation per line, `model,label,feature,feature,...`: the name of the model that learns from it, 1
or 0, and numbers. For each observation the model first predicts, then learns from the label. With `--follow`
the folder is watched for new files; a savepoint contains the weights, and a job that starts from it continues to learn.
"""

import math
import sys

from pystate.common import Duration, Types
from pystate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat

LEARNING_RATE = 0.1
PREDICTION = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.DOUBLE()])


def observation(line):
    """Return (model, label, features) of a line."""
    model, label, *features = line.split(",")
    return model, int(label), [float(feature) for feature in features]


def expectation(weights, features):
    """Return the probability of a 1; the first weight is the bias."""
    score = weights[0] + sum(weight * feature for weight, feature in zip(weights[1:], features, strict=True))
    return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))


def learn(weights, label, features):
    """Return the weights after one step down the gradient of the loss."""
    step = LEARNING_RATE * (label - expectation(weights, features))
    return [weight + step * feature for weight, feature in zip(weights, [1.0, *features], strict=True)]


class Learn(KeyedProcessFunction):
    """Emits (model, observations so far, label, prediction) for each observation."""

    def open(self, runtime_context: RuntimeContext):
        self.weights = runtime_context.get_state(ValueStateDescriptor("weights", Types.LIST(Types.DOUBLE())))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        _, label, features = observation(value)
        weights = self.weights.value() or [0.0] * (len(features) + 1)
        count = (self.count.value() or 0) + 1
        self.weights.update(learn(weights, label, features))
        self.count.update(count)
        yield ctx.get_current_key(), count, label, expectation(weights, features)


def learn_from(lines):
    """Return the stream of predictions."""
    by_model = lines.key_by(lambda line: line.partition(",")[0], key_type=Types.STRING())
    return by_model.process(Learn(), output_type=PREDICTION).name("learn").uid("learn")


def main():
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), sys.argv[1])
    if "--follow" in sys.argv[2:]:
        source.monitor_continuously(Duration.of_seconds(1))
    env = StreamExecutionEnvironment.get_execution_environment()
    learn_from(env.from_source(source.build(), None, "observations")).print()
    env.execute("online learning")


if __name__ == "__main__":
    main()
