"""A table environment of Flink's, for the sides of benchmarks that run in the Python of a PyFlink."""

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment


def flink_tables(settings):
    """Return the table environment of a job with some options."""
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    return StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(configuration))
