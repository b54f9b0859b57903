"""Database URLs to Django's settings and back."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

#: Without these options, writers on SQLite get "database is locked" instead of waiting. The next
#: writer is random, so one of fifty may wait for a long time on a slow machine.
SQLITE_OPTIONS = {
    "timeout": 120,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}


def from_url(url: str) -> dict[str, Any]:
    """Return the DATABASES entry for ``sqlite:///path`` or ``postgresql://…``."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.scheme == "sqlite":
        return sqlite(Path(path.removeprefix("/")))
    if parts.scheme in {"postgres", "postgresql"}:
        # The URL of a server with only a Unix socket contains ?host=/directory.
        query: dict[str, Any] = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        if "prepare_threshold" in query:
            query["prepare_threshold"] = int(query["prepare_threshold"])
        # Server-side cursors outlive a transaction, which a pooler may not allow.
        disabled = query.pop("disable_cursors", "") == "true"
        return {
            "DISABLE_SERVER_SIDE_CURSORS": disabled,
            "ENGINE": "django.db.backends.postgresql",
            "NAME": path.removeprefix("/") or "postgres",
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": query.pop("host", parts.hostname or ""),
            "PORT": str(parts.port or query.pop("port", "")),
            "OPTIONS": query,
        }
    raise ValueError(f"DATABASE_URL starts with {parts.scheme}://; use sqlite:// or postgresql://.")


def sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": dict(SQLITE_OPTIONS),
    }


def to_url(connection: BaseDatabaseWrapper, **other: Any) -> str:
    """Return the URL with which another process can connect to the database of ``connection``.

    ``other`` are settings that differ, for example the host.
    """
    settings = {**connection.settings_dict, **other}
    if connection.vendor == "sqlite":
        return f"sqlite:///{quote(str(settings['NAME']))}"
    login = quote(settings["USER"], safe="")
    if settings["PASSWORD"]:
        login += ":" + quote(settings["PASSWORD"], safe="")
    query = {"host": settings["HOST"], "port": settings["PORT"], **settings["OPTIONS"]}
    if settings.get("DISABLE_SERVER_SIDE_CURSORS"):
        query["disable_cursors"] = "true"
    chosen = urlencode(
        {key: value for key, value in query.items() if isinstance(value, str | int) and value}
    )
    return f"postgresql://{login}@/{quote(settings['NAME'])}?{chosen}"


def is_waited_for(cursor: Any) -> bool:
    cursor.execute(
        "SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    )
    return cursor.fetchone() is not None


def end_session(alias: str = DEFAULT_DB_ALIAS) -> None:
    """Make a PostgreSQL server end the session of this OS thread."""

    def end(pid: int) -> None:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])
        connections[alias].close()

    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        other = threading.Thread(target=end, args=cursor.fetchone())
    other.start()
    other.join()
