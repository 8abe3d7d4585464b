"""`MqttSource`: reads the messages of a session that the broker keeps."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ConfigurationError, ExternalSystemError
from pystate.common.overrides import override
from pystate.common.row import Row
from pystate.common.serialization import DeserializationSchema
from pystate.common.time import Duration
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.async_sink.request import NotDoneError
from pystate.connectors.bad_records import BadRecords, Refused, RefusedRecords, is_of_the_record, why
from pystate.connectors.client_package import client_findings
from pystate.connectors.early_check import EarlyFinding, SupportsEarlyCheck
from pystate.connectors.mqtt.mqtt_connection import NEEDED, MqttConnectionOptions, paho
from pystate.connectors.source import (
    Boundedness,
    InputStatus,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
    StartsAt,
)
from pystate.connectors.splits_on_request import RequestingReader, SplitsOnRequest

if TYPE_CHECKING:
    import paho.mqtt.client as mqtt

_LOG = logging.getLogger(__name__)
_MOST_AT_ONCE = 500
_TIMEOUT_S = 30.0
_CLOSE_S = 5.0
_WEEK = Duration.of_days(7)
_MOST_UNACKNOWLEDGED = 65_535
_TAKEN_OVER = "Session taken over"
"""What some brokers say to a client in whose place another one has come; others just close its connection."""
_SHORT_S, _MOST_SHORT = 10.0, 5
"""Which connections are short, and how many in a row mean that two clients end each other's."""
_LONG_S = 3600

MQTT_MESSAGE = Types.ROW_NAMED(
    ["topic", "payload", "retained"], [Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.BOOLEAN()]
)
"""The type of the rows of a source without a deserializer."""


class MqttSplit(SourceSplit):
    """The session.

    Attributes:
        is_begun: Whether the broker has known it, so that it must know it again.
    """

    def __init__(self, *, is_begun: bool) -> None:
        self.is_begun = is_begun

    @override
    def split_id(self) -> str:
        return "session"

    @override
    def to_plain(self) -> bool:
        return self.is_begun


