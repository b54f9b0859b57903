"""The registry of graphs by name; ``graphs.py`` of each app is imported at start-up.

Graphs are registered by code only: a row that named one by its import path would be a way to run
code.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from hitl_django.engine.graph.fingerprint import GraphStructure, describe_shape, hash_shape
from hitl_django.engine.state.schema import build_json_schema
from hitl_django.engine.task.renames import NO_RENAMES, Renames
from hitl_django.engine.types import Durability
from hitl_django.errors import BrokenGraphError, UnknownGraphError, UnknownVersionError
from hitl_django.json_text.secret_values import (
    HIDDEN,
    has_secrets,
    list_secret_names,
    mask_secrets,
)
from hitl_django.models.events import STATES, encode_kinds

from .review_policy import ReviewPolicy

if TYPE_CHECKING:
    from hitl_django.engine.graph.pregel import Pregel

Factory = TypeVar("Factory")
#: Makes the state of the present version from that of another, and the name of that.
MigrateState = Callable[[dict[str, Any], str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RegisteredGraph:
    """A graph as the rest of the package knows it: compiled, named and versioned."""

    name: str
    version: str
    title: Any  # a str, or a lazy translation of one
    graph: Pregel
    shape: GraphStructure
    fingerprint: str
    #: Which events its runs record, unless their start says otherwise.
    events: str
    #: Keys whose values its runs' events hide.
    redact: tuple[str, ...]
    #: When its runs are stored.
    durability: str
    #: Whether its runs stay with the version.
    pin: bool = False
    migrate_state: MigrateState | None = None
    renames: Renames = NO_RENAMES
    #: A schema of the graph's values that declares which are secret; None where none is.
    secrets: dict[str, Any] | None = None

    def mask(self, values: Any) -> Any:
        """Return an input, output or state, as JSON, without its secrets."""
        return values if self.secrets is None else mask_secrets(self.secrets, values)

    def mask_context(self, context: Any) -> Any:
        """Return a run's context, as JSON, without its secrets."""
        return mask_secrets(describe_context(self.graph) or {}, context)

    def with_graph(self, graph: Pregel) -> RegisteredGraph:
        """Return the same registration of a variant of its graph."""
        return replace(self, graph=graph)


@dataclass(frozen=True, slots=True)
class BrokenGraph:
    """A graph that can't be built: its registration, and why it can't."""

    name: str
    version: str
    title: Any
    durability: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    version: str
    title: Any
    factory: Any
    events: str
    redact: tuple[str, ...]
    durability: str
    review: ReviewPolicy
    api: bool
    startable_by: frozenset[str]
    renamed: Mapping[str, str]
    migrate_state: MigrateState | None
    pin: bool


DURABILITIES: tuple[str, ...] = get_args(Durability)
#: Seconds that a factory which failed is left alone. Most fail until the code is mended, and would
#: keep whoever looks at a list waiting each time; some need what comes back by itself.
REST = 10.0
#: Of a graph that has no other, or isn't known here.
_ORDINARY = ReviewPolicy()
#: Of a run, the option that it stays with its version.
PINNED = "pinned"
#: Of each name, the newest version, which new runs get.
_entries: dict[str, _Entry] = {}
#: Of each name, all versions.
_versions: dict[str, list[_Entry]] = {}
_duplicates: dict[str, list[str]] = {}
#: By name and version.
_Key = tuple[str, str]
_built: dict[_Key, RegisteredGraph] = {}
#: Why a graph could not be built, and until when that is taken for granted.
_failed: dict[_Key, tuple[str, float]] = {}
_lock = threading.RLock()


