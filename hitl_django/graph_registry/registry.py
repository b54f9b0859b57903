"""Registry of graphs by name.

The module ``graphs`` of each app is imported at startup. Graphs are registered only by code,
because a database row with an import path would allow running any code.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from hitl_django.engine.arguments import check_choice, check_names, check_switch
from hitl_django.engine.task.renames import NO_RENAMES, Renames
from hitl_django.engine.types import DURABILITIES, Durability
from hitl_django.errors import BrokenGraphError, UnknownGraphError, UnknownVersionError
from hitl_django.json_text.secret_values import (
    HIDDEN,
    has_secrets,
    list_secret_names,
    mask_secrets,
)
from hitl_django.models.events import encode_kinds

from .review_policy import ReviewPolicy

if TYPE_CHECKING:
    from hitl_django.engine.graph.fingerprint import GraphStructure
    from hitl_django.engine.graph.pregel import Pregel

Factory = TypeVar("Factory")
#: Returns the state for the current version, given the state and name of another version.
MigrateState = Callable[[dict[str, Any], str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RegisteredGraph:
    """A registered graph: the compiled graph, its name, its version and its options."""

    name: str
    version: str
    title: Any  # A str or a lazy translation.
    graph: Pregel
    structure: GraphStructure
    fingerprint: str
    #: The kinds of events that the graph's runs store by default.
    events: str
    #: Keys whose values are hidden in events.
    redact: tuple[str, ...]
    #: When the graph's runs store checkpoints.
    durability: str
    #: Whether runs that start with this version continue with this version.
    pin: bool = False
    migrate_state: MigrateState | None = None
    renames: Renames = NO_RENAMES
    #: A schema with the secret values of the graph, or None if the graph has no secrets.
    secrets: dict[str, Any] | None = None

    def mask(self, values: Any) -> Any:
        """Return an input, output or state as JSON values, with its secrets replaced."""
        return values if self.secrets is None else mask_secrets(self.secrets, values)

    def mask_context(self, context: Any) -> Any:
        """Return a run's context as JSON values, with its secrets replaced."""
        return mask_secrets(describe_context(self.graph) or {}, context)

    def with_graph(self, graph: Pregel) -> RegisteredGraph:
        """Return a copy of this registration with ``graph`` in place of its own graph."""
        return replace(self, graph=graph)


@dataclass(frozen=True, slots=True)
class BrokenGraph:
    """The registration of a graph that can't be built, with the reason."""

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


#: Prefix of the names of this package's own graphs.
BUILT_IN = "hitl_django."
#: Size of the database columns of a graph's version.
VERSION_LENGTH = 50
#: Seconds before a failed factory is called again. Most factories fail until the code is fixed, and
#: would slow down each list of graphs. Others need a service that may become available.
REST = 10.0
#: The policy of a graph without a review policy, or of a graph that isn't registered here.
_ORDINARY = ReviewPolicy()
#: The option of a run that continues with its version.
PINNED = "pinned"
#: The newest version of each name, which new runs use.
_entries: dict[str, _Entry] = {}
#: All versions of each name.
_versions: dict[str, list[_Entry]] = {}
_duplicates: dict[str, list[str]] = {}
#: Name and version.
_Key = tuple[str, str]
_built: dict[_Key, RegisteredGraph] = {}
#: The reason why a graph could not be built, and the time until which its factory isn't called
#: again.
_failed: dict[_Key, tuple[str, float]] = {}
_lock = threading.RLock()


