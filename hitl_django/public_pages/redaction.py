"""Removal of the token in a page's URL from a request, so that logs don't contain the token.

Django logs the path of every response with status 400 or higher, and emails the path with headers
and a traceback. Error reporters also read the request. gunicorn, uvicorn and hypercorn write access
logs after the response, from the same WSGI or ASGI environment. The token is therefore removed from
all of these places before the view runs.

Programs that read the URL earlier still see the token: access logs of Django's development server,
daphne or a proxy, and the project's middleware.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from django.http import HttpRequest

HIDDEN = "hidden"


def redact_token(request: HttpRequest, token: str) -> None:
    """Replace the token in all places where the request stores its URL."""
    request.path = request.path.replace(token, HIDDEN)
    request.path_info = request.path_info.replace(token, HIDDEN)
    if request.resolver_match is not None:
        vars(request.resolver_match).update(kwargs={}, captured_kwargs={})
    _redact_environment(request.META, token)
    _redact_scope(getattr(request, "scope", None), token)
    vars(request).pop("headers", None)  # The headers are a copy, which is created on first access.


def _redact_environment(meta: dict[str, Any], token: str) -> None:
    meta.pop("HTTP_REFERER", None)
    for name, value in meta.items():
        # Servers and proxies store the URL in the form in which it was sent, under various keys.
        if isinstance(value, str) and f"/{token}" in (plain := unquote(value)):
            meta[name] = plain.replace(token, HIDDEN)


def _redact_scope(scope: Any, token: str) -> None:
    if not scope:
        return
    scope["path"] = scope["path"].replace(token, HIDDEN)
    scope["raw_path"] = quote(scope["path"]).encode()
    scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() != b"referer"]