def register(
    name: str,
    *,
    version: str = "1",
    title: Any = None,
    events: Iterable[str] = (STATES,),
    redact: Iterable[str] = (),
    durability: Durability = "sync",
    review: ReviewPolicy | None = None,
    api: bool = True,
    startable_by: Iterable[str] = (),
    renamed: Mapping[str, str] | None = None,
    migrate_state: MigrateState | None = None,
    pin: bool = False,
) -> Callable[[Factory], Factory]:
    """Register the function below it as the factory of the graph ``name``.

    The factory returns a StateGraph, compiled or not, and is called once, at first use; one that
    fails is left alone for ten seconds, and is called again at the next use after that. What an
    ``@entrypoint`` below it makes is a graph already, and registered as it is. A name
    registered twice belongs to neither: it can't be built, and a system check names both factories,
    since which one stored threads would meet depended on the order of imports.

    ``events`` names the events that its runs record: stream modes beside their states, or with
    ``()`` none at all. ``redact`` names keys whose values they hide. ``review`` says who reviews
    what the graph asks, and how.

    ``durability`` says when its runs are stored: ``sync`` after each super-step, before the next
    begins; ``async`` while the next one runs; ``exit`` where the run pauses, fails, ends or makes
    room for others. What ran since runs again after a crash. All three store what went before
    first, where a node calls ``once`` or ``transact``.

    ``startable_by`` names the groups whose members start it, and nobody else but superusers;
    without any, the permission to start runs says who does. With ``api=False`` nobody starts it
    over the API or by the admin's form, nor gives it other values over the API when a run is
    forked: only the product's own code knows what it may be given. What it asks is reviewed there
    all the same.

    ``renamed`` has the new names of nodes and of keys of the state by their old ones: threads that
    were stored under the old ones go on under the new. ``migrate_state(state, version)`` returns
    the state of this version, where a thread was stored by another ``version``; it is called once,
    when such a thread is taken up, and its result is stored with the next checkpoint.

    With ``pin=True`` the runs that begin with this version stay with it. Other versions may then be
    registered beside it: each run goes on with the version that it began with, where that is
    pinned, and new runs get the newest. Numbers in versions count as numbers, so "10" is newer
    than "9". All but the newest have to be pinned.
    """
    if not name or len(name) > 200 or not name.isprintable() or "/" in name:
        raise ValueError(
            f"Graph names must be 1 to 200 printable characters without a slash, not {name!r}."
        )

    kinds, groups = encode_kinds(events), _check_groups(startable_by)
    if durability not in DURABILITIES:
        raise ValueError(
            f"durability must be one of {', '.join(DURABILITIES)}, not {durability!r}."
        )
    if not isinstance(api, bool):
        raise TypeError(f"api must be True or False, not {api!r}.")
    if migrate_state is not None and not callable(migrate_state):
        raise TypeError(f"migrate_state must be a function, not {migrate_state!r}.")

    def decorate(factory: Factory) -> Factory:
        with _lock:
            entry = _Entry(
                name,
                version,
                name if title is None else title,
                factory,
                kinds,
                tuple(redact),
                durability,
                review or _ORDINARY,
                api,
                groups,
                dict(renamed or {}),
                migrate_state,
                pin,
            )
            # A module that is imported twice registers the same once more.
            others = [each for each in _versions.get(name, ()) if each.factory is not factory]
            _forget(name)
            _versions[name] = [*others, entry]
            _entries[name] = max(_versions[name], key=_get_age)
            if conflicts := _find_conflicts(_versions[name], _entries[name]):
                _duplicates[name] = conflicts
        return factory

    return decorate


def unregister(name: str) -> None:
    """Forget a graph; for tests."""
    with _lock:
        _forget(name)


def _forget(name: str) -> None:
    for entry in _versions.pop(name, ()):
        _built.pop((name, entry.version), None)
        _failed.pop((name, entry.version), None)
    _entries.pop(name, None)
    _duplicates.pop(name, None)


def _get_age(entry: _Entry) -> list[tuple[int, int, str]]:
    """Return what versions are sorted by: the numbers in them as numbers."""
    parts = re.findall(r"\d+|\D+", entry.version)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


def _find_conflicts(entries: list[_Entry], newest: _Entry) -> list[str]:
    """Return the factories of which nobody can say which one a run is to get."""
    versions = [entry.version for entry in entries]
    found = [
        entry
        for entry in entries
        if versions.count(entry.version) > 1 or not (entry.pin or entry is newest)
    ]
    if found and newest not in found:
        found.append(newest)
    return [_locate(entry.factory) for entry in found]