def register(
    name: str,
    *,
    version: str = "1",
    title: Any = None,
    events: Iterable[str] = (),
    redact: Iterable[str] = (),
    durability: Durability = "sync",
    review: ReviewPolicy | None = None,
    api: bool = True,
    startable_by: Iterable[str] = (),
    renamed: Mapping[str, str] | None = None,
    migrate_state: MigrateState | None = None,
    pin: bool = False,
) -> Callable[[Factory], Factory]:
    """Register the decorated function as the factory of the graph ``name``.

    The factory returns a StateGraph, compiled or not. The factory is called once, on first use. If
    the factory fails, each use of the graph in the next ten seconds raises the same error. Later
    uses call the factory again. Instead of a factory, the result of ``@entrypoint`` can be
    registered. If a name is registered twice, neither graph can be built, and a system check
    reports both factories. Otherwise, the order of imports would determine the graph of stored
    threads.

    Args:
        version: the version of the graph. Numbers in versions are compared as numbers, so "10" is
            newer than "9".
        title: the name shown to people, by default ``name``. It may be a lazy translation.
        events: the kinds of events that runs store: "states" (changes of the run's state), stream
            modes, and "subgraphs" (chunks of subgraphs). If any kind is given, "states" is added.
            By default, no events are stored.
        redact: keys whose values are hidden in events.
        durability: when runs store checkpoints. "sync": after each super-step, before the next
            super-step. "async": during the next super-step. "exit": when the run pauses, fails,
            ends or is requeued. After a crash, super-steps since the last checkpoint run again. If
            a node calls ``once`` or ``transact``, earlier super-steps are stored first.
        review: how the graph's interrupts are reviewed.
        api: whether runs can be started over the API and with the admin's form, and whether the API
            may fork runs with changed state values. If False, only your project's code can start
            runs. Interrupts can still be reviewed everywhere.
        startable_by: the names of groups whose members may start runs, in addition to superusers.
            If empty, users need the permission to start runs.
        renamed: the new names of nodes and state keys by their old names. Threads stored with the
            old names continue with the new names.
        migrate_state: a function that receives a stored state and the version that stored the
            state. The function returns the state for ``version``. The function is called once when
            a thread stored by another version continues. The next checkpoint contains the result.
        pin: whether runs that start with this version also continue with this version. Several
            versions of a graph can be registered at the same time if all versions except the newest
            are pinned. New runs use the newest version.

    Raises:
        ValueError: a name, an event kind or the durability is not valid.
        TypeError: an argument has the wrong type.
    """
    if not isinstance(name, str):
        raise TypeError(f'The name must be a string, as in @register("refund"), not {name!r}.')
    if not name or len(name) > 200 or not name.isprintable() or "/" in name:
        raise ValueError(
            f"Graph names must be 1 to 200 printable characters without a slash, not {name!r}."
        )
    _check_version(version)

    kinds = encode_kinds(events)
    keys, groups = check_names("redact", redact), check_names("startable_by", startable_by)
    check_choice("durability", durability, DURABILITIES)
    check_switch("api", api)
    check_switch("pin", pin)
    if review is not None and not isinstance(review, ReviewPolicy):
        raise TypeError(f"review must be a ReviewPolicy, not {review!r}.")
    if renamed is not None and not isinstance(renamed, Mapping):
        raise TypeError(f"renamed must be a dict of new names by old names, not {renamed!r}.")
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
                keys,
                durability,
                review or _ORDINARY,
                api,
                frozenset(groups),
                dict(renamed or {}),
                migrate_state,
                pin,
            )
            # A module that is imported twice registers the same factory again.
            others = [each for each in _versions.get(name, ()) if each.factory is not factory]
            _forget(name)
            _versions[name] = [*others, entry]
            _entries[name] = max(_versions[name], key=_get_age)
            if conflicts := _find_conflicts(_versions[name], _entries[name]):
                _duplicates[name] = conflicts
        return factory

    return decorate


def unregister(name: str) -> None:
    """Remove a graph from the registry, for tests."""
    with _lock:
        _forget(name)


def _forget(name: str) -> None:
    for entry in _versions.pop(name, ()):
        _built.pop((name, entry.version), None)
        _failed.pop((name, entry.version), None)
    _entries.pop(name, None)
    _duplicates.pop(name, None)


def _get_age(entry: _Entry) -> list[tuple[int, int, str]]:
    """Return the key by which versions are sorted. Numbers in a version are compared as numbers."""
    parts = re.findall(r"\d+|\D+", entry.version)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


