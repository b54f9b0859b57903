"""Creation and withdrawal of interrupts that need no graph of your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Model

from hitl_django import run_leases
from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.engine.errors import GraphDefinitionError, InvalidInputError
from hitl_django.engine.payload import check_json, check_payload, list_formats
from hitl_django.engine.state.response_schemas import make_response_schema
from hitl_django.engine.state.schema import coerce
from hitl_django.engine.types import Expiry
from hitl_django.errors import InterruptNotFound, NotAllowedError
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.ask_graph import ASK_GRAPH
from hitl_django.json_text import json_schema
from hitl_django.json_text.json_pointer import parse_pointer
from hitl_django.models import Interrupt
from hitl_django.permissions import get_policy, refuse_unless_may
from hitl_django.review_options import ReviewOptions
from hitl_django.run_leases import RunFence

from .. import denied_log
from ..results import RunInfo
from ..runs.operate import cancel
from ..runs.start import start
from ..runs.state import run_result
from ..runs.subjects import SubjectRef, read_subject
from ..runs.wait import wait_until_ended
from . import lookup
from .assign import refuse_unless_may_decide

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskInfo(Generic[AnswerT]):
    """An interrupt of ``ask()``.

    ``id`` is the id of the interrupt. ``created`` is False if an earlier call with the same
    idempotency key created the interrupt.
    """

    id: UUID
    run_id: UUID
    thread_id: str
    created: bool
    #: The argument ``response_schema`` of ``ask()``, to which responses are converted.
    schema: Any = field(repr=False)

    def result(self) -> AnswerT:
        """Return the resume value of the decision, as ``review()`` would return it in a node.

        If ``response_schema`` was a type, the result is an instance of the type.

        Raises:
            RunStateError: if no decision has resumed the run, or the interrupt was withdrawn.
            pydantic.ValidationError: if the value fits the JSON schema, but not the type.
        """
        answer: AnswerT = run_result(self.run_id)["response"]
        if self.schema is None or isinstance(self.schema, dict):
            return answer
        return coerce(self.schema, answer)

    def wait(self, timeout: float) -> AnswerT:
        """Wait at most ``timeout`` seconds for a decision, and return ``result()``.

        Raises:
            RunTimeoutError: after the timeout. The interrupt stays pending.
            RunStateError: if the interrupt was withdrawn, or expired without a response.
            RuntimeError: if called inside a transaction, because a worker sees only committed runs.
        """
        wait_until_ended(self.run_id, timeout)
        return self.result()


class _Options(TypedDict, total=False):
    title: str | None
    why: str
    decisions: Sequence[str] | None
    editable: Sequence[str] | None
    group: Group | str | None
    assignee: Any
    due: timedelta | datetime | None
    expires: Expiry | timedelta | None
    priority: int | None
    quorum: int | None
    no_self_approval: bool | None
    claim_required: bool | None
    dialect: str | None
    key: str | None
    subject: Model | SubjectRef | None
    metadata: dict[str, Any] | None
    by: Any
    via: str
    skip_permission_checks: bool


@overload
def ask(
    payload: Any, *, response_schema: type[AnswerT], **options: Unpack[_Options]
) -> AskInfo[AnswerT]: ...


@overload
def ask(
    payload: Any, *, response_schema: Any = None, **options: Unpack[_Options]
) -> AskInfo[Any]: ...


@retry_on_conflict
def ask(
    payload: Any,
    *,
    response_schema: Any = None,
    group: Group | str | None = None,
    assignee: Any = None,
    expires: Expiry | timedelta | None = None,
    key: str | None = None,
    subject: Model | SubjectRef | None = None,
    metadata: dict[str, Any] | None = None,
    by: Any = None,
    via: str = "code",
    skip_permission_checks: bool = False,
    **options: Any,
) -> AskInfo[Any]:
    """Ask a person, without a graph of your own. The interrupt is pending when the call returns.

    The interrupt belongs to a run of the built-in graph ``hitl_django.ask``. After the decision, a
    worker finishes this run. The call stores the run and the interrupt in one transaction.

    Args:
        payload: the content shown to the reviewer, a JSON value.
        response_schema: a JSON Schema, or a type, for the response.
        group: the group to which the interrupt is assigned, or the group's name.
        assignee: the user to whom the interrupt is assigned, or the username.
        expires: the time limit, as for ``review()``.
        key: idempotency key. A call with the same key and arguments returns the existing interrupt,
            with ``created`` set to False.
        subject: the related object of the thread, as for ``start()``.
        metadata: metadata of the thread, as for ``start()``.
        options: the other options of ``review()``: ``title``, ``why``, ``decisions``, ``editable``,
            ``due``, ``priority``, ``quorum``, ``no_self_approval``, ``claim_required`` and
            ``dialect``.
        skip_permission_checks: as for ``start()``.

    Raises:
        NotAllowedError: if ``by`` may not ask.
        InvalidInputError: if the response schema can't be applied, the group or the assignee
            doesn't exist, or the assignee may not decide the interrupt.
        UnserializableError: if the payload isn't JSON. The error contains the path.
        PayloadLimitError: if the payload is nested too deeply.
        IdempotencyKeyReusedError: if the key was used with other arguments.
        ValueError: if an option has an invalid value.
        TypeError: if an option has an invalid type, or is unknown.
    """
    checked_user = None if skip_permission_checks else by
    with denied_log.record_denial("ask", by=by, via=via):
        if checked_user is not None and not get_policy().may_ask(checked_user):
            raise NotAllowedError("You don't have permission to ask.")
    schema = None if response_schema is None else _describe(response_schema)
    expiry = expires if expires is None or isinstance(expires, Expiry) else Expiry(expires)
    if expiry is not None and expiry.then == "answer":
        _check_expiry_answer(expiry.answer, schema)
    named: dict[str, Any] = {
        "group": group.name if isinstance(group, Group) else group,
        "assignee": assignee.get_username() if isinstance(assignee, AbstractBaseUser) else assignee,
    }
    ReviewOptions(**named, **options)
    given = {name: value for name, value in (named | options).items() if value is not None}
    checked = check_payload(payload)
    value = {
        # The node converts the values and stores their formats.
        "payload": payload if list_formats(payload) else checked,
        "response_schema": schema,
        "options": given if expiry is None else {**given, "expires": expiry},
    }
    subject = read_subject(subject, checked_user)
    with transaction.atomic(using=write_alias()):
        run = start(
            ASK_GRAPH, value, by=by, via=via, key=key, subject=subject, metadata=metadata,
            skip_permission_checks=True,
        )  # fmt: skip
        if run.created:
            _raise_interrupt(run)
        rows = Interrupt.objects.using(write_alias()).filter(run=run.id)
        interrupt = rows.order_by("created_at", "pk").first()
        if interrupt is None:
            raise InterruptNotFound
        if run.created:
            _refuse_unless_assigned(interrupt, named)
    return AskInfo(
        id=interrupt.pk,
        run_id=run.id,
        thread_id=run.thread_id,
        created=run.created,
        schema=response_schema,
    )


@retry_on_conflict
def withdraw(
    interrupt_id: UUID | str, *, by: Any = None, via: str = "code", reason: str = ""
) -> None:
    """Withdraw a pending interrupt, cancel its run, and withdraw the run's other interrupts.

    The audit log contains ``reason``. If the interrupt is already withdrawn, nothing happens.

    Raises:
        InterruptNotFound: if the interrupt doesn't exist or the user may not see it.
        NotAllowedError: if the user may not withdraw the interrupt.
        AlreadyDecidedError: if the interrupt was closed in another way.
    """
    refusal = denied_log.record_denial("cancel", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        _, interrupt = lookup.lock(interrupt_id, by)
        message = "You don't have permission to withdraw this interrupt."
        refuse_unless_may(by, get_policy().may_withdraw, interrupt, message)
        if interrupt.status == Interrupt.Status.CANCELLED:
            return
        lookup.refuse_if_closed(interrupt)
        cancel(interrupt.run_id, by=by, via=via, reason=reason, skip_permission_checks=True)


def _describe(schema: Any) -> dict[str, Any]:
    try:
        return make_response_schema(schema)
    except GraphDefinitionError as error:
        raise InvalidInputError(str(error), [("response_schema", str(error))]) from error


def _check_expiry_answer(answer: Any, schema: dict[str, Any] | None) -> None:
    check_json(answer, "The expiry response")
    for pointer, reason in [] if schema is None else json_schema.find_faults(schema, answer):
        path = ".".join(["expires", "answer", *parse_pointer(pointer)])
        raise InvalidInputError(f"The expiry response is not valid: {reason}.", [(path, reason)])


def _raise_interrupt(run: RunInfo) -> None:
    """Execute a new run until its interrupt, in the transaction that started the run.

    The node calls no code of the project, so the transaction is short.
    """
    lease = run_leases.claim(run.id, durable=False)
    assert lease is not None
    newest = lease.stored.newest if lease.stored else None
    saver = DjangoSaver(
        lease.thread,
        RunFence(lease),
        append_events=lease.log.append_chunks,
        newest=newest,
        durable=False,
    )
    outcome = registry.get_graph(ASK_GRAPH).graph.with_saver(saver).advance(
        {
            "configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""},
            "metadata": {"run_id": str(run.id)},
            "max_concurrency": 1,
        },
        modes=lease.log.modes,
    )  # fmt: skip
    if outcome.error is not None:
        raise outcome.error


def _refuse_unless_assigned(interrupt: Interrupt, named: dict[str, Any]) -> None:
    for name in ("group", "assignee"):
        if named[name] and getattr(interrupt, f"{name}_id") is None:
            reason = "unknown group" if name == "group" else "unknown or inactive user"
            raise InvalidInputError(f"The {name} doesn't exist: {named[name]!r}.", [(name, reason)])
    refuse_unless_may_decide(interrupt, interrupt.assignee, "assignee")
