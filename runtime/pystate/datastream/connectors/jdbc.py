"""The JDBC sink's names. It isn't there yet; Spark's own writer writes to databases."""

from pystate.common.not_there import not_there

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]

_WHY = "the JDBC sink comes later."
_HINT = "write with Spark: for_each_batch(lambda frame, epoch: frame.write.jdbc(...))"

JdbcSink = not_there("JdbcSink", _WHY, _HINT)
JdbcConnectionOptions = not_there("JdbcConnectionOptions", _WHY, _HINT)
JdbcExecutionOptions = not_there("JdbcExecutionOptions", _WHY, _HINT)