def _find_conflicts(entries: list[_Entry], newest: _Entry) -> list[str]:
    """Return the factories that conflict with the newest version.

    A conflict is another factory of the same version, or an older version that is not pinned.
    """
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
    """Hide the project's graphs inside a block of a test.

    Graphs that are registered inside the block are removed after the block.
    """
    tables: tuple[dict[Any, Any], ...] = (_entries, _versions, _duplicates, _built, _failed)
    kept = [dict(table) for table in tables]
    for table in tables:
        for key in list(table):
            if not (key[0] if isinstance(key, tuple) else key).startswith(BUILT_IN):
                del table[key]
    try:
        yield
    finally:
        for table, before in zip(tables, kept, strict=True):
            table.clear()
            table.update(before)


def list_names() -> list[str]:
    return sorted(_entries)


def get_title(name: str) -> Any:
    """Return the title of a graph, or ``name`` if the graph isn't registered.

    The graph isn't built for this.
    """
    entry = _entries.get(name)
    return name if entry is None else entry.title


def get_review_policy(name: str) -> ReviewPolicy:
    """Return the review policy of a graph. The graph isn't built for this."""
    entry = _entries.get(name)
    return _ORDINARY if entry is None else entry.review


def get_present_name(name: str, node: str) -> str:
    """Return the current name of a node that may have been renamed.

    The graph isn't built for this.
    """
    entry, passed = _entries.get(name), set[str]()
    while entry is not None and node in entry.renamed and node not in passed:
        passed.add(node)
        node = entry.renamed[node]
    return node


def list_display_hints() -> dict[str, Mapping[str, str]]:
    """Return the display hints in the review policies of graphs, by graph name."""
    return {
        name: entry.review.display
        for name, entry in sorted(_entries.items())
        if entry.review.display
    }


def list_reviewer_groups() -> dict[str, frozenset[str]]:
    """Return the names of the groups that may review a graph's interrupts, by graph name.

    Graphs that aren't restricted to groups are left out.
    """
    return {
        name: frozenset(entry.review.groups)
        for name, entry in sorted(_entries.items())
        if entry.review.groups
    }


def is_startable_over_api(name: str) -> bool:
    """Return whether the graph's registration allows starting runs over the API."""
    entry = _entries.get(name)
    return entry is None or entry.api


def get_starter_groups(name: str) -> frozenset[str]:
    """Return the names of the groups that may start a graph.

    The set is empty if starting the graph isn't restricted to groups.
    """
    entry = _entries.get(name)
    return frozenset() if entry is None else entry.startable_by


def list_starter_groups() -> dict[str, frozenset[str]]:
    """Return the names of the groups that may start a graph, by graph name.

    Graphs that aren't restricted to groups are left out.
    """
    return {
        name: entry.startable_by for name, entry in sorted(_entries.items()) if entry.startable_by
    }


def list_duplicates() -> dict[str, list[str]]:
    """Return the names of graphs with conflicting registrations, each with its factories."""
    return {name: list(factories) for name, factories in _duplicates.items()}


def get_redacted_keys(name: str) -> tuple[str, ...]:
    """Return the keys whose values are hidden in a graph's events.

    The result contains the keys in the graph's registration and the secrets declared in its
    schemas. If this process can't build the graph, only the keys in the registration are returned.
    """
    try:
        return get_graph(name).redact
    except UnknownGraphError:
        return ()
    except BrokenGraphError:
        return _entries[name].redact


def mask_values(name: str, values: Any) -> Any:
    """Return an input of a graph with the secret values replaced.

    If this process can't build the graph, the secret values aren't known. HIDDEN is then returned
    in place of the whole input.
    """
    try:
        return get_graph(name).mask(values)
    except (UnknownGraphError, BrokenGraphError):
        return HIDDEN


def describe_context(graph: Pregel) -> dict[str, Any] | None:
    """Return the JSON schema of a run's context, or None if the graph has no context schema.

    The graph's own ``get_context_jsonschema`` raises an error for a schema without fields, such as
    dict.
    """
    schema = graph.context_schema
    return None if schema is None else _build_schema(schema)


def _build_schema(schema: Any) -> dict[str, Any]:
    from hitl_django.engine.state.schema import build_json_schema

    return build_json_schema(schema)


