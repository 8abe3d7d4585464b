"""Access to confluent-kafka, which is an optional dependency, and to the text of its errors."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as AnswerTimeoutError
from typing import Any, TypeVar

from pystate.common.errors import JobExecutionError, JobGraphError
from pystate.connectors.client_package import missing_client

T = TypeVar("T")
BOOTSTRAP_SERVERS = "bootstrap.servers"
REQUEST_TIMEOUT_S = 30.0
"""How long one question to the brokers may take."""

_OURS = {"log_level": 2, "reconnect.backoff.max.ms": 2000}
"""A broker that is away is told by errors of calls; librdkafka would say it on stderr once a second besides. One that comes
back is found soon: a commit waits for it."""


class KafkaConnectorError(JobExecutionError):
    """Raised when Kafka rejects or fails a request of the connector."""


def kafka_client(module: str = "confluent_kafka") -> Any:
    """Return the module of the client.

    Raises:
        JobGraphError: It isn't installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"Kafka's client is not installed here: {error}."
        raise missing_client(message, "kafka") from error


def client_settings(properties: Mapping[str, str], **own: Any) -> dict[str, Any]:
    """Return the settings of a client: our defaults, overridden by the user's."""
    return {**_OURS, **own, **properties}


def new_client(kind: str, settings: Mapping[str, Any], where: str) -> Any:
    """Return a `Producer` or `Consumer`.

    Raises:
        JobGraphError: The client isn't installed, or doesn't know a property.
    """
    client = kafka_client()
    try:
        return getattr(client, kind)(dict(settings))
    except (client.KafkaException, ValueError, TypeError) as error:
        message = f"Kafka's client refuses a property: {reason(error)}."
        hint = "names of properties are librdkafka's (its CONFIGURATION.md), which differ a little from the Java client's"
        raise JobGraphError(message, where=where, hint=hint) from error


def new_admin(properties: Mapping[str, str], where: str) -> Any:
    """Return an admin client.

    Raises:
        JobGraphError: The client isn't installed, or doesn't know a property.
    """
    client, admin = kafka_client(), kafka_client("confluent_kafka.admin")
    try:
        return admin.AdminClient(client_settings(properties))
    except (client.KafkaException, ValueError, TypeError) as error:
        message = f"Kafka's client refuses a property: {reason(error)}."
        raise JobGraphError(message, where=where) from error


def answer_of(asked: Any) -> Any:
    """Return the brokers' answer to a request of an admin client.

    Raises:
        KafkaException: They reject it, or don't answer in time.
    """
    client = kafka_client()
    try:
        return asked.result(REQUEST_TIMEOUT_S + 1)  # the client gives up first
    except (AnswerTimeoutError, TimeoutError) as error:
        late = client.KafkaError(client.KafkaError._TIMED_OUT, f"no answer within {REQUEST_TIMEOUT_S:g} s")  # noqa: SLF001
        raise client.KafkaException(late) from error


def called_on_a_thread(call: Callable[[], T], name: str) -> Future[T]:
    """Return the outcome of a call of the client that may never come back: nothing waits for its thread.

    Args:
        call: The call.
        name: The name of the thread.
    """
    outcome = Future[T]()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # raised to the caller that takes the outcome
            outcome.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome


def reason(error: BaseException) -> str:
    """Return the text of a client's error, without a final full stop."""
    inner: Any = error.args[0] if error.args else error
    said = inner.str() if hasattr(inner, "str") else str(inner)
    return str(said).strip().rstrip(".")


def topic_id_of(described: Any) -> str | None:
    """Return a topic's id from its description; None if the brokers are too old for ids."""
    found = str(described.topic_id).rstrip("=") if described.topic_id is not None else ""
    found = found.replace("+", "-").replace("/", "_")  # as the Java client writes it
    return None if found.strip("A=") == "" else found
