"""System checks of the settings: what is known to hurt is reported before the first run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from ipaddress import ip_network
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.contrib.auth.models import Group
from django.core import checks
from django.db import connections
from django.utils.module_loading import import_string

from hitl_django.conf import KEYS, RATES, Rate, Settings, hitl
from hitl_django.db.alias import write_alias
from hitl_django.engine.serde import KeyRing
from hitl_django.errors import BrokenGraphError
from hitl_django.graph_registry import registry
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.task_queue import dispatcher

SQLITE = (3, 35)  # the first that knows RETURNING, which a claim is made with
DOTTED = ("POLICY", "DISPATCH")
POSITIVE = (
    "LEASE_SECONDS",
    "HEARTBEAT_SECONDS",
    "SWEEP_SECONDS",
    "SWEEP_BATCH",
    "MAX_ATTEMPTS",
    "RECURSION_LIMIT",
    "CLAIM_SECONDS",
    "EXPIRING_SECONDS",
    "COMMENT_MAX_LENGTH",
    "EVENT_MAX_BYTES",
    "EVENT_WAIT_SECONDS",
    "EVENT_POLL_SECONDS",
    "ANSWER_MAX_BYTES",
    "ANSWER_MAX_DEPTH",
    "ANSWER_MAX_ITEMS",
    "WEBHOOK_TIMEOUT_SECONDS",
    "WEBHOOK_ATTEMPTS",
    "DELIVERY_DAYS",
    "DUE_REMINDER_SECONDS",
    "PAGE_SIZE",
    "MAX_PAGE_SIZE",
)
#: Those of them that count something.
WHOLE = frozenset(known.name for known in fields(Settings) if known.type == "int")
#: What is called on an instance of the class that a dotted path leads to.
METHODS = {
    name: [method for method in vars(pattern) if not method.startswith("_")]
    for name, pattern in (("POLICY", ModelPermissionPolicy), ("DISPATCH", dispatcher.Dispatcher))
}


@checks.register("hitl_django")
def check_settings(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Reports keys of HITL that don't exist, values of the wrong kind, and a lease too short."""
    given = getattr(settings, "HITL", None) or {}
    if not isinstance(given, dict):
        return [checks.Error("HITL is not a dict.", id="hitl_django.E001")]
    return [
        *_unknown_keys(given),
        *_bad_values(given),
        *_bad_days(),
        *_bad_keys(),
        *_bad_rates(),
        *_bad_waiters(),
        *_bad_addresses(),
        *_bad_paths(),
        *_lease(),
    ]


