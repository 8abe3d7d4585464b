"""YARN's resource manager: where it is by Hadoop's settings, and what its REST interface says of an application."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.file_system_options import HdfsOptions
from pystate.common.configuration.groups.pystate_options import SparkOptions
from pystate.common.configuration.hadoop_files import CONF_DIR_VARIABLE, hadoop_properties
from pystate.common.errors import ConfigurationError
from pystate.runtime.spark.applications.standalone_master import Fetch

YARN = "yarn"
"""Spark's name of it as a master."""
YARN_CONF_DIR_VARIABLE = "YARN_CONF_DIR"
_ENDED = ("FINISHED", "FAILED", "KILLED")
_STARTS = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED"
_CLIENT_PORT, _WEB_PORT, _SECURE_WEB_PORT = 8032, 8088, 8090
_PREFIX = "yarn.resourcemanager."
_LONGEST_DIAGNOSTICS = 400
_SAID_WHEN = re.compile(r"\[[^\[\]]*\d{4}[^\[\]]*\]")
_MORE = re.compile(r"For more detailed output| Details : ")


@dataclass(frozen=True)
class YarnAddresses:
    """Where the resource managers of a cluster are, the first of which need not be the active one.

    Attributes:
        clients: (host, port) that applications are submitted to.
        pages: The addresses of their web pages.
    """

    clients: tuple[tuple[str, int], ...]
    pages: tuple[str, ...]


@dataclass(frozen=True)
class YarnView:
    """What the active resource manager says of one application and of its cluster.

    Attributes:
        page: The address of its web page.
        application_id: The application; None if it doesn't know it.
        state: YARN's state of it: ACCEPTED, RUNNING, KILLED, ...
        queue: The queue that it is in.
        diagnostics: Why it waits, or how it ended, in YARN's words.
        containers: How many it has; the first one is its application master.
        given_mb: Their memory.
        asked: How many more it asks for.
        asked_mb: The memory of the largest one of those.
        free_mb: What nobody in the cluster has.
        total_mb: What there is.
        nodes: How many node managers are there.
    """

    page: str
    application_id: str | None
    state: str = ""
    queue: str = ""
    diagnostics: str = ""
    containers: int = 0
    given_mb: int = 0
    asked: int = 0
    asked_mb: int = 0
    free_mb: int = 0
    total_mb: int = 0
    nodes: int = 0

    def knows(self, application_id: str) -> bool:
        """Return whether executors may still come to an application: YARN knows it, and it has not ended."""
        return self.application_id == application_id and self.state not in _ENDED

    def given_to(self, application_id: str) -> int:
        """Return how many containers an application has for executors."""
        return max(self.containers - 1, 0) if self.knows(application_id) else 0

    @property
    def is_full(self) -> bool:
        """Whether nobody gets the next container as long as nothing in the cluster changes."""
        return self.nodes == 0 or self.state == "ACCEPTED" or (self.asked > 0 and self.free_mb < self.asked_mb)

    def end(self, application_id: str) -> str:
        """Return what has become of an application that gets no executors any more, as the end of a sentence."""
        if self.application_id != application_id:
            return f"is not known to YARN ({self.page}), which was started again without its memory"
        why = f": {self.diagnostics.rstrip('.')}" if self.diagnostics else ""
        return f"was ended in YARN ({self.state}){why}"

    def lost_sentence(self, application_id: str) -> str:
        """Return the sentence on what has become of an application that gets no executors any more."""
        return f"The application {application_id} {self.end(application_id)}."

    def cores_sentence(self, application_id: str, cores: int) -> str:
        """Return the sentence on what an application has asked YARN for and was given, and why no more."""
        if self.nodes == 0:
            return f"YARN ({self.page}) has no node managers"
        if not self.knows(application_id):
            return f"the application {application_id} {self.end(application_id)}"
        told = [f"YARN has {application_id} in queue {self.queue}, {self.state}"]
        executors = self.given_to(application_id)
        if self.state == "RUNNING":
            given = f"{executors} of {executors + self.asked} executors given ({cores} cores"
            told.append(f"{given}, {self.given_mb} MB with its application master)")
        if self.asked:
            told.append(f"asked: {self.asked} x {self.asked_mb} MB")
        told.append(f"{self.free_mb} of {self.total_mb} MB free on {self.nodes} node{'' if self.nodes == 1 else 's'}")
        if self.diagnostics:
            told.append(f"YARN says: {self.diagnostics.rstrip('.')}")
        return "; ".join(told)


