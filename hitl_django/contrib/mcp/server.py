"""The MCP server, and the tools it offers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal
from uuid import UUID

import anyio
from asgiref.sync import sync_to_async
from django.db import close_old_connections
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from hitl_django import services
from hitl_django.api import querysets
from hitl_django.api.serializers.interrupts import InterruptDetailSerializer, InterruptSerializer
from hitl_django.decision_types import DecisionName
from hitl_django.dialects import DIALECTS
from hitl_django.engine.errors import HitlError
from hitl_django.errors import InterruptNotFound
from hitl_django.management.start import describe_error
from hitl_django.models import Interrupt
from hitl_django.permissions import find_row
from hitl_django.services import UNSET

VIA = "mcp"
INSTRUCTIONS = {
    "ask": "Ask people for approvals and answers. A person may need hours: if a result has the "
    "status 'pending', call get_answer with its id later.",
    "review": "Show and decide the requests that wait for a person. Decide a request only on the "
    "explicit instruction of the user.",
}
#: Seconds between two looks at a pending request, each of which reports progress.
PROGRESS_SECONDS = 1.0
MAX_LISTED = 100
#: Fields of the API that need an HTTP request.
LINKS = ("url", "review_url")


def build_server(tools: Literal["ask", "review"], user: Any) -> MCPServer:
    """Return a server with AskTools or ReviewTools. They act with the permissions of ``user``."""
    server = MCPServer("hitl_django", instructions=INSTRUCTIONS[tools])
    for tool in (AskTools(user) if tools == "ask" else ReviewTools(user)).tools:
        server.add_tool(tool)
    return server


def _in_django(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a function that uses the database, outside of the event loop."""

    def call() -> Any:
        close_old_connections()
        try:
            return function(*args, **options)
        except (HitlError, TypeError, ValueError) as error:
            raise ToolError(describe_error(error)) from error

    return sync_to_async(call)()


class AskTools:
    """Tools with which an agent asks people."""

    def __init__(self, user: Any) -> None:
        self._user = user
        self.tools: list[Callable[..., Any]] = [
            self.request_approval,
            self.ask_human,
            self.get_answer,
            self.withdraw,
        ]

    async def request_approval(
        self,
        context: Context,
        action: str,
        arguments: dict[str, Any],
        reason: str = "",
        group: str | None = None,
        key: str | None = None,
        wait_seconds: float = 300,
    ) -> dict[str, Any]:
        """Ask a person to approve an action before you perform it.

        The person approves, rejects with a reason, or changes the arguments. Perform the action
        only if "decision" is "approve" or "edit", and with the returned "arguments". "reason" says
        why you want to perform the action. "group" is the name of the group that should decide. A
        repeated call with the same "key" returns the same request. If nobody decides within
        "wait_seconds", the status is "pending".
        """
        payload = {
            "action_requests": [{"name": action, "args": arguments, "description": reason}],
            "review_configs": [
                {"action_name": action, "allowed_decisions": ["approve", "edit", "reject"]}
            ],
        }
        return await self._ask(context, wait_seconds, payload, group=group, key=key)

    async def ask_human(
        self,
        context: Context,
        question: str,
        details: Any = None,
        response_schema: dict[str, Any] | None = None,
        group: str | None = None,
        key: str | None = None,
        wait_seconds: float = 300,
    ) -> dict[str, Any]:
        """Ask a person a question. "response" is the answer.

        "details" is any JSON value that the person needs to answer. "response_schema" is a JSON
        Schema of the answer; without it, the answer is any JSON value. "group" is the name of the
        group that should answer. A repeated call with the same "key" returns the same request. If
        nobody answers within "wait_seconds", the status is "pending".
        """
        return await self._ask(
            context,
            wait_seconds,
            {"question": question}
            if details is None
            else {"question": question, **_build_details(details)},
            response_schema=response_schema,
            title=question[:200],
            decisions=["respond", "reject"],
            group=group,
            key=key,
        )

    async def get_answer(
        self,
        context: Context,
        request_id: str,
        wait_seconds: float = 0,
    ) -> dict[str, Any]:
        """Return the state of an earlier request, and its decision and response if it has them."""
        return await self._wait(context, request_id, wait_seconds)

    async def withdraw(self, request_id: str, reason: str = "") -> None:
        """Withdraw a pending request that is not needed any more."""
        await _in_django(services.withdraw, request_id, by=self._user, via=VIA, reason=reason)

    async def _ask(
        self, context: Context, seconds: float, payload: Any, **options: Any
    ) -> dict[str, Any]:
        asked = await _in_django(services.ask, payload, by=self._user, via=VIA, **options)
        return await self._wait(context, str(asked.id), seconds)

    async def _wait(self, context: Context, request_id: str, seconds: float) -> dict[str, Any]:
        started = time.monotonic()
        while True:
            answer: dict[str, Any] = await _in_django(_read_answer, request_id, self._user)
            waited = time.monotonic() - started
            if answer["status"] != Interrupt.Status.PENDING or waited >= seconds:
                return answer
            await context.report_progress(waited, seconds, "Waiting for a decision.")
            await anyio.sleep(min(PROGRESS_SECONDS, seconds - waited))


