"""Applications that earlier drivers of a job have left with a standalone master, which keeps the cores of each for it.

A master hears nothing from drivers: it keeps the executors of one whose machine is cut off, sleeps or hangs for as long as
TCP lets the connection be. It is asked in Spark's own protocol by the driver's JVM, which has Spark's secret.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pystate.runtime.spark.applications.standalone_master import FETCH_TIMEOUT_S, address_of, masters_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENDPOINT = "Master"


def end_earlier_applications(spark: SparkSession, say: Callable[[str], object]) -> None:
    """Let the standalone master of a session end all other applications of the session's name, which is the job's own.

    Args:
        spark: The session of the job's present driver, which has begun its term.
        say: Is called with a sentence for users for each that is ended, and where a master refuses.
    """
    context = spark.sparkContext
    name, own = str(context.appName), str(context.applicationId)
    for master in masters_in(str(context.master)):
        try:
            with socket.create_connection(address_of(master), FETCH_TIMEOUT_S):
                pass
        except OSError:  # the one that leads has just answered the session; Spark would wait minutes for another
            continue
        try:
            endpoint = _endpoint(context, master)
            for application_id in _applications(context, endpoint, name):
                if application_id != own:
                    endpoint.send(_deploy(context, "UnregisterApplication")(application_id))
                    say(f"The Spark application {application_id} of an earlier driver is ended, and its cores are free.")
        except Exception as error:  # noqa: BLE001 - py4j raises whatever the JVM did
            why = str(getattr(error, "java_exception", error)).splitlines()[0]
            say(f"WARNING: Applications of earlier drivers keep their cores, if {master} has any: {why}")


def _endpoint(context: Any, master: str) -> Any:
    host, port = address_of(master)
    address = context._jvm.org.apache.spark.rpc.RpcAddress(host, port)  # noqa: SLF001 - there is no public way to it
    # py4j can't look at the class of `env`: it names a class that Spark's jars have under another name
    return context._jsc.sc().schedulerBackend().rpcEnv().setupEndpointRef(address, _ENDPOINT)  # noqa: SLF001 - the same


def _applications(context: Any, endpoint: Any, name: str) -> list[str]:
    """Return the applications of a name that have not ended."""
    request = getattr(_deploy(context, "RequestMasterState$"), "MODULE$")
    any_class = getattr(getattr(context._jvm.scala.reflect, "ClassTag$"), "MODULE$").Any()  # noqa: SLF001 - the same
    found = endpoint.askSync(request, any_class).activeApps()
    return [str(one.id()) for one in found if str(one.desc().name()) == name]


def _deploy(context: Any, message: str) -> Any:
    """Return the class of one of Spark's messages between masters and applications."""
    return getattr(context._jvm.org.apache.spark.deploy, f"DeployMessages${message}")  # noqa: SLF001 - the same
