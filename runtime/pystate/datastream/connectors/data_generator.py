"""A source that generates elements. PyFlink has none; the names are those of Flink's `connector.datagen.source`."""

from pystate.connectors.generated.data_generator_source import DataGeneratorSource, GeneratorFunction, RateLimiterStrategy

__all__ = ["DataGeneratorSource", "GeneratorFunction", "RateLimiterStrategy"]
