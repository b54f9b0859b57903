"""Built-in assistants, one per registered graph, and assistants that clients have created."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import transaction
from django.db.models import Max, QuerySet

from hitl_django.api import querysets
from hitl_django.db.alias import write_alias
from hitl_django.db.clock import to_stored
from hitl_django.db.json_contains import JSONContains
from hitl_django.db.retry import retry_on_conflict
from hitl_django.errors import NotAllowedError, UnknownGraphError
from hitl_django.graph_registry import registry
from hitl_django.models.functions import Now
from hitl_django.permissions import find_row, get_policy, select_visible
from hitl_django.services import RunOptions

from .documents import build_assistant_id
from .errors import AssistantExistsError, AssistantVersionNotFound, BuiltInAssistantError
from .models import Assistant, AssistantContents, AssistantVersion
from .run_config import read_configurable

DEFAULT_ROWS, USUAL_NAME = 10, "Untitled"
#: Columns that a new version can change.
CONTENTS = ("graph", "name", "description", "config", "context", "metadata")
#: Columns by which assistants can be sorted.
COLUMNS = {
    "assistant_id": "pk",
    "graph_id": "graph",
    "name": "name",
    "created_at": "created_at",
    "updated_at": "updated_at",
}

Contents = TypeVar("Contents", bound=AssistantContents)


def find_assistant(user: Any, assistant_id: str) -> Assistant:
    """Return an assistant by its id. A built-in assistant is also found by the name of its graph.

    A built-in assistant is returned as an unsaved row. The permission to view its graph isn't
    checked.

    Raises:
        UnknownGraphError: if there is no such assistant, or if the assistant was created by a
            client and the user may not view it.
    """
    name = find_built_in(assistant_id)
    if name is not None:
        return make_built_in(name)
    absent = UnknownGraphError(assistant_id, registry.list_names())
    found = find_row(select_visible(_select_rows(), user), absent, pk=assistant_id)
    if not querysets.can_see_graph(user, found.graph):
        raise absent
    return found


def find_visible_assistant(user: Any, assistant_id: str) -> Assistant:
    """Return an assistant as ``find_assistant`` does, if the user may view its graph."""
    found = find_assistant(user, assistant_id)
    _refuse_unless_visible(user, found.graph)
    return found


def find_built_in(assistant_id: str) -> str | None:
    """Return the name of the graph of a built-in assistant, or None for any other id.

    ``assistant_id`` is the id of the assistant, or the name of its graph.
    """
    names = registry.list_names()
    return next((each for each in names if assistant_id in (each, build_assistant_id(each))), None)


def make_built_in(name: str) -> Assistant:
    """Return the built-in assistant of a graph.

    The version of the graph is in the metadata. The version of the assistant is always 1.
    """
    graph = registry.find_graph(name)
    # Graphs are registered in code, so they have no creation date.
    at = to_stored(datetime.fromtimestamp(0, UTC))
    return Assistant(
        id=UUID(build_assistant_id(name)),
        graph=name,
        name=str(graph.title),
        metadata={"created_by": "system", "graph_version": graph.version},
        created_at=at,
        updated_at=at,
    )


def count_assistants(user: Any, wanted: Mapping[str, Any]) -> int:
    return len(_list_built_in(user, wanted)) + _select_assistants(user, wanted).count()


def search_assistants(user: Any, wanted: Mapping[str, Any]) -> tuple[list[Assistant], int | None]:
    """Return a page of the assistants that match the filters, and the offset of the next page.

    By default, the newest assistants are first, and built-in assistants are last.
    """
    column = COLUMNS[wanted.get("sort_by", "created_at")]
    built_in = {each.pk: each for each in _list_built_in(user, wanted)}
    rows = _select_assistants(user, wanted)
    keys = [*rows.order_by("-pk").values_list("pk", column)]
    keys += [(pk, getattr(each, column)) for pk, each in built_in.items()]
    keys.sort(key=lambda key: _fold(key[1]), reverse=wanted.get("sort_order") != "asc")
    start, limit = wanted.get("offset", 0), wanted.get("limit", DEFAULT_ROWS)
    page = [pk for pk, _ in keys[start : start + limit]]
    found = rows.in_bulk(page) | built_in
    # A row may have been deleted since the first query.
    shown = [found[pk] for pk in page if pk in found]
    return shown, start + limit if start + limit < len(keys) else None


@retry_on_conflict
def create_assistant(user: Any, body: Mapping[str, Any]) -> Assistant:
    """Create an assistant, or return the existing assistant if the request allows it.

    Raises:
        NotAllowedError: if the user may not create assistants.
        UnknownGraphError: if the user may not view the graph.
        AssistantExistsError: if the id is already in use.
        InvalidInputError: if the config or the context isn't valid.
    """
    contents = {"name": USUAL_NAME, **_read_contents(body)}
    _refuse_unless_visible(user, contents["graph"])
    _refuse_unless_may(user, "add")
    _check_contents(contents)
    assistant_id = body.get("assistant_id")
    name = None if assistant_id is None else find_built_in(str(assistant_id))
    if name is None:
        key = {} if assistant_id is None else {"pk": assistant_id}
        with transaction.atomic(using=write_alias()):
            row, is_new = _insert(key, contents)
            if is_new:
                _select_versions().create(assistant=row, **contents)
        if is_new:
            row.refresh_from_db(write_alias())
            return row
    exists = AssistantExistsError(f"Assistant {assistant_id} already exists.")
    if body.get("if_exists") != "do_nothing":
        raise exists
    try:
        return find_visible_assistant(user, str(assistant_id))
    except UnknownGraphError:
        raise exists from None


@retry_on_conflict
def change_assistant(user: Any, assistant_id: str, body: Mapping[str, Any]) -> Assistant:
    """Add a version to an assistant.

    A value that the request doesn't contain is copied from the current version. The request's
    metadata is merged with the metadata of the current version.

    Raises:
        NotAllowedError: if the user may not change assistants.
        UnknownGraphError: if there is no such assistant or graph, or the user may not view it.
        BuiltInAssistantError: if the assistant is built in.
        InvalidInputError: if the config or the context isn't valid for the graph.
    """
    pk = _find_stored(user, assistant_id, "change").pk
    with transaction.atomic(using=write_alias()):
        row = _lock(pk, assistant_id)
        contents = _copy_contents(row)
        given = _read_contents(body)
        contents |= {**given, "metadata": {**row.metadata, **given.get("metadata", {})}}
        _refuse_unless_visible(user, contents["graph"])
        _check_contents(contents)
        versions = _select_versions().filter(assistant=row)
        contents["version"] = versions.aggregate(newest=Max("version"))["newest"] + 1
        versions.create(assistant=row, **contents)
        _select_rows().filter(pk=pk).update(**contents)
    row.refresh_from_db(write_alias())
    return row


@retry_on_conflict
def set_version(user: Any, assistant_id: str, version: int) -> Assistant:
    """Restore the contents of an earlier version, or of the newest version.

    Raises:
        NotAllowedError: if the user may not change assistants.
        UnknownGraphError: if there is no such assistant, or the user may not view it.
        BuiltInAssistantError: if the assistant is built in.
        AssistantVersionNotFound: if the assistant has no such version.
    """
    pk = _find_stored(user, assistant_id, "change").pk
    with transaction.atomic(using=write_alias()):
        row = _lock(pk, assistant_id)
        found = _select_versions().filter(assistant=row, version=version).first()
        if found is None:
            raise AssistantVersionNotFound(f"The assistant has no version {version}.")
        _refuse_unless_visible(user, found.graph)
        contents = _copy_contents(found)
        _select_rows().filter(pk=pk).update(**contents, version=version)
    row.refresh_from_db(write_alias())
    return row


@retry_on_conflict
def delete_assistant(user: Any, assistant_id: str) -> None:
    """Delete an assistant with its versions. Runs of the assistant continue.

    Raises:
        NotAllowedError: if the user may not delete assistants.
        UnknownGraphError: if there is no such assistant, or the user may not view it.
        BuiltInAssistantError: if the assistant is built in.
    """
    pk = _find_stored(user, assistant_id, "delete").pk
    with transaction.atomic(using=write_alias()):
        _lock(pk, assistant_id).delete(using=write_alias())


def list_versions(
    user: Any, assistant_id: str, wanted: Mapping[str, Any]
) -> list[AssistantVersion]:
    """Return the versions of an assistant that match the filter, newest first."""
    found = find_visible_assistant(user, assistant_id)
    start, limit = wanted.get("offset", 0), wanted.get("limit", DEFAULT_ROWS)
    if is_built_in(found):
        contents = _copy_contents(found)
        only = AssistantVersion(assistant_id=found.pk, created_at=found.created_at, **contents)
        return [only][start : start + limit] if _matches(found, wanted) else []
    versions = _filter(_select_versions().filter(assistant=found), wanted)
    return list(versions.order_by("-version")[start : start + limit])


def _select_rows() -> QuerySet[Assistant]:
    return Assistant.objects.using(write_alias())


def _select_versions() -> QuerySet[AssistantVersion]:
    return AssistantVersion.objects.using(write_alias())


def _select_assistants(user: Any, wanted: Mapping[str, Any]) -> QuerySet[Assistant]:
    rows = select_visible(_select_rows(), user)
    return _filter(rows.filter(graph__in=querysets.list_visible_graphs(user)), wanted)


def _filter(rows: QuerySet[Contents], wanted: Mapping[str, Any]) -> QuerySet[Contents]:
    if "graph_id" in wanted:
        rows = rows.filter(graph=wanted["graph_id"])
    if "name" in wanted:
        rows = rows.filter(name__icontains=wanted["name"])
    if wanted.get("metadata"):
        rows = rows.filter(JSONContains("metadata", wanted["metadata"]))
    return rows


def _list_built_in(user: Any, wanted: Mapping[str, Any]) -> list[Assistant]:
    every = map(make_built_in, querysets.list_visible_graphs(user))
    return [each for each in every if _matches(each, wanted)]


def _matches(assistant: Assistant, wanted: Mapping[str, Any]) -> bool:
    return (
        wanted.get("graph_id", assistant.graph) == assistant.graph
        and wanted.get("name", "").casefold() in assistant.name.casefold()
        and wanted.get("metadata", {}).items() <= assistant.metadata.items()
    )


def _fold(key: Any) -> Any:
    return key.casefold() if isinstance(key, str) else key


def is_built_in(assistant: Assistant) -> bool:
    return str(assistant.pk) == build_assistant_id(assistant.graph)


def _insert(key: Mapping[str, Any], contents: Mapping[str, Any]) -> tuple[Assistant, bool]:
    if not key:
        return _select_rows().create(**contents), True
    return _select_rows().get_or_create(**key, defaults=contents)


def _read_contents(body: Mapping[str, Any]) -> dict[str, Any]:
    return {column: body[column] for column in CONTENTS if column in body}


def _copy_contents(row: AssistantContents) -> dict[str, Any]:
    return {column: getattr(row, column) for column in CONTENTS}


def _check_contents(contents: Mapping[str, Any]) -> None:
    """Check the config, context and metadata of an assistant.

    The context may be partial, because a run may add members.
    """
    registered = registry.get_graph(contents["graph"])
    config = contents.get("config", {})
    names = ("tags", "recursion_limit", "metadata")
    options = {name: config[name] for name in names if name in config}
    RunOptions(**options, configurable=read_configurable(config)).check(registered)
    RunOptions(metadata=contents.get("metadata")).check(registered)
    if contents.get("context"):
        registered.graph.encode_context(contents["context"], is_partial=True)


def _find_stored(user: Any, assistant_id: str, verb: str) -> Assistant:
    """Return an assistant that isn't built in, after checking the user's permission.

    ``verb`` is the verb of the permission: ``change`` or ``delete``.
    """
    found = find_visible_assistant(user, assistant_id)
    if is_built_in(found):
        raise BuiltInAssistantError
    _refuse_unless_may(user, verb)
    return found


def _lock(pk: UUID, assistant_id: str) -> Assistant:
    """Lock an assistant's row in the caller's transaction, and return the row.

    ``updated_at`` is set to the current time. ``assistant_id`` is the id that the error names.

    Raises:
        UnknownGraphError: if the row was deleted.
    """
    # No row matches if another request has deleted the assistant.
    if not _select_rows().filter(pk=pk).update(updated_at=Now()):
        raise UnknownGraphError(assistant_id, ())
    return _select_rows().get(pk=pk)


def _refuse_unless_visible(user: Any, graph: str) -> None:
    if not querysets.can_see_graph(user, graph):
        raise UnknownGraphError(graph, ())


def _refuse_unless_may(user: Any, verb: str) -> None:
    if not get_policy().has_permission(user, f"hitl_langgraph_api.{verb}_assistant"):
        raise NotAllowedError(f"You don't have permission to {verb} assistants.")
