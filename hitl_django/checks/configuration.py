"""System checks that report risky settings before the first run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.contrib.auth.models import Group
from django.core import checks
from django.db import connections
from django.utils.module_loading import import_string

from hitl_django.conf import hitl, list_settings
from hitl_django.db.alias import write_alias
from hitl_django.engine.extras import MissingExtraError
from hitl_django.errors import BrokenGraphError
from hitl_django.graph_registry import registry
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.task_queue import dispatcher

SQLITE = (3, 35)  # The first version with RETURNING, which claims need.
DOTTED = ("POLICY", "DISPATCH")
#: Methods that the class at a dotted path must have, by setting.
METHODS = {
    name: [method for method in vars(pattern) if not method.startswith("_")]
    for name, pattern in (("POLICY", ModelPermissionPolicy), ("DISPATCH", dispatcher.Dispatcher))
}


@checks.register("hitl_django")
def check_settings(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report unknown keys and invalid values of HITL, and leases that are too short."""
    given = getattr(settings, "HITL", None) or {}
    if not isinstance(given, dict):
        return [checks.Error("The HITL setting must be a dict.", id="hitl_django.E001")]
    return [
        *_unknown_keys(given),
        *_bad_values(),
        *_bad_keys(),
        *_bad_paths(),
        *_lease(),
    ]


