"""Views of threads: list, detail, state, history, fork and erasure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from hitl_django import errors, services
from hitl_django.db.alias import write_alias
from hitl_django.errors import CheckpointNotFound
from hitl_django.models import Checkpoint, Thread

from .. import querysets
from ..filters import CheckpointFilterSet, ThreadFilterSet
from ..operations import LOCATION, ResponseSpec, operation
from ..serializers.runs import RunInfoSerializer
from ..serializers.threads import (
    AuditEntrySerializer,
    AuditQuery,
    CheckpointSerializer,
    ErasedThreadsSerializer,
    ForkBody,
    StateQuery,
    StateSerializer,
    ThreadChange,
    ThreadDetailSerializer,
    ThreadSerializer,
)
from .base import Collection, Resource


def find_threads(user: Any, rows: Sequence[Any]) -> Iterator[tuple[str, Thread]]:
    """Yield the threads to which ``rows`` belong, as pairs of thread id and thread.

    ``rows`` are interrupts or runs. Threads that the user can't view are left out.
    """
    found = querysets.select_with_last_run(user).filter(pk__in={row.thread_id for row in rows})
    return ((thread.thread_id, thread) for thread in found.defer("metadata"))


class ThreadList(Collection):
    """View of the list of threads."""

    serializer_class = ThreadSerializer
    filterset_class = ThreadFilterSet

    def get_queryset(self) -> QuerySet[Thread]:
        # Ids ascend with the creation time. Sorting by id needs no additional index.
        return querysets.select_with_last_run(self.request.user).defer("metadata").order_by("-pk")

    @operation(
        "list_threads",
        responses={200: ResponseSpec("A page of threads.", ThreadSerializer, paged=True)},
    )
    def get(self, request: Request) -> Response:
        """List the threads that you can view, newest first."""
        return self.render_page()


class ThreadDetail(Resource):
    """View of one thread."""

    input_pointer = "/metadata"

    @operation("get_thread", responses={200: ResponseSpec("The thread.", ThreadDetailSerializer)})
    def get(self, request: Request, thread_id: str) -> Response:
        """Retrieve a thread with its last run."""
        found = self.find(querysets.select_with_last_run, thread_id=thread_id)
        return Response(self.render(ThreadDetailSerializer, found))

    @operation(
        "change_thread",
        body=ThreadChange,
        responses={200: ResponseSpec("The updated thread.", ThreadDetailSerializer)},
        errors=(errors.InvalidInputError, errors.UnserializableError, errors.LeaseTakenError),
        example={"metadata": {"channel": "mail"}},
    )
    def patch(self, request: Request, thread_id: str) -> Response:
        """Add or replace keys of a thread's metadata.

        Metadata keys that the request body doesn't contain are not changed. You must have started
        the thread's newest run, or have permission to operate this run. If the thread has no runs,
        you need permission to start its graph.
        """
        metadata = self.read_body()["metadata"]
        services.change_metadata(thread_id, metadata, by=request.user, via="api")
        found = self.find(querysets.select_with_last_run, thread_id=thread_id)
        return Response(self.render(ThreadDetailSerializer, found))

    @operation(
        "erase_thread",
        responses={200: ResponseSpec("The erased threads.", ErasedThreadsSerializer)},
        errors=(errors.ThreadNotFound, errors.RunStateError, errors.LeaseTakenError),
    )
    def delete(self, request: Request, thread_id: str) -> Response:
        """Erase the contents of a thread and of its copies.

        All runs of the thread and of its copies must have ended. The state, history, interrupts,
        responses, reasons, errors, metadata and the reference to the related object are erased.
        Runs, decisions and the audit log remain, with their users, times and digests. Copies of the
        thread, and copies of these copies, are also erased. If one of these threads can't be
        erased, no thread is erased.
        """
        self.find(querysets.visible_threads, thread_id=thread_id)
        erased = services.erase_thread(thread_id, by=request.user, via="api")
        return Response(self.render(ErasedThreadsSerializer, {"erased": erased}))


class ThreadState(Resource):
    """The values of a thread's channels."""

    @operation(
        "get_thread_state",
        query=StateQuery,
        responses={200: ResponseSpec("The state.", StateSerializer)},
        errors=(errors.ThreadNotFound, errors.UnknownGraphError, errors.BrokenGraphError),
    )
    def get(self, request: Request, thread_id: str) -> Response:
        """Retrieve the values of a thread's channels, now or at one of its checkpoints."""
        at = self.read_query().get("checkpoint")
        found = services.thread_state(thread_id, checkpoint_id=at, by=request.user)
        if found is None:
            raise Http404
        return Response(self.render(StateSerializer, found))


