"""Views of a thread's states: current state, state at a checkpoint, history, and updates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import services
from hitl_django.api import querysets
from hitl_django.api.invalid_params import InvalidParam
from hitl_django.api.operations import operation
from hitl_django.api.problems import InvalidRequest
from hitl_django.models import Run
from hitl_django.permissions import get_policy
from hitl_django.services import StateInfo

from .bodies import AgentStateQuery, HistoryBody, HistoryQuery, StateAtBody, StateChangeBody
from .documents import build_checkpoint, build_state, select_keys
from .resource import AgentResource
from .threads import MAX_BYTES, VIA

DEFAULT_STATES = 10
#: Maximum number of states that are compared with a filter, and number of states that are read
#: together.
MAX_COMPARED, STATES_READ = 200, 20


def read_state(
    request: Request,
    thread_id: str,
    *,
    checkpoint: dict[str, Any] | None = None,
    subgraphs: bool = False,
) -> dict[str, Any]:
    """Return the current state of a thread, or its state at a checkpoint.

    Parts that the user may not view are omitted.
    """
    place = checkpoint or {}
    found = services.thread_state(
        thread_id,
        checkpoint_id=place.get("checkpoint_id"),
        namespace=place.get("checkpoint_ns") or "",
        subgraphs=subgraphs,
        by=request.user,
    )
    if found is None:
        raise Http404
    return build_state(found, shows_errors=sees_errors(request.user, thread_id))


def sees_errors(user: Any, thread_id: str) -> bool:
    """Return whether the user may view the errors of a thread's tasks."""
    runs = querysets.visible_runs(user).filter(thread__thread_id=thread_id)
    run = Run.select_newest(runs).first()
    return run is not None and get_policy().may_operate(user, run)


class ThreadStateNow(AgentResource):
    """View of the current state of a thread."""

    input_pointer = "/values"
    lists = frozenset({"select"})

    @operation("get_thread_state", query=AgentStateQuery, responses={})
    def get(self, request: Request, thread_id: str, checkpoint_id: str = "") -> Response:
        query = self.read_query()
        found = read_state(
            request,
            thread_id,
            checkpoint={"checkpoint_id": checkpoint_id or None},
            subgraphs=query.get("subgraphs", False),
        )
        return Response(select_keys(found, self.read_list("select")))

    @operation("update_thread_state", body=StateChangeBody, responses={}, throttle="THROTTLE_START")
    def post(self, request: Request, thread_id: str) -> Response:
        body = self.read_body()
        place = body.get("checkpoint", {})
        if place.get("checkpoint_ns"):
            detail = "State updates apply to the top-level graph, not to subgraphs."
            raise InvalidRequest(
                InvalidParam("invalid", detail, pointer="/checkpoint/checkpoint_ns")
            )
        made = services.update_state(
            thread_id,
            body.get("values"),
            as_node=body.get("as_node"),
            checkpoint_id=place.get("checkpoint_id") or body.get("checkpoint_id"),
            by=request.user,
            via=VIA,
        )
        # Older clients read `checkpoint_id` instead of `checkpoint`.
        checkpoint = build_checkpoint(thread_id, "", made)
        return Response({"checkpoint": checkpoint, "checkpoint_id": made})


class ThreadStateAt(AgentResource):
    """View of the state of a thread or subgraph at a checkpoint."""

    @operation("get_thread_state_at", body=StateAtBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request, thread_id: str) -> Response:
        body = self.read_body()
        found = read_state(
            request,
            thread_id,
            checkpoint=body["checkpoint"],
            subgraphs=body.get("subgraphs", False),
        )
        return Response(select_keys(found, body.get("select", [])))


class AgentThreadHistory(AgentResource):
    """View of the states of a thread, newest first."""

    lists = frozenset({"select"})

    @operation("get_thread_history", query=HistoryQuery, responses={})
    def get(self, request: Request, thread_id: str) -> Response:
        return self._show(thread_id, self.read_query(), self.read_list("select"))

    @operation("search_thread_history", body=HistoryBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request, thread_id: str) -> Response:
        body = self.read_body()
        return self._show(thread_id, body, body.get("select", []))

    def _show(self, thread_id: str, wanted: dict[str, Any], select: list[str]) -> Response:
        states = islice(self._find(thread_id, wanted), wanted.get("limit", DEFAULT_STATES))
        shows_errors = sees_errors(self.request.user, thread_id)
        return Response(
            [select_keys(build_state(each, shows_errors=shows_errors), select) for each in states]
        )

    def _find(self, thread_id: str, wanted: dict[str, Any]) -> Iterator[StateInfo]:
        """Yield the states that match the filter.

        The number of compared states and their size (``MAX_BYTES``) are limited.
        """
        before, left = _read_checkpoint_id(wanted.get("before")), MAX_BYTES
        metadata = (wanted.get("metadata") or {}).items()
        for start in range(0, MAX_COMPARED, STATES_READ):
            page = services.state_history(
                thread_id,
                namespace=wanted.get("checkpoint", {}).get("checkpoint_ns") or "",
                before=before,
                limit=min(STATES_READ, MAX_COMPARED - start),
                by=self.request.user,
            )
            for state in page:
                if all(state.metadata.get(name) == value for name, value in metadata):
                    yield state
                left -= len(json.dumps(state.values))
                if left <= 0:
                    return
            if len(page) < STATES_READ:
                return
            before = page[-1].checkpoint_id


def _read_checkpoint_id(before: Any) -> str | None:
    """Return the checkpoint id in ``before``, or None if there is none.

    Clients send the id itself, a checkpoint, or a config.
    """
    if isinstance(before, dict):
        before = before.get("configurable", before)
        before = before.get("checkpoint_id") if isinstance(before, dict) else None
        if before is None:
            return None
    if before is None or isinstance(before, str):
        return before
    detail = "Must be a checkpoint or a checkpoint id."
    raise InvalidRequest(InvalidParam("invalid", detail, pointer="/before"))
