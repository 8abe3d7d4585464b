"""Redis and Valkey: a sink, and look-ups."""

from __future__ import annotations

from pystate.connectors.async_sink.refused_elements import RefusedElements
from pystate.connectors.redis import (
    AsyncRedisLookup,
    RedisConnectionOptions,
    RedisLookup,
    RedisSink,
    RedisSinkBuilder,
    RedisStructure,
)

__all__ = [
    "AsyncRedisLookup",
    "RedisConnectionOptions",
    "RedisLookup",
    "RedisSink",
    "RedisSinkBuilder",
    "RedisStructure",
    "RefusedElements",
]