def yarn_conf_dirs(configuration: Configuration | None = None, environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the folders that Hadoop's settings of YARN are looked for in, as Spark does.

    Args:
        configuration: The options in force; None for those of the environment alone.
        environment: The variables.
    """
    option = None if configuration is None else configuration.get(HdfsOptions.HADOOP_CONF_DIR)
    found = [environment.get(YARN_CONF_DIR_VARIABLE), environment.get(CONF_DIR_VARIABLE), option]
    return [Path(word) for word in dict.fromkeys(found) if word]


def hadoop_variables(configuration: Configuration, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variable by which Spark's JVM finds Hadoop's settings, where an option alone says where they are."""
    folder = configuration.get(HdfsOptions.HADOOP_CONF_DIR)
    if not folder or CONF_DIR_VARIABLE in environment or YARN_CONF_DIR_VARIABLE in environment:
        return {}
    return {CONF_DIR_VARIABLE: folder}


def yarn_addresses(folders: list[Path]) -> YarnAddresses:
    """Return where the resource managers are.

    Args:
        folders: Of Hadoop's settings; the first one that has yarn-site.xml counts.

    Raises:
        ConfigurationError: No folder is known, or its file can't be read.
    """
    if not folders:
        message = f"{SparkOptions.MASTER.key} = yarn needs Hadoop's settings, but {CONF_DIR_VARIABLE} is not set."
        hint = f"set {CONF_DIR_VARIABLE}, or {HdfsOptions.HADOOP_CONF_DIR.key}, to the folder with yarn-site.xml"
        raise ConfigurationError(message, where=CONF_DIR_VARIABLE, hint=hint)
    files = [folder / "yarn-site.xml" for folder in folders]
    file = next((one for one in files if one.is_file()), None)
    if file is None:
        message = f"There is no {files[0]}, which says where YARN is."
        raise ConfigurationError(message, where=CONF_DIR_VARIABLE, hint="ask who runs the cluster for its settings")
    values = hadoop_properties(file)
    secure = values.get("yarn.http.policy") == "HTTPS_ONLY"
    ids = [""]
    if values.get(f"{_PREFIX}ha.enabled") == "true":
        ids = [f".{word.strip()}" for word in values.get(f"{_PREFIX}ha.rm-ids", "").split(",") if word.strip()] or ids
    web, port = ("webapp.https.address", _SECURE_WEB_PORT) if secure else ("webapp.address", _WEB_PORT)
    clients = [_place(values, "address", one, _CLIENT_PORT) for one in ids]
    pages = [_place(values, web, one, port) for one in ids]
    scheme = "https" if secure else "http"
    return YarnAddresses(tuple(clients), tuple(f"{scheme}://{host}:{number}" for host, number in pages))


def _place(values: Mapping[str, str], name: str, one: str, port: int) -> tuple[str, int]:
    own = values.get(f"{_PREFIX}hostname{one}") or "localhost"
    host, _, number = values.get(f"{_PREFIX}{name}{one}", own).partition(":")
    if host == "0.0.0.0":  # noqa: S104 - as Hadoop writes what it doesn't know
        host = own
    return host, int(number) if number.isdecimal() else port


def look_at_yarn(pages: tuple[str, ...], application_id: str, fetch: Fetch) -> YarnView | None:
    """Return what YARN says of an application; None if none of its pages can be read.

    Args:
        pages: The addresses of the resource managers' web pages.
        application_id: The application.
        fetch: Fetches a page's JSON.
    """
    for page, metrics in _active(pages, fetch):
        told = fetch(f"{page}/ws/v1/cluster/apps/{quote(application_id)}")
        return _view(page, metrics, told.get("app") if isinstance(told, dict) else None)
    return None


def starting_application(pages: tuple[str, ...], name: str, fetch: Fetch) -> YarnView | None:
    """Return what YARN says of the newest application of a name that has no application master yet; None if there is none.

    Args:
        pages: The addresses of the resource managers' web pages.
        name: The application's name.
        fetch: Fetches a page's JSON.
    """
    for page, metrics in _active(pages, fetch):
        told = fetch(f"{page}/ws/v1/cluster/apps?states={_STARTS}")
        apps = ((told.get("apps") or {}).get("app") or []) if isinstance(told, dict) else []
        found = [one for one in apps if one.get("name") == name]
        return _view(page, metrics, max(found, key=lambda one: int(one.get("startedTime", 0)))) if found else None
    return None


def _active(pages: tuple[str, ...], fetch: Fetch) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the page and the metrics of the resource manager that answers."""
    for page in pages:
        told = fetch(f"{page}/ws/v1/cluster/metrics")
        if isinstance(told, dict) and isinstance(told.get("clusterMetrics"), dict):
            yield page, told["clusterMetrics"]
            return


def _view(page: str, metrics: dict[str, Any], app: dict[str, Any] | None) -> YarnView | None:
    try:
        free, total = int(metrics["availableMB"]), int(metrics["totalMB"])
        nodes = int(metrics["activeNodes"])
        if app is None:
            return YarnView(page, None, free_mb=free, total_mb=total, nodes=nodes)
        asked = _asked(app)
        return YarnView(
            page=page,
            application_id=str(app["id"]),
            state=str(app["state"]),
            queue=str(app["queue"]),
            diagnostics=_diagnostics(str(app.get("diagnostics") or "")),
            containers=max(int(app.get("runningContainers", 0)), 0),
            given_mb=max(int(app.get("allocatedMB", 0)), 0),
            asked=sum(count for count, _ in asked),
            asked_mb=max((memory for _, memory in asked), default=0),
            free_mb=free,
            total_mb=total,
            nodes=nodes,
        )
    except (KeyError, TypeError, ValueError):  # of an unknown format
        return None


def _diagnostics(text: str) -> str:
    """Return YARN's own words on one line, without where to click and without when it was said."""
    line = " ".join(_MORE.split(_SAID_WHEN.sub("", text))[0].split())
    return line if len(line) <= _LONGEST_DIAGNOSTICS else f"{line[:_LONGEST_DIAGNOSTICS]} ..."


def _asked(app: dict[str, Any]) -> list[tuple[int, int]]:
    """Return (containers, memory of each) of what an application asks for anywhere in the cluster."""
    requests = app.get("resourceRequests") or []
    found = []
    for one in requests:
        if one.get("resourceName") == "*" and int(one.get("numContainers", 0)) > 0:
            found.append((int(one["numContainers"]), int(one["capability"]["memory"])))
    return found