class MqttSource(Source[Any, MqttSplit], SupportsEarlyCheck):
    """Reads topics by one session with QoS 1: one subtask reads, and acknowledges what a complete checkpoint holds.

    Made by `builder()`.

    Args:
        connection: How to connect.
        client_id: By which the broker knows the session.
        topics: What to subscribe to.
        deserializer: Makes elements of payloads; None for rows of the type `MQTT_MESSAGE`.
        bad_records: What is done with payloads that it refuses.
        receive_maximum: How many messages may be unacknowledged.
        session_expiry: How long the broker keeps the session without a connection.
    """

    def __init__(
        self,
        connection: MqttConnectionOptions,
        client_id: str,
        topics: Sequence[str],
        *,
        deserializer: DeserializationSchema | None,
        bad_records: BadRecords,
        receive_maximum: int,
        session_expiry: Duration,
    ) -> None:
        self.connection = connection
        self.client_id = client_id
        self.topics = tuple(topics)
        self.deserializer = deserializer
        self.bad_records = bad_records
        self.receive_maximum = receive_maximum
        self.session_expiry_s = session_expiry.to_millis() // 1000

    @staticmethod
    def builder() -> MqttSourceBuilder:
        """Return a builder."""
        return MqttSourceBuilder()

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"MqttSource({self.connection.shown()}, {', '.join(self.topics)})"

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of its elements, if it is known."""
        return MQTT_MESSAGE if self.deserializer is None else None

    @property
    @override
    def starts_at(self) -> StartsAt:
        return StartsAt.THE_GROUPS_OFFSETS  # those that the broker has no acknowledgement of

    @property
    @override
    def comes_again(self) -> str:
        return "what the broker has no acknowledgement of when the job fails comes again, though state counts it"

    @property
    @override
    def scarce_splits(self) -> str:
        return "sessions"

    @override
    def early_findings(self) -> Iterator[EarlyFinding]:
        return client_findings("paho.mqtt", NEEDED, "mqtt", in_slots=False)

    @override
    def check_start(self) -> None:
        client = self.connection.client("", reconnect_on_failure=False)  # an id that the broker makes
        try:
            self.connection.connect(client, _TIMEOUT_S, {}, clean=True)
        except NotDoneError as error:
            message = f"The broker can't be reached: {error}"
            raise ExternalSystemError(message, where=self.connection.shown(), hint="see whether it runs") from None
        finally:
            client.disconnect()
            client.loop_stop()

    @override
    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    @override
    def create_enumerator(self, context: SplitEnumeratorContext[MqttSplit]) -> SplitEnumerator[MqttSplit]:
        return SplitsOnRequest(context, [MqttSplit(is_begun=False)])

    @override
    def restore_enumerator(self, context: SplitEnumeratorContext[MqttSplit], checkpoint: Any) -> SplitEnumerator[MqttSplit]:
        return SplitsOnRequest(context, [self.restore_split(plain) for plain in checkpoint])

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any, MqttSplit]:
        return MqttReader(self, context)

    @override
    def restore_split(self, plain: Any) -> MqttSplit:
        return MqttSplit(is_begun=bool(plain))


@dataclass(eq=False)
class _Delivery:
    """A message that the broker wants acknowledged.

    Attributes:
        mid: Its number in the session, which another message has later.
        qos: Its quality of service.
        content: A hash of topic and payload.
        is_acknowledged: Whether a complete checkpoint holds it.
    """

    mid: int
    qos: int
    content: int
    is_acknowledged: bool = False


class MqttReader(RequestingReader[Any, MqttSplit]):
    """Reads the session; messages are acknowledged once a checkpoint that holds them is complete.

    Args:
        source: The source.
        context: Of the reader.
    """

    def __init__(self, source: MqttSource, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._source = source
        self._refused = RefusedRecords(source.bad_records, context)
        self._client: mqtt.Client | None = None
        self._arrived: deque[tuple[mqtt.MQTTMessage, _Delivery | None]] = deque()
        self._read: list[_Delivery] = []  # since the latest checkpoint
        self._of_checkpoints: dict[int, list[_Delivery]] = {}
        self._latest: dict[int, _Delivery] = {}  # of each number in the session
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._closed = self._has_acknowledged = False
        self._subscribed = threading.Event()
        self._connected_at, self._short_connections = 0.0, 0
        self._error: ExternalSystemError | None = None
        self._at: str | None = None

    @override
    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        if not self._splits:
            return self._without_split()
        if self._client is None:
            self._begin()
        if self._error is not None:
            raise self._error
        for _ in range(min(_MOST_AT_ONCE, output.room(), len(self._arrived))):
            message, delivery = self._arrived.popleft()
            self._emit(message, output)
            if delivery is not None:
                self._read.append(delivery)
        with self._lock:
            self._room.notify()
        return InputStatus.MORE_AVAILABLE if self._arrived else InputStatus.NOTHING_AVAILABLE

    @override
    def snapshot_state(self, checkpoint_id: int) -> Sequence[MqttSplit]:
        self._of_checkpoints[checkpoint_id], self._read = self._read, []
        return list(self._splits)

    @override
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for known in sorted(self._of_checkpoints):
            if known <= checkpoint_id:
                for delivery in self._of_checkpoints.pop(known):
                    with self._lock:
                        delivery.is_acknowledged = True
                        is_latest = self._latest.get(delivery.mid) is delivery
                    if is_latest and self._client is not None:
                        self._has_acknowledged = True
                        self._client.ack(delivery.mid, delivery.qos)

    @override
    def describe_position(self) -> str | None:
        return self._at

    @override
    def close(self) -> None:
        client, self._client = self._client, None
        with self._lock:
            self._closed = True
            self._room.notify()
        if client is not None:
            self._wait_until_acknowledged(client)
            client.disconnect()  # the broker keeps the session
            client.loop_stop()

    def _begin(self) -> None:
        source, split = self._source, self._splits[0]
        self._client = client = source.connection.client(source.client_id, manual_ack=True)
        client.on_message = self._on_message
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        properties = {"SessionExpiryInterval": source.session_expiry_s, "ReceiveMaximum": source.receive_maximum}
        is_begun = split.is_begun

        def connected(is_known: bool) -> None:  # noqa: FBT001 - a callback
            nonlocal is_begun
            if is_begun and not is_known:
                _LOG.warning(
                    "%s: the broker has forgotten the session %s; what came since is lost.", source, source.client_id
                )
            is_begun, self._connected_at = True, time.monotonic()
            if not is_known:
                with self._lock:
                    self._latest.clear()  # their numbers start over
            else:
                self._subscribed.set()
            self._subscribe(client)

        try:
            source.connection.connect(client, _TIMEOUT_S, properties, clean=False, connected=connected, refused=self._fail)
        except NotDoneError as error:
            message = f"The broker can't be reached: {error}"
            raise ExternalSystemError(message, where=source.connection.shown(), hint="see whether it runs") from None
        # nothing that is published before is for this session, so the job doesn't run yet
        if not self._subscribed.wait(_TIMEOUT_S):
            message = f"The broker has not answered the subscription of session {source.client_id} in {_TIMEOUT_S:g} s."
            raise ExternalSystemError(message, where=source.connection.shown(), hint="see whether it is overloaded")
        split.is_begun = True

    def _subscribe(self, client: mqtt.Client) -> None:
        subscribing = paho("subscribeoptions").SubscribeOptions
        wanted = subscribing(qos=1, retainHandling=subscribing.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe([(topic, wanted) for topic in self._source.topics])

    def _wait_until_acknowledged(self, client: mqtt.Client) -> None:
        """Wait until the broker has read all acknowledgements: it drops those that it reads after the session is taken over.

        It reads a connection in order, so it has when it answers a subscription, which is the one that there is.
        """
        if self._has_acknowledged and client.is_connected():
            answered = threading.Event()
            client.on_subscribe = lambda *_: answered.set()
            self._subscribe(client)
            answered.wait(_CLOSE_S)

    def _on_message(self, client: mqtt.Client, _: Any, message: mqtt.MQTTMessage) -> None:
        delivery = None
        self._subscribed.set()  # messages may come before the answer
        with self._lock:
            if message.qos:
                known = self._latest.get(message.mid)
                delivery = _Delivery(message.mid, message.qos, hash((message.topic, message.payload)))
                if message.dup and known is not None and known.content == delivery.content:
                    if known.is_acknowledged:  # which was lost with a connection
                        client.ack(message.mid, message.qos)
                    return  # it is read already
                self._latest[message.mid] = delivery
            while not message.qos and len(self._arrived) >= self._source.receive_maximum and not self._closed:
                self._room.wait()  # the broker has no bound for those that nobody acknowledges
            self._arrived.append((message, delivery))
        self._context.notify_available()

    def _on_disconnect(self, client: mqtt.Client, _: Any, __: Any, reason: Any, ___: Any) -> None:
        lasted = time.monotonic() - self._connected_at
        self._short_connections = self._short_connections + 1 if lasted < _SHORT_S else 0
        if str(reason) != _TAKEN_OVER and self._short_connections < _MOST_SHORT:
            return
        client.reconnect_delay_set(_LONG_S, _LONG_S)  # it would take the session back
        message = f"The broker ends the connections of the session {self._source.client_id}: {reason}"
        hint = "a client id belongs to one job and one client: set_client_id(...)"
        self._fail(ExternalSystemError(message, where=self._source.connection.shown(), hint=hint))

    def _fail(self, error: ExternalSystemError) -> None:
        self._error = error
        self._subscribed.set()
        self._context.notify_available()

    def _on_subscribe(self, _: Any, __: Any, ___: int, reasons: Sequence[Any], ____: Any) -> None:
        refused = [
            f"{topic}: {reason}" for topic, reason in zip(self._source.topics, reasons, strict=True) if reason.is_failure
        ]
        if refused:
            message = f"The broker refuses a subscription: {', '.join(refused)}"
            where, hint = self._source.connection.shown(), "look at the user's rights (ACL), and at the filters"
            self._fail(ExternalSystemError(message, where=where, hint=hint))
        self._subscribed.set()

    def _emit(self, message: mqtt.MQTTMessage, output: ReaderOutput[Any]) -> None:
        source = self._source
        self._at, payload = f"topic {message.topic!r}", bytes(message.payload)
        if source.deserializer is None:
            output.collect(Row.of_fields(MQTT_MESSAGE.row_names, [message.topic, payload, message.retain]))
            return
        try:
            found = source.deserializer.deserialize(payload)
            elements = list(found) if source.deserializer.makes_several else [] if found is None else [found]
        except Exception as error:
            if not source.bad_records.skips or not is_of_the_record(error):
                raise
            self._refused.take(Refused(payload, message.topic, message.mid, why(error)), output.collect_side)
            return
        for element in elements:
            output.collect(element)


class MqttSourceBuilder:
    """Makes an `MqttSource`."""

    def __init__(self) -> None:
        self._connection: MqttConnectionOptions | None = None
        self._client_id = ""
        self._topics: tuple[str, ...] = ()
        self._deserializer: DeserializationSchema | None = None
        self._bad_records = BadRecords.fail()
        self._receive_maximum = 10_000
        self._session_expiry = _WEEK

    def set_connection(self, connection: MqttConnectionOptions) -> MqttSourceBuilder:
        """Set how to connect."""
        self._connection = connection
        return self

    def set_client_id(self, client_id: str) -> MqttSourceBuilder:
        """Set the name of the session, which no other client and no other job has."""
        self._client_id = client_id
        return self

    def set_topics(self, *topics: str) -> MqttSourceBuilder:
        """Set what to subscribe to: topics, or filters such as `sensors/+/temperature` and `sensors/#`."""
        for topic in topics:
            levels = topic.split("/") if isinstance(topic, str) else [""]
            wild = [place for place, level in enumerate(levels) if "#" in level or "+" in level]
            if levels == [""] or any(levels[at] != "+" and (levels[at] != "#" or at < len(levels) - 1) for at in wild):
                message = f"{topic!r} is no topic, and no filter of topics."
                raise ConfigurationError(
                    message, hint="+ stands for one level, # for all that follow: sensors/+/temperature/#"
                )
        self._topics = topics
        return self

    def set_value_only_deserializer(self, schema: DeserializationSchema) -> MqttSourceBuilder:
        """Set what makes elements of payloads; without it, elements are rows of the type `MQTT_MESSAGE`."""
        self._deserializer = schema
        return self

    def set_bad_records(self, policy: BadRecords) -> MqttSourceBuilder:
        """Set what is done with payloads that can't be deserialized; without, the job fails."""
        self._bad_records = BadRecords.checked("set_bad_records", policy)
        return self

    def set_receive_maximum(self, messages: int) -> MqttSourceBuilder:
        """Set how many messages may wait for the checkpoint that acknowledges them; the broker sends no more until then."""
        self._receive_maximum = messages
        return self

    def set_session_expiry(self, session_expiry: Duration) -> MqttSourceBuilder:
        """Set how long the broker keeps the session, with the messages that arrive meanwhile, while the job is away."""
        self._session_expiry = session_expiry
        return self

    def build(self) -> MqttSource:
        """Return the source.

        Raises:
            ConfigurationError: A setting is missing, or out of its range.
        """
        if self._connection is None or not self._client_id or not self._topics:
            message = "A source of MQTT needs a connection, the name of its session, and topics."
            raise ConfigurationError(message, hint='set_connection(...), set_client_id("job-7"), set_topics("sensors/#")')
        if not 1 <= self._receive_maximum <= _MOST_UNACKNOWLEDGED:
            message = (
                f"set_receive_maximum() takes a number from 1 to {_MOST_UNACKNOWLEDGED}, not {self._receive_maximum!r}."
            )
            raise ConfigurationError(message)
        return MqttSource(
            self._connection,
            self._client_id,
            self._topics,
            deserializer=self._deserializer,
            bad_records=self._bad_records,
            receive_maximum=self._receive_maximum,
            session_expiry=self._session_expiry,
        )
