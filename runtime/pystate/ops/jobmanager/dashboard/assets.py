"""The files of the dashboard, as the job manager serves them: from the package, never from the network."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
INDEX = "index.html"
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class Asset:
    """A file: its bytes, and what browsers compare to see whether theirs is the same."""

    media_type: str
    content: bytes
    packed: bytes
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """Return all files by their path below the folder of assets; read once."""
    folder = Path(__file__).with_name("assets")
    files = [path for path in folder.rglob("*") if path.suffix.lstrip(".") in MEDIA_TYPES]
    return {path.relative_to(folder).as_posix(): _asset(path) for path in files}


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Asset(MEDIA_TYPES[path.suffix.lstrip(".")], content, gzip.compress(content, mtime=0), tag)


def answer_asset(request: Request, name: str) -> Response | None:
    """Return the answer to a request for a file; None if there is no such file."""
    asset = assets().get(name)
    if asset is None:
        return None
    headers = {**_HEADERS, "ETag": asset.tag}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    content = asset.content
    if "gzip" in request.headers.get("accept-encoding", ""):
        content = asset.packed
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=asset.media_type, headers=headers)
