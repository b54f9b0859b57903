"""The database of a project on PostgreSQL, by its URL."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


def postgresql(url: str) -> dict[str, Any]:
    """Return the DATABASES entry of ``postgresql://user:password@host:port/name?option=value``."""
    parts = urlsplit(url)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    host = options.pop("host", parts.hostname or "")  # a directory where it is a Unix socket
    # A worker that is frozen in the middle of a commit keeps nobody out of its thread for long.
    options["options"] = "-c idle_in_transaction_session_timeout=10s -c lock_timeout=5s"
    # The server keeps what it has planned. Not behind a pooler that gives each transaction another
    # of its connections, unless it knows of prepared statements (PgBouncer from 1.21 on does).
    options["prepare_threshold"] = 5
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
        # Workers keep their connections in any case. This is for the web servers.
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
    }