@checks.register("hitl_django")
def check_graphs(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Reports graphs that are registered under one name, and graphs that can't be built."""
    doubled = registry.list_duplicates()
    return [
        *(
            checks.Error(
                f"Two graphs are registered as {name!r}: {', '.join(factories)}.",
                hint="Give one of them another name, or a version of its own and the older ones "
                "pin=True.",
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
    """Reports groups that a graph or its questions are reserved for and that don't exist.

    A warning and no error: the migration that makes the group may be yet to run.
    """
    return [
        *_missing_groups(registry.list_reviewer_groups(), "review policy", "decide its questions"),
        *_missing_groups(registry.list_starter_groups(), "startable_by", "start it"),
    ]


@checks.register("hitl_django")
def check_display_hints(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Reports display hints with which a payload may name any file of the storage."""
    return [
        checks.Warning(
            f"The display hint {name!r} of the graph {graph!r} is {text!r} without a folder.",
            hint="A payload may then name any file of the default storage, and who sees the "
            f"question can read it. Name the folder: '{text} invoices'.",
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
            f"The {where} of the graph {graph!r} names a group that doesn't exist: {name!r}.",
            hint=f"Nobody is in it, so only superusers and other groups can {verb}.",
            id="hitl_django.W022",
        )
        for graph, names in wanted.items()
        for name in sorted(names & missing)
    ]


@checks.register("hitl_django")
def check_queue(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Reports settings of the task queue that are known to hurt."""
    try:
        chosen = dispatcher.get_dispatcher()
    except Exception:  # check_settings says what
        return []
    return [*chosen.check(), *_own_queue(chosen)]


def _own_queue(chosen: dispatcher.Dispatcher) -> Iterator[checks.CheckMessage]:
    if not chosen.command():
        yield checks.Info(
            "HITL['DISPATCH'] names a queue whose workers aren't ours, so nobody sweeps unless "
            "you see to it: lost messages stay lost, and questions don't expire.",
            hint="Keep 'manage.py hitl worker' running, which then sweeps and does nothing else, "
            "or have 'manage.py hitl sweep' called once or twice a minute.",
            id="hitl_django.I025",
        )


@checks.register(checks.Tags.database, "hitl_django")
def check_sqlite(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Reports SQLite settings under which writers fail instead of waiting their turn.

    Measured with 8 threads deciding 100 items on Django's defaults: 726 of 800 attempts ended in
    "database is locked". With these settings none did.
    """
    options = connections[write_alias()].settings_dict.get("OPTIONS") or {}
    if connections[write_alias()].vendor != "sqlite":
        return []
    if sqlite3.sqlite_version_info < SQLITE:
        return [
            checks.Error(
                f"SQLite {sqlite3.sqlite_version} has no RETURNING, which a worker claims with.",
                hint="Use a Python that is built with SQLite 3.35 or later.",
                id="hitl_django.E008",
            )
        ]
    faults = []
    if str(options.get("transaction_mode", "")).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        faults.append("transaction_mode is not IMMEDIATE")
    if options.get("timeout", 5) < 10:
        faults.append("timeout is less than 10 seconds")
    if "wal" not in str(options.get("init_command", "")).lower():
        faults.append("init_command doesn't turn on WAL")
    if not faults:
        return []
    return [
        checks.Warning(
            f"SQLite will refuse concurrent work with 'database is locked': {'; '.join(faults)}.",
            hint="OPTIONS = {'transaction_mode': 'IMMEDIATE', 'timeout': 20, "
            "'init_command': 'PRAGMA journal_mode=wal; PRAGMA synchronous=normal;'}",
            id="hitl_django.W020",
        )
    ]


@checks.register(checks.Tags.database, "hitl_django")
def check_postgresql(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Points out that a worker frozen within a transaction keeps its locks for as long.

    No more than a remark: the role or the server may be set so, which can't be seen from here.
    """
    connection = connections[write_alias()]
    options = str((connection.settings_dict.get("OPTIONS") or {}).get("options", ""))
    if connection.vendor != "postgresql" or "idle_in_transaction_session_timeout" in options:
        return []
    return [
        checks.Info(
            "A worker that is frozen in the middle of a commit keeps others out of its thread "
            "until PostgreSQL ends the transaction, which it does only where it is told to.",
            hint="OPTIONS = {'options': '-c idle_in_transaction_session_timeout=10s "
            "-c lock_timeout=5s'}",
            id="hitl_django.I021",
        )
    ]


def _unknown_keys(given: dict[str, Any]) -> Iterator[checks.CheckMessage]:
    for name in sorted(set(given) - KEYS, key=str):
        yield checks.Error(
            f"HITL has no key {name!r}.",
            hint=f"It may have {', '.join(sorted(KEYS))}.",
            id="hitl_django.E002",
        )


def _bad_values(given: dict[str, Any]) -> Iterator[checks.CheckMessage]:
    for name in POSITIVE:
        value = getattr(hitl, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            yield checks.Error(f"HITL[{name!r}] is not a positive number.", id="hitl_django.E003")
        elif name in WHOLE and not isinstance(value, int):
            yield checks.Error(f"HITL[{name!r}] is not a whole number.", id="hitl_django.E003")
    if not isinstance(hitl.ADMIN_ENGINE, bool):
        yield checks.Error("HITL['ADMIN_ENGINE'] is neither True nor False.", id="hitl_django.E003")
    for name in ("ON_QUESTION_CHANGE", "ON_UNKNOWN_KEY"):
        if getattr(hitl, name) not in ("warn", "error"):
            yield checks.Error(
                f"HITL[{name!r}] is neither 'warn' nor 'error'.", id="hitl_django.E003"
            )
    slice_ = hitl.TIME_SLICE_SECONDS
    if slice_ is not None and (not isinstance(slice_, int | float) or slice_ <= 0):
        yield checks.Error(
            "HITL['TIME_SLICE_SECONDS'] is neither None nor a positive number.",
            id="hitl_django.E003",
        )


def _bad_days() -> Iterator[checks.CheckMessage]:
    for name in ("RETENTION_DAYS", "EVENT_RETENTION_DAYS", "ARCHIVE_DAYS"):
        given, where = getattr(hitl, name), f"HITL[{name!r}]"
        terms = {where: given}
        if name != "EVENT_RETENTION_DAYS" and isinstance(given, Mapping):
            terms = {f"{where}[{graph!r}]": days for graph, days in given.items()}
            if not all(isinstance(graph, str) for graph in given):
                yield checks.Error(
                    f"A key of {where} is neither a graph's name nor '*'.", id="hitl_django.E003"
                )
        for place, days in terms.items():
            if days is None:
                continue
            if isinstance(days, bool) or not isinstance(days, int | float) or not days > 0:
                yield checks.Error(
                    f"{place} is neither None nor a positive number.", id="hitl_django.E003"
                )


def _bad_keys() -> Iterator[checks.CheckMessage]:
    keys = hitl.ENCRYPTION_KEYS
    if not keys:
        return
    try:
        if not isinstance(keys, list | tuple):
            raise ValueError("It is no list of keys.")
        KeyRing(keys)
    except (ImportError, ValueError) as error:
        yield checks.Error(
            f"HITL['ENCRYPTION_KEYS']: {error}",
            hint="Make a key with cryptography.fernet.Fernet.generate_key().decode().",
            id="hitl_django.E003",
        )


def _bad_rates() -> Iterator[checks.CheckMessage]:
    for name in RATES:
        try:
            if getattr(hitl, name) is not None:
                Rate.parse(getattr(hitl, name))
        except ValueError as error:
            yield checks.Error(
                f"HITL[{name!r}]: {error}", hint='As "1200/min", or None.', id="hitl_django.E003"
            )


def _bad_waiters() -> Iterator[checks.CheckMessage]:
    for name in ("EVENT_WAITERS", "EVENT_STREAMS"):
        slots = getattr(hitl, name)
        if isinstance(slots, bool) or not isinstance(slots, int) or slots < 0:
            yield checks.Error(
                f"HITL[{name!r}] is not a whole number of requests.",
                hint="0 lets none wait: each is answered at once.",
                id="hitl_django.E003",
            )
    share = hitl.EVENT_USER_SHARE
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        yield checks.Error(
            "HITL['EVENT_USER_SHARE'] is not more than 0 and at most 1.", id="hitl_django.E003"
        )


def _bad_addresses() -> Iterator[checks.CheckMessage]:
    site = hitl.SITE_URL
    if site and not (isinstance(site, str) and site.startswith(("https://", "http://"))):
        yield checks.Error(
            "HITL['SITE_URL'] is not an address with https:// or http://.", id="hitl_django.E003"
        )
    networks = hitl.WEBHOOK_NETWORKS
    for network in networks if isinstance(networks, list | tuple) else [networks]:
        try:
            if not isinstance(network, str):
                raise TypeError
            ip_network(network)
        except (TypeError, ValueError):
            yield checks.Error(
                f"HITL['WEBHOOK_NETWORKS'] has {network!r}, which is not a network.",
                hint="Write it as '10.1.0.0/16', or '127.0.0.1' for a single address.",
                id="hitl_django.E003",
            )


def _bad_paths() -> Iterator[checks.CheckMessage]:
    for name in DOTTED:
        path = getattr(hitl, name)
        try:
            yield from _lacking(name, import_string(path))
        except Exception as error:  # whatever importing a module of the project raises
            yield checks.Error(
                f"HITL[{name!r}] can't be imported: {error}",
                hint="It is the dotted path of a class; the default of DISPATCH needs 'django_q' "
                "in INSTALLED_APPS.",
                id="hitl_django.E004",
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
            f"HITL[{name!r}] names {chosen!r}, which lacks {', '.join(missing)}.",
            hint="Derive it from the default, and override what is to be otherwise.",
            id="hitl_django.E009",
        )


def _lease() -> Iterator[checks.CheckMessage]:
    lease, beat = hitl.LEASE_SECONDS, hitl.HEARTBEAT_SECONDS
    if isinstance(lease, int | float) and isinstance(beat, int | float) and beat * 2 > lease:
        yield checks.Warning(
            "HITL['HEARTBEAT_SECONDS'] is more than half of LEASE_SECONDS: one late heartbeat and "
            "another worker takes the run over.",
            hint="A third of the lease is a good value.",
            id="hitl_django.W006",
        )


def _build(name: str) -> Iterator[checks.CheckMessage]:
    try:
        registry.get_graph(name)
    except BrokenGraphError as error:
        yield checks.Error(str(error), id="hitl_django.E007")
