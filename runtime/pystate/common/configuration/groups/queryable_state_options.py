"""The options of queryable state, with Flink's class and constant names."""

from __future__ import annotations

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import BooleanType, IntegerType, PortRangeType, StringType


class QueryableStateOptions:
    """Looking into the state of a running job from outside."""

    ENABLE_QUERYABLE_STATE_PROXY_SERVER = ConfigOption[bool](
        "queryable-state.enable",
        BooleanType(),
        False,
        "Whether the job's slots answer what is asked of its queryable states, and its driver runs the proxy that clients"
        " ask.",
    )
    SERVER_PORT_RANGE = ConfigOption[range](
        "queryable-state.server.ports",
        PortRangeType(),
        range(9_067, 9_068),
        "On which ports slots answer their driver's proxy: each takes the first that is free, of a single port or the next"
        " ones above it.",
        ("query.server.ports",),
    )
    PROXY_PORT_RANGE = ConfigOption[range](
        "queryable-state.proxy.ports",
        PortRangeType(),
        range(9_069, 9_070),
        "On which ports the proxies of jobs listen for clients: each takes the first that is free, of a single port or the"
        " next ones above it.",
        ("query.proxy.ports",),
    )
    SERVER_ASYNC_QUERY_THREADS = ConfigOption[int](
        "queryable-state.server.query-threads",
        IntegerType(minimum=0),
        0,
        "How many requests a slot answers at once; 0 for one. More of them take the processor from the records.",
        ("query.server.query-threads",),
    )
    PROXY_ASYNC_QUERY_THREADS = ConfigOption[int](
        "queryable-state.proxy.query-threads",
        IntegerType(minimum=0),
        0,
        "How many requests of clients may be under way at once; 0 for 64. Further ones wait.",
        ("query.proxy.query-threads",),
    )
    PROXY_BIND_HOST = ConfigOption[str](
        "pystate.queryable-state.proxy.bind-host",
        StringType("a host name or an address"),
        "127.0.0.1",
        "The address that the proxy listens on. With any that other machines reach, switch TLS on"
        " (security.ssl.rest.enabled).",
    )
    DIRECT_READS = ConfigOption[bool](
        "pystate.queryable-state.direct-reads",
        BooleanType(),
        True,
        "Whether the proxy tells clients where slots are, so that they ask them themselves; who can't reach them asks the"
        " proxy. Never with security.ssl.rest.enabled, for slots speak no TLS with clients, nor with"
        " security.ssl.internal.enabled.",
    )
    MAX_READS_PER_SECOND = ConfigOption[int](
        "pystate.queryable-state.max-reads-per-second",
        IntegerType(minimum=0),
        50_000,
        "How many states of keys may be read a second through a job's proxy, and of each slot; what is beyond is answered as"
        " OVERLOADED. 0 for no limit.",
    )
