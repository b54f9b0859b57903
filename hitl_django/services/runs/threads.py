"""Services that create threads without runs, copy threads, and change metadata of threads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import IntegrityError, transaction

from hitl_django import audit, leases
from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.engine.constants import END
from hitl_django.engine.errors import InvalidInputError, PayloadLimitError
from hitl_django.engine.ids import new_id
from hitl_django.engine.payload import check_json
from hitl_django.errors import NoSuchThread, NotAllowedError, ThreadExistsError
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Checkpoint, Run, Thread
from hitl_django.models.functions import Now
from hitl_django.permissions import (
    find_row,
    get_policy,
    may_start,
    refuse_unless_may,
)

from .. import denied_log
from .archives import is_archived, restore_archived
from .state import (
    find_graph_of_thread,
    find_thread,
    refuse_unless_may_view_state,
    refuse_unless_visible,
)

NAME_LENGTH, METADATA_BYTES = 255, 16 * 1024
#: Verb of the entry in the audit log of a copied thread. Key in the copy's own entry that lists the
#: original threads.
COPIED, ORIGINALS = "thread_copied", "originals"


class CreatedThread(NamedTuple):
    """The id of a thread, and whether this call created the thread."""

    thread_id: str
    created: bool


@retry_on_conflict
def create_thread(
    thread_id: str | None = None,
    *,
    graph: str = "",
    metadata: dict[str, Any] | None = None,
    if_exists: str = "refuse",
    by: Any = None,
    via: str = "code",
) -> CreatedThread:
    """Create a thread without runs.

    The thread belongs to ``graph``. Without ``graph``, it will belong to the graph of its first
    run.

    Raises:
        NotAllowedError: if the user may not start ``graph``. Without ``graph``, if there is no
            graph that the user may start. Also if the id is already in use, and the user may see a
            run of the thread, but not the thread.
        ThreadExistsError: if the id is already in use. With ``if_exists="keep"``, the existing
            thread is returned instead.
        NoSuchThread: if the id is already in use, and the user may see neither the thread nor any
            of its runs.
        UnknownGraphError: if the graph isn't registered.
    """
    if if_exists not in ("refuse", "keep"):
        raise ValueError(f"if_exists must be 'refuse' or 'keep', not {if_exists!r}.")
    with denied_log.record_denial("create_thread", by=by, via=via):
        _refuse_unless_may_start(graph, by, via)
    if graph:
        registry.get_graph(graph)
    check_names(thread_id=thread_id)
    check_metadata(metadata)
    thread_id = thread_id or str(new_id())
    about = {"graph": graph, "metadata": metadata or {}, "ended_at": Now()}
    rows = Thread.objects.using(write_alias())
    try:
        with transaction.atomic(using=write_alias()):
            if is_archived(thread_id):
                raise IntegrityError
            thread = rows.create(thread_id=thread_id, **about)
            thread = leases.lock_thread(pk=thread.pk)
            audit.append_alone(
                thread, "create_thread", by=by, via=via, subject=thread_id, detail={"graph": graph}
            )
    except IntegrityError:
        restore_archived(thread_id=thread_id)
        with denied_log.record_denial("create_thread", by=by, via=via):
            refuse_unless_visible(find_row(rows, NoSuchThread, thread_id=thread_id), by)
        if if_exists != "keep":
            raise ThreadExistsError(f"Thread {thread_id!r} already exists.") from None
        return CreatedThread(thread_id, created=False)
    return CreatedThread(thread_id, created=True)


@retry_on_conflict
def copy_thread(thread_id: str, *, by: Any = None, via: str = "code") -> CreatedThread:
    """Copy a thread's history to a new thread.

    The new thread has no runs and no pending interrupts. The audit log of the source names the
    copy, and so do the audit logs of the threads from which the source was copied. ``erase_thread``
    also erases copies.

    Raises:
        NotAllowedError: if the user may not view the thread's state, or may not start its graph.
    """
    with denied_log.record_denial("copy_thread", by=by, via=via):
        source = find_thread(thread_id, by)
        refuse_unless_may_view_state(by, source)
        _refuse_unless_may_start(source.graph, by, via)
    using, copy_id = write_alias(), str(new_id())
    with transaction.atomic(using=using):
        originals = _lock_originals(source)
        source = originals[-1]
        copy = Thread.objects.using(using).create(
            thread_id=copy_id, graph=source.graph, metadata=source.metadata, ended_at=Now()
        )
        if Checkpoint.objects.using(using).filter(thread=source).exists():
            DjangoSaver().copy_thread(thread_id, copy_id)
            _clear_pending_tasks(copy)
        copy = leases.lock_thread(pk=copy.pk)
        detail = {"from": thread_id, ORIGINALS: [each.thread_id for each in originals]}
        audit.append_alone(copy, "copy_thread", by=by, via=via, subject=copy_id, detail=detail)
        for original in originals:
            audit.append_alone(
                original, COPIED, by=by, via=via, subject=copy_id, detail={"from": thread_id}
            )
    return CreatedThread(copy_id, created=True)


def _lock_originals(source: Thread) -> list[Thread]:
    """Lock a thread and the threads from which it was copied.

    Returns the locked threads, the original first and the given thread last. The audit log of each
    of these threads names the new copy, because any of these threads can be deleted with its audit
    log.
    """
    entries = AuditEntry.objects.using(write_alias()).filter(thread=source, verb="copy_thread")
    first = entries.order_by("seq").first()
    found = []
    for thread_id in [] if first is None else first.detail.get(ORIGINALS, ()):
        restore_archived(thread_id=thread_id)
        row = Thread.objects.using(write_alias()).filter(thread_id=thread_id).first()
        if row is not None:
            found.append(leases.lock_thread(pk=row.pk))
    return [*found, leases.lock_thread(pk=source.pk)]


def list_copies(thread: Thread) -> list[str]:
    """Return the ids of the thread's copies according to its audit log, oldest first."""
    entries = AuditEntry.objects.using(write_alias()).filter(thread=thread, verb=COPIED)
    return list(entries.order_by("seq").values_list("subject", flat=True))


