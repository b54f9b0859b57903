"""PostgreSQL database settings from a URL."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


def postgresql(url: str) -> dict[str, Any]:
    """Return the DATABASES entry of ``postgresql://user:password@host:port/name?option=value``."""
    parts = urlsplit(url)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    host = options.pop("host", parts.hostname or "")  # a directory for a Unix socket
    # Limits how long a worker frozen during a commit blocks its thread.
    options["options"] = "-c idle_in_transaction_session_timeout=10s -c lock_timeout=5s"
    # The server keeps query plans. This must be disabled behind a pooler that changes connections
    # between transactions, unless it supports prepared statements (like PgBouncer 1.21 and later).
    options["prepare_threshold"] = 5
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
        # For the web servers; workers always keep their connections.
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
    }