@contextmanager
def hide_graphs() -> Iterator[None]:
    """Hide all graphs from the block, and forgets those that it registers; for tests."""
    tables: tuple[dict[Any, Any], ...] = (_entries, _versions, _duplicates, _built, _failed)
    kept = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    try:
        yield
    finally:
        for table, before in zip(tables, kept, strict=True):
            table.clear()
            table.update(before)


def list_names() -> list[str]:
    """List the registered names, sorted."""
    return sorted(_entries)


def get_title(name: str) -> Any:
    """Return what people call a graph, whether or not it can be built here; else its name."""
    entry = _entries.get(name)
    return name if entry is None else entry.title


def get_review_policy(name: str) -> ReviewPolicy:
    """Return the review policy of a graph, whether or not it can be built here."""
    entry = _entries.get(name)
    return _ORDINARY if entry is None else entry.review


def get_present_name(name: str, node: str) -> str:
    """Return what a node is called today, whether or not its graph can be built here."""
    entry, passed = _entries.get(name), set[str]()
    while entry is not None and node in entry.renamed and node not in passed:
        passed.add(node)
        node = entry.renamed[node]
    return node


def list_display_hints() -> dict[str, Mapping[str, str]]:
    """Return the display hints of each graph's review policy, by graph, where it has any."""
    return {
        name: entry.review.display
        for name, entry in sorted(_entries.items())
        if entry.review.display
    }


def list_reviewer_groups() -> dict[str, frozenset[str]]:
    """Return the names of the groups that review a graph, by graph, where only some groups do."""
    return {
        name: frozenset(entry.review.groups)
        for name, entry in sorted(_entries.items())
        if entry.review.groups
    }


def is_startable_over_api(name: str) -> bool:
    """Return whether the API starts runs of a graph, as far as the graph has a say in that."""
    entry = _entries.get(name)
    return entry is None or entry.api


def get_starter_groups(name: str) -> frozenset[str]:
    """Return the names of the groups whose members alone may start a graph; empty: anybody may."""
    entry = _entries.get(name)
    return frozenset() if entry is None else entry.startable_by


def list_starter_groups() -> dict[str, frozenset[str]]:
    """Return the names of the groups that may start a graph, by graph, where only some may."""
    return {
        name: entry.startable_by for name, entry in sorted(_entries.items()) if entry.startable_by
    }


def list_duplicates() -> dict[str, list[str]]:
    """Return the names that were registered more than once, each with its factories."""
    return {name: list(factories) for name, factories in _duplicates.items()}


def get_redacted_keys(name: str) -> tuple[str, ...]:
    """Return the keys whose values are hidden, those that the graph's schemas declare included.

    Of a graph that can't be built here these are the keys of its registration.
    """
    try:
        return get_graph(name).redact
    except UnknownGraphError:
        return ()
    except BrokenGraphError:
        return _entries[name].redact


def mask_values(name: str, values: Any) -> Any:
    """Return an input of a graph without its secrets; nothing where they aren't known here."""
    try:
        return get_graph(name).mask(values)
    except (UnknownGraphError, BrokenGraphError):
        return HIDDEN


def describe_context(graph: Pregel) -> dict[str, Any] | None:
    """Return the JSON schema of a run's context; None for a graph that declares none.

    The graph's own ``get_context_jsonschema`` raises for a schema without fields, such as dict.
    """
    schema = graph.context_schema
    return None if schema is None else build_json_schema(schema)


def mask_context(name: str, context: Any) -> Any:
    """Return a context of a graph without its secrets; HIDDEN if they aren't known here."""
    try:
        return get_graph(name).mask_context(context)
    except (UnknownGraphError, BrokenGraphError):
        return HIDDEN


def list_versions(name: str) -> list[str]:
    """List the registered versions of a graph, the newest last."""
    return [entry.version for entry in sorted(_versions.get(name, ()), key=_get_age)]


def find_graph(name: str) -> RegisteredGraph | BrokenGraph:
    """Return a registered graph, as a BrokenGraph where it can't be built."""
    try:
        return get_graph(name)
    except BrokenGraphError as error:
        entry = _entries[name]
        return BrokenGraph(entry.name, entry.version, entry.title, entry.durability, error.reason)


