"""The connection options of a broker. Made on the driver and pickled into the slots, which connect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pystate.common.errors import ConfigurationError, ExternalSystemError
from pystate.connectors.async_sink.request import NotDoneError
from pystate.connectors.client_package import imported
from pystate.connectors.secret_url import SecretUrl

if TYPE_CHECKING:
    import paho.mqtt.client as mqtt

NEEDED = "MQTT needs paho-mqtt, which is not installed."
_HINT = "mqtt://user:password@host:1883, or mqtts://host:8883 with TLS"
_NEVER = {
    "Bad user name or password",
    "Banned",
    "Bad authentication method",
    "Not authorized",
    "Unsupported protocol version",
}
"""What a broker says, in the words of MQTT 5, when it takes nothing from this user."""


def paho(module: str = "client") -> Any:
    """Return a module of the client."""
    return imported(f"paho.mqtt.{module}", NEEDED, "mqtt")


class MqttConnectionOptions:
    """How to connect to a broker. The password is never shown.

    Args:
        url: `mqtt://user:password@host:1883`, or `mqtts://...` with TLS.
        url_variable: The environment variable with the URL, in the slots; the program then doesn't contain it.
        url_file: The file with the URL, in the slots.
        ca_file: The authorities to trust, a PEM file of the slots, instead of the system's.
        cert_file: The client's certificate.
        key_file: Its key.

    Raises:
        ConfigurationError: Not exactly one of the three was given, or it is no such URL.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        url_variable: str | None = None,
        url_file: str | None = None,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
    ) -> None:
        self._source = SecretUrl("a broker", url, url_variable, url_file)
        self._tls = ca_file, cert_file, key_file
        if url is not None:
            self._parts()

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"MqttConnectionOptions({self.shown()})"

    def shown(self) -> str:
        """Return the URL without its password, or where it comes from."""
        return self._source.shown()

    def client(self, client_id: str, **options: Any) -> mqtt.Client:
        """Return a client that isn't connected.

        Args:
            client_id: By which the broker knows its session.
            options: More arguments of the client.
        """
        module, parts = paho(), self._parts()
        made: mqtt.Client = module.Client(
            module.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=module.MQTTv5, **options
        )
        if parts.username is not None:
            made.username_pw_set(unquote(parts.username), None if parts.password is None else unquote(parts.password))
        if parts.scheme == "mqtts":
            made.tls_set(*self._tls)
        return made

    def connect(
        self,
        client: mqtt.Client,
        timeout_s: float,
        properties: Mapping[str, Any],
        *,
        clean: bool,
        connected: Callable[[bool], None] = lambda _: None,
        refused: Callable[[ExternalSystemError], None] = lambda _: None,
    ) -> None:
        """Connect a client, and wait for the broker's answer.

        Args:
            client: As `client` made it.
            timeout_s: How long to wait.
            properties: Those of MQTT 5's CONNECT.
            clean: Whether to forget an earlier session.
            connected: Called at this and each later connection, with whether the broker knew the session.
            refused: Called when the broker takes nothing from this user at a later connection.

        Raises:
            NotDoneError: The broker can't be reached for now.
            ExternalSystemError: It takes nothing from this user.
        """
        parts = self._parts()
        answered, said = threading.Event(), list[Any]()

        def on_connect(_: Any, __: Any, flags: Any, reason: Any, ___: Any) -> None:
            if not reason.is_failure:
                connected(bool(flags.session_present))
            elif answered.is_set() and str(reason) in _NEVER:
                refused(self._refusal(str(reason)))
            said.append(reason)
            answered.set()

        client.on_connect = on_connect
        client.connect_timeout = timeout_s
        asked = paho("properties").Properties(paho("packettypes").PacketTypes.CONNECT)
        for name, value in properties.items():
            setattr(asked, name, value)
        port = parts.port or (8883 if parts.scheme == "mqtts" else 1883)
        try:
            client.connect(str(parts.hostname), port, clean_start=clean, properties=asked)
        except OSError as error:
            message = f"{type(error).__name__}: {error}"
            raise NotDoneError(message) from error
        client.loop_start()
        if not answered.wait(timeout_s):
            message = f"no answer within {timeout_s:g} s"
            raise NotDoneError(message)
        if said[0].is_failure:
            words = str(said[0])
            if words in _NEVER:
                raise self._refusal(words)
            raise NotDoneError(words)

    def _refusal(self, words: str) -> ExternalSystemError:
        message = f"The broker refuses the connection: {words}"
        return ExternalSystemError(message, where=self.shown(), hint="look at the user's password and rights")

    def _parts(self) -> Any:
        try:
            parts = urlsplit(self._source.read())
            usable = parts.scheme in ("mqtt", "mqtts") and parts.hostname and (parts.port is None or parts.port > 0)
        except ValueError:
            usable = None
        if not usable:
            message = "The URL of the broker can't be used."
            raise ConfigurationError(message, where=self._source.place, hint=_HINT)
        return parts
