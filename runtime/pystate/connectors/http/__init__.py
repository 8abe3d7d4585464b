"""The sink to services that speak HTTP (`pip install 'pystate-spark[http]'`)."""

from pystate.connectors.http.http_sink import HttpBodyFormat, HttpSink, HttpSinkBuilder

__all__ = ["HttpBodyFormat", "HttpSink", "HttpSinkBuilder"]