class ReviewTools:
    """Tools with which an AI assistant shows and decides requests for a reviewer."""

    def __init__(self, user: Any) -> None:
        self._user = user
        self.tools: list[Callable[..., Any]] = [
            self.list_requests,
            self.get_request,
            self.decide_request,
        ]

    async def list_requests(self, limit: int = 20) -> list[dict[str, Any]]:
        """List the pending requests that the user can see, oldest first.

        "limit" is the maximum number of requests, at most 100.
        """
        return await _in_django(_list_pending, self._user, limit)

    async def get_request(self, request_id: str) -> dict[str, Any]:
        """Return a request with its payload, the schema of its response and its "digest"."""
        return await _in_django(_read_request, request_id, self._user)

    async def decide_request(
        self,
        request_id: str,
        digest: str,
        decision: DecisionName,
        value: Any = None,
        reason: str = "",
    ) -> dict[str, Any]:
        """Decide a request as the user.

        "decision" is one of the request's "allowed_decisions". "digest" is the digest that
        get_request returned: the decision fails if the request has changed since. "value" is the
        edited payload or the response, for the decisions "edit" and "respond".
        """
        decided = await _in_django(
            services.decide,
            request_id,
            decision,
            UNSET if value is None else value,
            by=self._user,
            via=VIA,
            reason=reason,
            digest=digest,
            ignore_claim=False,
        )
        return {"complete": decided.complete, "approvals": decided.approvals}


def _build_details(details: Any) -> dict[str, Any]:
    """Return the members of the payload other than ``question``.

    If ``details`` is a dict without the key ``question``, the dict is returned. Any other value
    becomes the member ``details``.
    """
    is_separate = isinstance(details, dict) and "question" not in details
    return details if is_separate else {"details": details}


def _read_answer(request_id: str, user: Any) -> dict[str, Any]:
    interrupt = _find(request_id, user)
    if not interrupt.is_settled:
        return {"id": str(interrupt.pk), "status": Interrupt.Status.PENDING.value}
    answer: dict[str, Any] = {"id": str(interrupt.pk), "status": interrupt.status}
    decision = interrupt.closing()
    if decision is None:
        return answer
    answer |= {"decision": decision.type, "reason": decision.reason, "by": decision.by_label}
    dialect = DIALECTS[interrupt.dialect]
    actions = dialect.actions(interrupt.payload)
    for action, taken in zip(actions, dialect.action_decisions(decision.value), strict=False):
        edited = taken.get("edited_action", {"name": action.name, "args": action.args})
        return answer | {"action": edited["name"], "arguments": edited["args"]}
    return answer | {"response": decision.value}


def _list_pending(user: Any, limit: int) -> list[dict[str, Any]]:
    rows = querysets.visible_interrupts(user).filter(status=Interrupt.Status.PENDING)
    found = rows.order_by("created_at")[: max(1, min(limit, MAX_LISTED))]
    return [_serialize(InterruptSerializer, row) for row in found]


def _read_request(request_id: str, user: Any) -> dict[str, Any]:
    return _serialize(InterruptDetailSerializer, _find(request_id, user))


def _find(request_id: str, user: Any) -> Interrupt:
    try:
        pk = UUID(request_id)
    except ValueError:
        raise InterruptNotFound from None
    rows = querysets.visible_interrupts(user).select_related("run")
    return find_row(rows, InterruptNotFound, pk=pk)


def _serialize(serializer_class: type[InterruptSerializer], row: Interrupt) -> dict[str, Any]:
    serializer = serializer_class()
    for name in LINKS:
        del serializer.fields[name]
    return dict(serializer.to_representation(row))