@checks.register("hitl_django")
def check_graphs(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report graphs with the same name, and graphs that can't be built."""
    doubled = registry.list_duplicates()
    return [
        *(
            checks.Error(
                f"Graph {name!r} is registered more than once: {', '.join(factories)}.",
                hint="Rename one of them, or give each its own version and set pin=True "
                "on the older ones.",
                id="hitl_django.E005",
            )
            for name, factories in doubled.items()
        ),
        *(fault for name in registry.list_names() if name not in doubled for fault in _build(name)),
    ]


@checks.register(checks.Tags.database, "hitl_django")
def check_groups(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report groups in a graph's review policy or in ``startable_by`` that don't exist.

    The message is only a warning, because the migration that creates the group may not have been
    applied yet.
    """
    return [
        *_missing_groups(registry.list_reviewer_groups(), "review policy", "decide its interrupts"),
        *_missing_groups(registry.list_starter_groups(), "startable_by", "start it"),
    ]


@checks.register("hitl_django")
def check_display_hints(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report display hints that allow a payload to reference any file of the storage."""
    return [
        checks.Warning(
            f"The display hint {name!r} of the graph {graph!r} is {text!r} without a folder.",
            hint="A payload can then name any file of the default storage, and everyone who can "
            f"view the request can read the file. Name the folder: '{text} invoices'.",
            id="hitl_django.W041",
        )
        for graph, hints in registry.list_display_hints().items()
        for name, text in sorted(hints.items())
        if text.strip() == "file"
    ]


def _missing_groups(
    wanted: dict[str, frozenset[str]], where: str, verb: str
) -> list[checks.CheckMessage]:
    named = frozenset[str]().union(*wanted.values())
    connection = connections[write_alias()]
    if not named or Group._meta.db_table not in connection.introspection.table_names():
        return []
    groups = Group.objects.using(write_alias()).filter(name__in=named)
    missing = named.difference(groups.values_list("name", flat=True))
    return [
        checks.Warning(
            f"The {where} of graph {graph!r} names an unknown group: {name!r}.",
            hint=f"Create the group, or only superusers and members of other groups can {verb}.",
            id="hitl_django.W022",
        )
        for graph, names in wanted.items()
        for name in sorted(names & missing)
    ]


@checks.register("hitl_django")
def check_queue(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report settings of the task queue that can lose, duplicate or delay runs."""
    try:
        chosen = dispatcher.get_dispatcher()
    except Exception:  # check_settings reports this error.
        return []
    return [*chosen.check(), *_own_queue(chosen)]


def _own_queue(chosen: dispatcher.Dispatcher) -> Iterator[checks.CheckMessage]:
    if not chosen.command():
        yield checks.Info(
            "HITL['DISPATCH'] uses a queue with external workers, and no process runs "
            "the sweep: lost messages are not resent and interrupts don't expire.",
            hint="Run 'manage.py hitl worker', which then only sweeps, or schedule "
            "'manage.py hitl sweep' once or twice a minute.",
            id="hitl_django.I025",
        )


@checks.register(checks.Tags.database, "hitl_django")
def check_sqlite(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report SQLite settings with which concurrent writers fail instead of waiting.

    A measurement with 8 OS threads that decided 100 interrupts shows the difference. With Django's
    defaults, 726 of 800 attempts failed with "database is locked". With the recommended settings,
    no attempt failed.
    """
    options = connections[write_alias()].settings_dict.get("OPTIONS") or {}
    if connections[write_alias()].vendor != "sqlite":
        return []
    if sqlite3.sqlite_version_info < SQLITE:
        return [
            checks.Error(
                f"SQLite {sqlite3.sqlite_version} doesn't support RETURNING, which "
                "workers need to claim runs.",
                hint="Use a Python build with SQLite 3.35 or later.",
                id="hitl_django.E008",
            )
        ]
    faults = []
    if str(options.get("transaction_mode", "")).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        faults.append("transaction_mode is not IMMEDIATE")
    if options.get("timeout", 5) < 10:
        faults.append("timeout is less than 10 seconds")
    if "wal" not in str(options.get("init_command", "")).lower():
        faults.append("init_command doesn't enable WAL")
    if not faults:
        return []
    return [
        checks.Warning(
            "SQLite will fail under concurrent access with 'database is locked': "
            f"{'; '.join(faults)}.",
            hint="OPTIONS = {'transaction_mode': 'IMMEDIATE', 'timeout': 20, "
            "'init_command': 'PRAGMA journal_mode=wal; PRAGMA synchronous=normal;'}",
            id="hitl_django.W020",
        )
    ]


@checks.register(checks.Tags.database, "hitl_django")
def check_postgresql(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report missing transaction timeouts, without which a frozen worker would keep its locks.

    The message is only informational, because the role or the server may define the timeouts.
    """
    connection = connections[write_alias()]
    options = str((connection.settings_dict.get("OPTIONS") or {}).get("options", ""))
    if connection.vendor != "postgresql" or "idle_in_transaction_session_timeout" in options:
        return []
    return [
        checks.Info(
            "No transaction timeouts are set: a worker frozen during a commit blocks its "
            "thread until PostgreSQL ends the transaction.",
            hint="OPTIONS = {'options': '-c idle_in_transaction_session_timeout=10s "
            "-c lock_timeout=5s'}",
            id="hitl_django.I021",
        )
    ]


def _unknown_keys(given: dict[str, Any]) -> Iterator[checks.CheckMessage]:
    known = {key.name for key in list_settings()}
    for name in sorted(set(given) - known, key=str):
        yield checks.Error(
            f"Unknown HITL setting: {name!r}.",
            hint=f"It may have {', '.join(sorted(known))}. Keys of optional apps are known where "
            "the app is installed.",
            id="hitl_django.E002",
        )


def _bad_values() -> Iterator[checks.CheckMessage]:
    for key in list_settings():
        try:
            if check := key.metadata["check"]:
                check(getattr(hitl, key.name))
        except ValueError as error:
            fault, *hints = error.args
            yield checks.Error(
                f"HITL[{key.name!r}] {fault}", hint=next(iter(hints), None), id="hitl_django.E003"
            )


def _bad_keys() -> Iterator[checks.CheckMessage]:
    keys = hitl.ENCRYPTION_KEYS
    if not keys:
        return
    try:
        if not isinstance(keys, list | tuple):
            raise ValueError("It must be a list of keys.")
        from hitl_django.engine.serde import KeyRing

        KeyRing(keys)
    except (ImportError, ValueError) as error:
        yield checks.Error(
            f"HITL['ENCRYPTION_KEYS']: {error}",
            hint="Generate a key with cryptography.fernet.Fernet.generate_key().decode().",
            id="hitl_django.E003",
        )


def _bad_paths() -> Iterator[checks.CheckMessage]:
    for name in DOTTED:
        path = getattr(hitl, name)
        try:
            yield from _lacking(name, import_string(path))
        except Exception as error:  # Importing a module of the project may raise any error.
            yield checks.Error(
                f"HITL[{name!r}] can't be imported: {error}",
                hint=_advise_on_import(error),
                id="hitl_django.E004",
            )


def _advise_on_import(error: Exception) -> str:
    if isinstance(error, MissingExtraError):
        return f"Run: {error.command}"
    return (
        "It must be the dotted path of a class. The default DISPATCH needs 'django_q' in "
        "INSTALLED_APPS."
    )


def _lacking(name: str, chosen: Any) -> Iterator[checks.CheckMessage]:
    abstract = getattr(chosen, "__abstractmethods__", ())
    missing = [
        method
        for method in METHODS[name]
        if method in abstract or not callable(getattr(chosen, method, None))
    ]
    if missing:
        yield checks.Error(
            f"HITL[{name!r}] is {chosen!r}, which lacks: {', '.join(missing)}.",
            hint="Subclass the default class and override only what you need.",
            id="hitl_django.E009",
        )


def _lease() -> Iterator[checks.CheckMessage]:
    lease, beat = hitl.LEASE_SECONDS, hitl.HEARTBEAT_SECONDS
    if isinstance(lease, int | float) and isinstance(beat, int | float) and beat * 2 > lease:
        yield checks.Warning(
            "HITL['HEARTBEAT_SECONDS'] is more than half of LEASE_SECONDS: after one "
            "late heartbeat another worker takes over the run.",
            hint="Set it to a third of LEASE_SECONDS.",
            id="hitl_django.W006",
        )


def _build(name: str) -> Iterator[checks.CheckMessage]:
    try:
        registry.get_graph(name)
    except BrokenGraphError as error:
        yield checks.Error(str(error), id="hitl_django.E007")
