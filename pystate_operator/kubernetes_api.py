"""The resources at the API server, by the client of Kubernetes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from pystate_operator.custom_resource import API_VERSION, GROUP, PLURAL
from pystate_operator.reconciler import ConflictError

logger = logging.getLogger(__name__)

_PATCH = "application/merge-patch+json"
_SECONDS = 30
_GONE, _CONFLICT = 404, 409


class KubernetesResources:
    """The resources `PystateJob`.

    Args:
        tell: Posts an event: of what, its type, its reason, its message.
    """

    def __init__(self, tell: Callable[[Mapping[str, Any], str, str, str], None]) -> None:
        self._api = client.CustomObjectsApi()
        self._tell = tell

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a resource; None if it is gone."""
        try:
            found = self._api.get_namespaced_custom_object(*self._of(namespace), name, _request_timeout=_SECONDS)
        except ApiException as error:
            if error.status == _GONE:
                return None
            raise
        return cast(dict[str, Any], found)

    def write_status(self, body: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any] | None:
        """Write fields of the status; return the resource, None if it is gone.

        Raises:
            ConflictError: It isn't any more what was read.
        """
        metadata = body["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}, "status": status}
        try:
            written = self._api.patch_namespaced_custom_object_status(
                *self._of(metadata["namespace"]), metadata["name"], patch, _content_type=_PATCH, _request_timeout=_SECONDS
            )
        except ApiException as error:
            if error.status == _GONE:
                return None
            if error.status == _CONFLICT:
                message = f"{metadata['namespace']}/{metadata['name']} has changed meanwhile."
                raise ConflictError(message) from error
            raise
        return cast(dict[str, Any], written)

    def tell(self, body: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Post an event."""
        self._tell(body, kind, reason, message)

    @staticmethod
    def _of(namespace: str) -> tuple[str, str, str, str]:
        return GROUP, API_VERSION, namespace, PLURAL
