"""What kopf calls: one daemon for each resource, which looks at it again and again, and a handler that lets it go.

kopf watches, keeps the finalizer and posts events. The status is written by the daemon itself, before it acts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, cast

import kopf

from pystate_operator.custom_resource import API_VERSION, GROUP, PLURAL, is_deleted
from pystate_operator.reconciler import Look, Reconciler

logger = logging.getLogger(__name__)

_OURS = (GROUP, API_VERSION, PLURAL)
_SOON_S = 1.0
_AFTER_AN_ERROR_S = 5.0
_THREADS = 32
"""Looks at a time; each waits for the API server and the job manager."""


def tell(body: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
    """Post an event."""
    kopf.event(kopf.Body(cast(Any, body)), type=kind, reason=reason, message=message)


class Handlers:
    """The handlers of an operator.

    Args:
        reconciler: Looks at resources.
        interval_s: Seconds between two looks at a resource that rests.
    """

    def __init__(self, reconciler: Reconciler, interval_s: float) -> None:
        self.registry = kopf.OperatorRegistry()
        self._interval_s = interval_s
        self._reconciler = reconciler
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="look")
        kopf.on.login(registry=self.registry)(kopf.login_via_client)
        kopf.on.startup(registry=self.registry)(self._configure)
        kopf.on.event(*_OURS, registry=self.registry)(self._wake)
        kopf.daemon(*_OURS, registry=self.registry, cancellation_timeout=_AFTER_AN_ERROR_S)(self._keep)
        kopf.on.delete(*_OURS, registry=self.registry)(self._let_go)

    async def _configure(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.finalizer = f"{GROUP}/jobs"
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
        settings.scanning.disabled = True  # the definition comes before the operator, and the role is that of a namespace
        settings.posting.enabled = True
        settings.posting.level = logging.CRITICAL  # our own events, not kopf's log
        settings.background.cancellation_polling = _SOON_S

    async def _wake(self, body: kopf.Body, memo: kopf.Memo, **_: Any) -> None:
        seen = (body.metadata.get("generation"), is_deleted(body))
        if memo.get("seen") != seen:
            memo["seen"] = seen
            _event_of(memo).set()

    async def _keep(self, namespace: str | None, name: str, memo: kopf.Memo, stopped: kopf.DaemonStopped, **_: Any) -> None:
        changed = _event_of(memo)
        while not stopped:
            changed.clear()
            look, pause = None, _AFTER_AN_ERROR_S
            try:
                look = await self._look(namespace, name, memo)
                pause = self._interval_s if look.at_rest else _SOON_S
            except Exception:
                logger.exception("%s/%s could not be looked at", namespace, name)
            if look is not None and look.gone:
                return
            waits = [asyncio.ensure_future(stopped.wait(pause)), asyncio.ensure_future(changed.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for one in waits:
                one.cancel()

    async def _let_go(self, namespace: str | None, name: str, memo: kopf.Memo, **_: Any) -> None:
        while True:
            look = Look()
            try:
                look = await self._look(namespace, name, memo)
            except Exception:
                logger.exception("%s/%s could not be looked at", namespace, name)
            if look.gone:
                return
            await asyncio.sleep(_SOON_S)

    async def _look(self, namespace: str | None, name: str, memo: kopf.Memo) -> Look:
        lock = memo.setdefault("lock", asyncio.Lock())
        async with lock:  # the daemon may still be at it when the resource is to go
            context, loop = copy_context(), asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, context.run, self._reconciler.look, str(namespace), name)


def _event_of(memo: kopf.Memo) -> asyncio.Event:
    found: asyncio.Event = memo.setdefault("changed", asyncio.Event())
    return found
