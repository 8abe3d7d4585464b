"""A small API server of Kubernetes for one kind of resource: lists, watches, patches, its status apart, finalizers, events.

It is for what the mock server of `kubernetes_cluster.py` does not have: watches over plain HTTP, which kopf uses, the
discovery of kinds, versions of resources that are compared, and generations. Resources are checked by the schema of their
definition.
"""

from __future__ import annotations

import asyncio
import copy
import json
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jsonpatch
import jsonschema
import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.waiting import LONGEST_S, wait_until

NAMESPACE = "jobs"


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        kind = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
        self.answer = JSONResponse({**kind, "reason": reason, "message": message, "code": code}, code)


class ApiServer:
    """The server, on a thread of its own.

    Args:
        definition: The CustomResourceDefinition.

    Attributes:
        events: The events that were posted.
        writes: Each write of a status, as it was asked for.
    """

    def __init__(self, definition: dict[str, Any]) -> None:
        spec = definition["spec"]
        version = spec["versions"][0]
        self.names, self.group, self.version = spec["names"], spec["group"], version["name"]
        self.schema = version["schema"]["openAPIV3Schema"]
        self.events: list[dict[str, Any]] = []
        self.writes: list[dict[str, Any]] = []
        self._objects: dict[str, dict[str, Any]] = {}
        self._log: list[tuple[str, dict[str, Any]]] = []
        self._lock = threading.RLock()
        self._number = 100
        plural = self.names["plural"]
        above = f"/apis/{self.group}/{self.version}"
        of_all, of_one = f"{above}/namespaces/{{namespace}}/{plural}", f"{above}/namespaces/{{namespace}}/{plural}/{{name}}"
        self.path = f"{above}/namespaces/{NAMESPACE}/{plural}"
        routes = [
            Route("/api", lambda _: JSONResponse({"kind": "APIVersions", "versions": ["v1"]})),
            Route("/apis", self._groups),
            Route("/api/v1", lambda _: JSONResponse(_resources("v1", ("events", "Event"), ("namespaces", "Namespace")))),
            Route(above, self._kinds),
            Route("/api/v1/namespaces/{namespace}/events", self._event, methods=["POST"]),
            Route(of_all, self._all, methods=["GET", "POST"]),
            Route(of_one, self._one, methods=["GET", "PATCH", "DELETE"]),
            Route(f"{of_one}/status", self._status, methods=["PATCH"]),
        ]
        app = Starlette(routes=routes, exception_handlers={Refusal: lambda _, error: error.answer})
        self._server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, name="api server")

    def start(self) -> ApiServer:
        """Start it."""
        self._thread.start()
        wait_until(lambda: self._server.started)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"
        return self

    def stop(self) -> None:
        """End it."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(LONGEST_S)

    def kubeconfig(self, file: Path) -> Path:
        """Write a file by which clients find it."""
        write_kubeconfig(file, self.url, "of the tests")
        return file

    # what tests do, as kubectl would

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a resource."""
        with self._lock:
            name = body["metadata"]["name"]
            if name in self._objects:
                raise Refusal(409, "AlreadyExists", f"{name} is there")
            now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            made = {"uid": str(uuid.uuid4()), "creationTimestamp": now, "generation": 1, "namespace": NAMESPACE}
            new = {**copy.deepcopy(body), "metadata": {**body["metadata"], **made}}
            self._check(new)
            return self._put("ADDED", new)

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a resource; None if it is gone."""
        with self._lock:
            return copy.deepcopy(self._objects.get(name))

    def change(self, name: str, spec: dict[str, Any]) -> None:
        """Change what a resource asks for, by a merge patch."""
        with self._lock:
            self._patched(name, {"spec": spec}, status=False)

    def delete(self, name: str) -> None:
        """Delete a resource: it stays until its finalizers are gone."""
        with self._lock:
            body = copy.deepcopy(self._objects[name])
            now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            body["metadata"].setdefault("deletionTimestamp", now)
            body["metadata"]["generation"] += 1
            self._put("MODIFIED", body)

    def reasons(self) -> set[str]:
        """Return the reasons of the events."""
        return {one["reason"] for one in self.events}

    def _put(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        metadata = body["metadata"]
        self._number += 1
        metadata["resourceVersion"] = str(self._number)
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            self._objects.pop(metadata["name"], None)
            kind = "DELETED"
        else:
            self._objects[metadata["name"]] = body
        self._log.append((kind, copy.deepcopy(body)))
        return copy.deepcopy(body)

    def _check(self, body: dict[str, Any]) -> None:
        try:
            jsonschema.validate(body, self.schema)
        except jsonschema.ValidationError as error:
            raise Refusal(422, "Invalid", f"{error.json_path}: {error.message}") from error

    def _patched(self, name: str, patch: Any, *, status: bool) -> dict[str, Any]:
        before = self._objects.get(name)
        if before is None:
            raise Refusal(404, "NotFound", f"{name} is not there")
        if isinstance(patch, list):
            try:
                after = jsonpatch.apply_patch(before, patch)
            except jsonpatch.JsonPatchException as error:
                raise Refusal(422, "Invalid", str(error)) from error
        else:
            wanted = patch.get("metadata", {}).get("resourceVersion", before["metadata"]["resourceVersion"])
            if wanted != before["metadata"]["resourceVersion"]:
                raise Refusal(409, "Conflict", f"{name} has changed meanwhile")
            after = _merged(copy.deepcopy(before), patch)
        # what is of the other endpoint is left as it is
        if status:
            after = {**before, "status": after.get("status", {})}
        else:
            after = {**{key: value for key, value in after.items() if key != "status"}}
            if "status" in before:
                after["status"] = before["status"]
        after = copy.deepcopy(after)
        after["metadata"]["uid"] = before["metadata"]["uid"]
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        self._check(after)
        if after == before:
            return copy.deepcopy(before)
        return self._put("MODIFIED", after)

    # what it answers

    def _groups(self, _: Request) -> Response:
        version = {"groupVersion": f"{self.group}/{self.version}", "version": self.version}
        group = {"name": self.group, "versions": [version], "preferredVersion": version}
        return JSONResponse({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})

    def _kinds(self, _: Request) -> Response:
        plural, kind = self.names["plural"], self.names["kind"]
        return JSONResponse(_resources(f"{self.group}/{self.version}", (plural, kind), (f"{plural}/status", kind)))

    async def _event(self, request: Request) -> Response:
        self.events.append(await request.json())
        return JSONResponse(self.events[-1], 201)

    async def _all(self, request: Request) -> Response:
        if request.method == "POST":
            return JSONResponse(self.create(await request.json()), 201)
        if request.query_params.get("watch") == "true":
            since = int(request.query_params.get("resourceVersion") or 0)
            return StreamingResponse(self._watched(since), media_type="application/json")
        with self._lock:
            metadata = {"resourceVersion": str(self._number)}
            items = copy.deepcopy(list(self._objects.values()))
        kind = f"{self.names['kind']}List"
        return JSONResponse(
            {"apiVersion": f"{self.group}/{self.version}", "kind": kind, "metadata": metadata, "items": items}
        )

    async def _watched(self, since: int) -> AsyncIterator[str]:
        sent = 0
        while not self._server.should_exit:
            with self._lock:
                new, sent = self._log[sent:], len(self._log)
            for kind, body in new:
                if int(body["metadata"]["resourceVersion"]) > since:
                    yield json.dumps({"type": kind, "object": body}) + "\n"
            await asyncio.sleep(0.02)

    async def _one(self, request: Request) -> Response:
        name = request.path_params["name"]
        if request.method == "PATCH":
            patch = await request.json()
            with self._lock:
                return JSONResponse(self._patched(name, patch, status=False))
        found = self.get(name)
        if found is None:
            raise Refusal(404, "NotFound", f"{name} is not there")
        if request.method == "DELETE":
            self.delete(name)
        return JSONResponse(found)

    async def _status(self, request: Request) -> Response:
        patch = await request.json()
        with self._lock:
            if isinstance(patch, dict):
                self.writes.append(patch)
            return JSONResponse(self._patched(request.path_params["name"], patch, status=True))


def _resources(version: str, *named: tuple[str, str]) -> dict[str, Any]:
    verbs = ["create", "delete", "get", "list", "patch", "watch"]
    found = [
        {"name": name, "singularName": "", "kind": kind, "namespaced": name != "namespaces", "verbs": verbs}
        for name, kind in named
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": found}


def _merged(before: Any, patch: Any) -> Any:
    """Return what a merge patch makes of a value (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    after = before if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = _merged(after.get(key), value)
    return after


def write_kubeconfig(file: Path, url: str, token: str, certificate: Path | None = None) -> None:
    """Write by what a client finds a server."""
    trusted = {} if certificate is None else {"certificate-authority": str(certificate)}
    cluster = {"name": "tests", "cluster": {"server": url, **trusted}}
    user = {"name": "tests", "user": {"token": token}}
    context = {"name": "tests", "context": {"cluster": "tests", "user": "tests", "namespace": NAMESPACE}}
    found = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "users": [user], "contexts": [context]}
    file.write_text(yaml.safe_dump({**found, "current-context": "tests"}))


@contextmanager
def running_api_server(definition: dict[str, Any]) -> Iterator[ApiServer]:
    """Run such a server."""
    server = ApiServer(definition)
    try:
        yield server.start()
    finally:
        server.stop()
