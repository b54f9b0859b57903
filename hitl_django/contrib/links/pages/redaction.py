"""Keeps a link's token out of logs: the request forgets it before anything is done with it.

Django logs the path of every answer from 400 on, and mails it with headers and traceback; others
take it from the request when they report an error. gunicorn, uvicorn and hypercorn write their
access logs when the answer is sent, from the very environment that the request was made of. So the
token is taken out of all of that at once, where it comes in.

What was read before a view is asked stays as it was: the line that Django's development server,
daphne or a proxy writes, and what a middleware of the host's has noted.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from django.http import HttpRequest

HIDDEN = "hidden"


def redact_token(request: HttpRequest, token: str) -> None:
    """Replace the token wherever the request holds its own address."""
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
        # Servers and proxies keep the address under names of their own, as it was sent.
        if isinstance(value, str) and f"/{token}" in (plain := unquote(value)):
            meta[name] = plain.replace(token, HIDDEN)


def _redact_scope(scope: Any, token: str) -> None:
    if not scope:
        return
    scope["path"] = scope["path"].replace(token, HIDDEN)
    scope["raw_path"] = quote(scope["path"]).encode()
    scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() != b"referer"]
