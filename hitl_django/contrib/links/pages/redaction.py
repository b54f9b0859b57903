"""Removal of a link's token from the request, so that no log contains it.

Django logs the path of every response from 400 on, and emails it with headers and traceback. Error
reporters read the request too. gunicorn, uvicorn and hypercorn write access logs after the
response, from the same environment. The token is therefore removed from all of these before the
view runs.

Earlier readers still see the URL: access logs of Django's development server, daphne or a proxy,
and the project's middleware.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from django.http import HttpRequest

HIDDEN = "hidden"


def redact_token(request: HttpRequest, token: str) -> None:
    """Replace the token in every place where the request stores its URL."""
    request.path = request.path.replace(token, HIDDEN)
    request.path_info = request.path_info.replace(token, HIDDEN)
    if request.resolver_match is not None:
        vars(request.resolver_match).update(kwargs={}, captured_kwargs={})
    _redact_environment(request.META, token)
    _redact_scope(getattr(request, "scope", None), token)
    vars(request).pop("headers", None)  # they are a copy, made when somebody first asks for them


def _redact_environment(meta: dict[str, Any], token: str) -> None:
    meta.pop("HTTP_REFERER", None)
    for name, value in meta.items():
        # Servers and proxies store the URL as it was sent under keys of their own.
        if isinstance(value, str) and f"/{token}" in (plain := unquote(value)):
            meta[name] = plain.replace(token, HIDDEN)


def _redact_scope(scope: Any, token: str) -> None:
    if not scope:
        return
    scope["path"] = scope["path"].replace(token, HIDDEN)
    scope["raw_path"] = quote(scope["path"]).encode()
    scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() != b"referer"]
