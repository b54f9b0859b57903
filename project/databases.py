"""PostgreSQL settings for Django from a URL."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


def postgresql(url: str) -> dict[str, Any]:
    """Return the DATABASES entry of ``postgresql://user:password@host:port/name?option=value``."""
    parts = urlsplit(url)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    host = options.pop("host", parts.hostname or "")  # For a Unix socket, the host is a directory.
    # Limits how long a worker that freezes during a commit can block its thread.
    options["options"] = "-c idle_in_transaction_session_timeout=10s -c lock_timeout=5s"
    # The server stores query plans. Disable this behind a pooler that changes connections between
    # transactions, unless the pooler supports prepared statements (like PgBouncer from version
    # 1.21).
    options["prepare_threshold"] = 5
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
        # For the web servers. Workers never close their connections.
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
    }