def mask_context(name: str, context: Any) -> Any:
    """Return a context of a graph with the secret values replaced.

    If this process can't build the graph, the secret values aren't known. HIDDEN is then returned
    in place of the whole context.
    """
    try:
        return get_graph(name).mask_context(context)
    except (UnknownGraphError, BrokenGraphError):
        return HIDDEN


def list_versions(name: str) -> list[str]:
    """Return the registered versions of a graph, newest last."""
    return [entry.version for entry in sorted(_versions.get(name, ()), key=_get_age)]


def find_graph(name: str) -> RegisteredGraph | BrokenGraph:
    """Return a registered graph, or a BrokenGraph if the graph can't be built."""
    try:
        return get_graph(name)
    except BrokenGraphError as error:
        entry = _entries[name]
        return BrokenGraph(entry.name, entry.version, entry.title, entry.durability, error.reason)


def get_graph(name: str) -> RegisteredGraph:
    """Return the graph with this name. The graph is built on first use.

    Raises:
        UnknownGraphError: the graph isn't registered.
        BrokenGraphError: the graph's factory fails or has failed recently.
    """
    entry = _entries.get(name)
    if entry is None:
        raise UnknownGraphError(name, list_names())
    return _get_built(entry)


def get_graph_of_run(name: str, version: str, *, is_pinned: bool = False) -> RegisteredGraph:
    """Return the graph for a run that started with the graph version ``version``.

    A pinned run continues with this version, any other run with the newest version.

    Raises:
        UnknownVersionError: the run is pinned to a version that isn't registered.
        UnknownGraphError: the graph isn't registered.
        BrokenGraphError: the graph's factory fails or has failed recently.
    """
    for entry in _versions.get(name, ()):
        if entry.pin and entry.version == version:
            return _get_built(entry)
    if is_pinned and name in _entries:
        raise UnknownVersionError(name, version, list_versions(name))
    return get_graph(name)


def note_pin(registered: RegisteredGraph, options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the options of a new run, with the option PINNED if the graph is pinned.

    Return None if there are no options.
    """
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
            _refuse_if_failed(key)  # Another OS thread may have called the factory in the meantime.
            try:
                _built[key] = _build(entry)
            except Exception as error:  # The project's factory may raise any error.
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
    if not hasattr(graph, "get_input_jsonschema"):
        raise TypeError(f"The factory must return a graph, not {made!r}.")
    if (entry.renamed or entry.migrate_state) and not hasattr(graph, "with_renames"):
        raise TypeError(
            "renamed and migrate_state are not supported for graphs "
            "registered with register_langgraph."
        )
    if entry.renamed:
        graph = graph.with_renames(entry.renamed)
    # Imported here, because most processes of a project without graphs don't use the engine.
    from hitl_django.engine.graph.fingerprint import describe_structure, hash_structure

    structure = describe_structure(graph)
    secrets = _read_secrets(graph)
    return RegisteredGraph(
        entry.name,
        entry.version,
        entry.title,
        graph,
        structure,
        hash_structure(structure),
        entry.events,
        (*entry.redact, *list_secret_names(secrets)),
        entry.durability,
        entry.pin,
        entry.migrate_state,
        graph.spec.renames if hasattr(graph, "spec") else NO_RENAMES,
        secrets,
    )


def _read_secrets(graph: Pregel) -> dict[str, Any] | None:
    """Return one schema that declares all secrets of a graph's schemas, or None without secrets."""
    state = getattr(graph, "state_schema", None)
    schemas = [
        graph.get_input_jsonschema(),
        graph.get_output_jsonschema(),
        {} if state is None else _build_schema(state),
    ]
    # With separate ids, references are resolved within each schema.
    found = [{"$id": f"{at}", **one} for at, one in enumerate(schemas) if has_secrets(one)]
    return {"allOf": found} if found else None


def _check_version(version: Any) -> None:
    if not isinstance(version, str):
        raise TypeError(f'version must be a string such as "1", not {version!r}.')
    if len(version) > VERSION_LENGTH or not version.isprintable():
        raise ValueError(
            f"version must be at most {VERSION_LENGTH} printable characters, not {version!r}."
        )


def _locate(factory: Any) -> str:
    return f"{factory.__module__}.{getattr(factory, '__qualname__', factory)}"