def _clear_pending_tasks(copy: Thread) -> None:
    """Clear the pending tasks of a copy's newest checkpoint, because no run continues them."""
    graph = find_graph_of_thread(copy).graph.with_saver(DjangoSaver())
    place: Any = {"configurable": {"thread_id": copy.thread_id, "checkpoint_ns": ""}}
    if graph.get_state(place).next:
        graph.update_state(place, None, END)


@retry_on_conflict
def change_metadata(
    thread_id: str, metadata: dict[str, Any], *, by: Any = None, via: str = "code"
) -> None:
    """Merge keys into the metadata of a thread.

    Raises:
        NotAllowedError: if the user neither started the thread's newest run nor may operate it. For
            a thread without runs, the user needs the permission to start its graph.
    """
    check_metadata(metadata)
    with denied_log.record_denial("change_metadata", by=by, via=via):
        found = find_thread(thread_id, by)
        run = Run.select_newest(Run.objects.using(write_alias()).filter(thread=found)).first()
        if run is None:
            _refuse_unless_may_start(found.graph, by, via)
        elif by is not None and run.started_by_id != by.pk:
            message = "You don't have permission to change this thread's metadata."
            refuse_unless_may(by, get_policy().may_operate, run, message)
    with transaction.atomic(using=write_alias()):
        thread = leases.lock_thread(pk=found.pk)
        changed = {**thread.metadata, **metadata}
        check_metadata(changed)
        Thread.objects.using(write_alias()).filter(pk=thread.pk).update(metadata=changed)
        # Omit the values, because the audit log can't be erased.
        detail = {"keys": sorted(metadata)}
        audit.append_alone(
            thread, "change_metadata", by=by, via=via, subject=thread_id, detail=detail
        )


def check_metadata(metadata: dict[str, Any] | None) -> None:
    """Raise an error if a thread's metadata can't be stored.

    Raises:
        InvalidInputError: the metadata is neither a dict nor None.
        UnserializableError: the metadata contains a value that isn't JSON.
        PayloadLimitError: the metadata is too large or nested too deeply.
    """
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        raise InvalidInputError("The metadata must be a dict.", [("metadata", "must be a dict")])
    check_json(metadata, "The metadata")
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    if size > METADATA_BYTES:  # Lists contain the metadata of many threads, so the size is limited.
        raise PayloadLimitError(
            f"The metadata is larger than {METADATA_BYTES} bytes.", limit=METADATA_BYTES, found=size
        )


def check_names(**names: object) -> None:
    """Raise InvalidInputError if an argument is empty, too long, not printable, or not a string.

    None is allowed. The error contains the keyword of the invalid argument.
    """
    for what, name in names.items():
        if name is None:
            continue
        if not isinstance(name, str):
            reason = f"must be a string, not {type(name).__name__}"
        elif not 1 <= len(name) <= NAME_LENGTH:
            reason = f"must be 1 to {NAME_LENGTH} characters"
        elif not name.isprintable():
            reason = "contains an unprintable character"
        else:
            continue
        raise InvalidInputError(f"The {what} {reason}.", [(what, reason)])


def _refuse_unless_may_start(graph: str, by: Any, via: str) -> None:
    graphs: Iterable[str] = [graph] if graph else registry.list_names()
    if by is not None and not any(may_start(by, name, via) for name in graphs):
        raise NotAllowedError(
            "You don't have permission to start runs, so you can't create a thread."
        )