def get_graph(name: str) -> RegisteredGraph:
    """Return the graph of that name, built at first use.

    Raises UnknownGraphError where there is none, and BrokenGraphError where its factory fails or
    failed lately.
    """
    entry = _entries.get(name)
    if entry is None:
        raise UnknownGraphError(name, list_names())
    return _get_built(entry)


def get_graph_of_run(name: str, version: str, *, is_pinned: bool = False) -> RegisteredGraph:
    """Return the graph that a run goes on with, which began with this version.

    That is its own version, where that is pinned, and else the newest. Raises UnknownVersionError
    where a run that was pinned to its version finds it no more, and what ``get_graph`` raises.
    """
    for entry in _versions.get(name, ()):
        if entry.pin and entry.version == version:
            return _get_built(entry)
    if is_pinned and name in _entries:
        raise UnknownVersionError(name, version, list_versions(name))
    return get_graph(name)


def note_pin(registered: RegisteredGraph, options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the options of a run that begins, which say that it is pinned where it is."""
    rest = {name: value for name, value in (options or {}).items() if name != PINNED}
    return ({**rest, PINNED: True} if registered.pin else rest) or None


def _get_built(entry: _Entry) -> RegisteredGraph:
    key = (entry.name, entry.version)
    found = _built.get(key)
    if found is not None:
        return found
    _refuse_if_failed(key)
    with _lock:
        if entry.name in _duplicates:
            factories = ", ".join(_duplicates[entry.name])
            raise BrokenGraphError(entry.name, f"registered in {factories}.")
        if key not in _built:
            _refuse_if_failed(key)  # while we waited for the lock
            try:
                _built[key] = _build(entry)
            except Exception as error:  # whatever a factory of the project raises
                reason = f"{type(error).__name__}: {error}"
                _failed[key] = (reason, monotonic() + REST)
                raise BrokenGraphError(entry.name, reason) from error
        return _built[key]


def _refuse_if_failed(key: _Key) -> None:
    reason, until = _failed.get(key, ("", 0.0))
    if reason and monotonic() < until:
        raise BrokenGraphError(key[0], reason)


def _build(entry: _Entry) -> RegisteredGraph:
    made = entry.factory() if callable(entry.factory) else entry.factory
    graph = made.compile() if hasattr(made, "compile") else made
    if (entry.renamed or entry.migrate_state) and not hasattr(graph, "with_renames"):
        raise TypeError(
            "renamed and migrate_state are not supported for graphs "
            "registered with register_langgraph."
        )
    if entry.renamed:
        graph = graph.with_renames(entry.renamed)
    shape = describe_shape(graph)
    secrets = _read_secrets(graph)
    return RegisteredGraph(
        entry.name,
        entry.version,
        entry.title,
        graph,
        shape,
        hash_shape(shape),
        entry.events,
        (*entry.redact, *list_secret_names(secrets)),
        entry.durability,
        entry.pin,
        entry.migrate_state,
        graph.spec.renames if hasattr(graph, "spec") else NO_RENAMES,
        secrets,
    )


def _read_secrets(graph: Pregel) -> dict[str, Any] | None:
    """Return the schemas of a graph that declare secrets, as one; None where none does."""
    state = getattr(graph, "state_schema", None)
    schemas = [
        graph.get_input_jsonschema(),
        graph.get_output_jsonschema(),
        {} if state is None else build_json_schema(state),
    ]
    # An id of its own keeps the references of each within it.
    found = [{"$id": f"{at}", **one} for at, one in enumerate(schemas) if has_secrets(one)]
    return {"allOf": found} if found else None


def _check_groups(names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise TypeError(f"startable_by must be a list of names, not the str {names!r}.")
    found: list[object] = list(names)
    if wrong := [name for name in found if not isinstance(name, str)]:
        raise TypeError(f"startable_by must contain group names, not {wrong[0]!r}.")
    return frozenset(map(str, found))


def _locate(factory: Any) -> str:
    return f"{factory.__module__}.{getattr(factory, '__qualname__', factory)}"