class ThreadHistory(Collection):
    """The checkpoints of a thread without their values.

    The values are available at ``state/?checkpoint=…``.
    """

    serializer_class = CheckpointSerializer
    filterset_class = CheckpointFilterSet

    def get_queryset(self) -> QuerySet[Checkpoint]:
        thread = self.find(querysets.visible_threads, thread_id=self.kwargs["thread_id"])
        rows = Checkpoint.objects.using(write_alias()).filter(thread=thread, ns="")
        return rows.defer("data", "metadata").order_by("-checkpoint_id")

    @operation(
        "list_checkpoints",
        responses={200: ResponseSpec("A page of checkpoints.", CheckpointSerializer, paged=True)},
    )
    def get(self, request: Request, thread_id: str) -> Response:
        """List the checkpoints of a thread, newest first."""
        return self.render_page()


class ThreadAuditLog(Resource):
    """The audit log of a thread, with the hashes of its entries."""

    @operation(
        "list_audit_entries",
        query=AuditQuery,
        responses={200: ResponseSpec("Entries, in order.", AuditEntrySerializer, paged=True)},
        errors=(errors.ThreadNotFound,),
    )
    def get(self, request: Request, thread_id: str) -> Response:
        """List the audit log of a thread from its first entry, with the hashes.

        The audit log contains names of people. To read the audit log, you need the permissions to
        export decisions and to view statistics of reviewers. Each entry's `hash` covers the entry's
        text and the previous hash, so the last hash proves that no entry was changed, removed or
        inserted.
        """
        query = self.read_query()
        limit = query.get("limit", services.RECORD_PAGE)
        # Read one entry more than shown to find out whether there is another page.
        found = services.list_audit_entries(
            thread_id, after=query.get("after", 0), limit=limit + 1, by=request.user
        )
        shown, following = found[:limit], None
        if len(found) > limit:
            address = request.build_absolute_uri()
            following = replace_query_param(address, "after", str(shown[-1].seq))
        results = self.render(AuditEntrySerializer, shown, many=True)
        return Response({"next": following, "previous": None, "results": results})


class ThreadFork(Resource):
    """The fork of a thread from an earlier checkpoint."""

    input_pointer = "/values"

    @operation(
        "fork_thread",
        body=ForkBody,
        responses={202: ResponseSpec("A run is queued.", RunInfoSerializer, headers=(LOCATION,))},
        errors=(
            errors.ThreadNotFound,
            CheckpointNotFound,
            errors.UnknownGraphError,
            errors.BrokenGraphError,
            errors.InvalidInputError,
            errors.InvalidUpdateError,
            errors.UnserializableError,
            errors.GraphChangedError,
            errors.RunStateError,
            errors.LeaseTakenError,
        ),
        throttle="THROTTLE_START",
        keyed=True,
        example={
            "checkpoint": "1f0b6f3c-6d0e-6c5e-8001-7d0a3a2f1c55",
            "values": {"amount": 5000},
            "as_node": "review",
        },
    )
    def post(self, request: Request, thread_id: str) -> Response:
        """Fork a thread from an earlier checkpoint, with or without changed values.

        Checkpoints after the forked checkpoint stay in the history. If the thread's newest run
        hasn't ended, the run is cancelled, and its pending interrupts are superseded.
        """
        wanted = self.read_body()
        at = wanted.pop("checkpoint")
        return self.run_idempotent(
            lambda: services.fork(thread_id, at, by=request.user, via="api", **wanted),
            self.find_run,
            lambda run: self.render_made(RunInfoSerializer, run),
        )
