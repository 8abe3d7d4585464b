"""Connectors to Redis and Valkey: a sink, look-ups (`pip install 'pystate-spark[redis]'`)."""

from pystate.connectors.redis.redis_connection import RedisConnectionOptions
from pystate.connectors.redis.redis_lookup import AsyncRedisLookup, RedisLookup
from pystate.connectors.redis.redis_request import RedisStructure
from pystate.connectors.redis.redis_sink import RedisSink, RedisSinkBuilder

__all__ = [
    "AsyncRedisLookup",
    "RedisConnectionOptions",
    "RedisLookup",
    "RedisSink",
    "RedisSinkBuilder",
    "RedisStructure",
]
