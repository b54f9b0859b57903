"""Links: one question, decided once by a named person without an account.

Whoever has the link can look at the question and decide it, so it is made by somebody who may, and
holds no longer than that: when the maker's account is closed or may do it no more, the link is
void. What is in the link is a row's id and a secret, of which only a digest is stored.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from hitl_django import answers, audit, leases
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.clock import to_stored
from hitl_django.db.retry import retry_on_conflict
from hitl_django.decision_types import APPROVE
from hitl_django.dialects import UNSET
from hitl_django.engine.errors import InvalidAnswerError, InvalidInputError
from hitl_django.errors import AlreadyDecidedError, InterruptNotFound, UndoRefusedError
from hitl_django.events import EventName
from hitl_django.extensions import Event
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.models.functions import Now
from hitl_django.page_urls import find_url
from hitl_django.permissions import find_row, get_policy, refuse_unless_may, select_visible
from hitl_django.services import DecisionInfo, UndoInfo, denied_log
from hitl_django.services.results import read_fields
from hitl_django.services.reviews import decide, lookup, quorum, undo
from hitl_django.services.reviews.record_decision import Guest, Request

from .errors import LinkNotFound, LinkUnusableError
from .models import ReviewLink

VIA = "link"
#: The view that a link leads to.
PAGE = "hitl_django:link"
PERMISSION = "hitl_links.link_interrupt"
#: What the idempotency key of a decision by link begins with; the link's id follows.
LINK_KEY = "link:"
NAME_LENGTH = 255
SECRET_BYTES, ID_BYTES = 32, 16
#: How long a link holds unless its maker says otherwise, and at the most.
USUAL, LONGEST = timedelta(days=7), timedelta(days=365)


class LinkState(StrEnum):
    """Whether a link can be used, and if not, why."""

    OPEN = "open"
    USED = "used"
    EXPIRED = "expired"
    REVOKED = "revoked"
    #: Its maker may not hand it out any more.
    VOID = "void"
    #: The question is another than it was.
    STALE = "stale"
    #: Somebody else decided the question.
    DECIDED = "decided"
    #: The question expired, or is asked no more.
    CLOSED = "closed"
    #: The question's run has stopped, and may go on.
    WAITING = "waiting"
    #: Somebody else holds the question, which only who holds it decides.
    CLAIMED = "claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkInfo:
    """A link as it stands; ``url`` only just after it was made."""

    id: UUID
    interrupt_id: UUID
    name: str
    email: str
    decisions: Sequence[str]
    state: str
    created_by_label: str
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None
    url: str = field(default="", repr=False)


def may_make_link(user: Any, interrupt: Interrupt) -> bool:
    """Return whether the user may create links with which other people decide the interrupt.

    The user could decide with such a link, so they need permission to decide as well. The policy is
    asked again when a link is used: a link is void if its creator no longer has permission.
    """
    policy = get_policy()
    return policy.has_permission(user, PERMISSION) and policy.may_decide(user, interrupt)


@retry_on_conflict
def create_review_link(
    interrupt_id: UUID | str,
    *,
    name: str,
    email: str = "",
    decisions: Collection[str] = (),
    expires: timedelta | datetime = USUAL,
    by: Any = None,
    via: str = "code",
) -> LinkInfo:
    """Make a link to an open question; the answer is the only place where it is to be seen.

    ``decisions`` narrows what can be decided with it. ``email`` is kept beside the name; nothing is
    sent to it. The address begins with ``SITE_URL``, or without one is a path. A project that
    hasn't included ``hitl_django.urls`` gets ImproperlyConfigured.
    """
    _check(name, email)
    _refuse_without_page()
    secret = secrets.token_bytes(SECRET_BYTES)
    refusal = denied_log.record_denial("link", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        thread, interrupt = _asked(interrupt_id, by)
        row = ReviewLink(
            interrupt=interrupt,
            secret_digest=_digest(secret),
            name=name.strip(),
            email=email,
            decisions=_narrowed(interrupt, decisions),
            payload_digest=interrupt.payload_digest,
            version=interrupt.version,
            created_by=by,
            created_by_label=audit.label_user(by),
            expires_at=_end(expires, thread),
        )
        row.save(using=write_alias(), force_insert=True)
        told = {**_name_guest(row), "decisions": row.decisions}
        subject = str(interrupt.pk)
        audit.append_alone(thread, "link", by=by, via=via, subject=subject, detail=told)
        row.refresh_from_db(write_alias(), fields=["created_at"])
        return _info(row, url=_address(row.pk, secret))


@retry_on_conflict
def revoke_link(link_id: UUID | str, *, by: Any = None, via: str = "code") -> LinkInfo:
    """Take a link back that hasn't been used; LinkUnusableError where it has."""
    row = find_row(_rows(), LinkNotFound, pk=link_id)
    refusal = denied_log.record_denial("revoke", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        thread = leases.lock_thread(interrupt=row.interrupt_id)
        row = _rows().get(pk=row.pk)
        _refuse_if_not_allowed(row.interrupt, by, LinkNotFound)
        # Zero rows: it was used, or taken back by somebody else.
        open_links = _rows().filter(pk=row.pk, used_at=None, revoked_at=None)
        if not open_links.update(revoked_at=Now()):
            row.refresh_from_db(write_alias())
            raise LinkUnusableError(state=str(_state(row)))
        detail, subject = _name_guest(row), str(row.interrupt_id)
        audit.append_alone(thread, "revoke", by=by, via=via, subject=subject, detail=detail)
        row.refresh_from_db(write_alias())
        return _info(row)


def list_links(interrupt_id: UUID | str, *, by: Any = None) -> list[LinkInfo]:
    """List the links to a question that were made, newest first."""
    interrupts = Interrupt.objects.using(write_alias()).select_related("thread")
    interrupt = find_row(interrupts, InterruptNotFound, pk=interrupt_id)
    _refuse_if_not_allowed(interrupt, by, InterruptNotFound)
    rows = list(_rows().filter(interrupt=interrupt))
    makers = _Creators(rows)
    return [_info(row, makers=makers) for row in rows]


def resolve_link(token: str) -> LinkInfo:
    """Return what a link leads to and whether it can be used; LinkNotFound if it is none."""
    return _info(_found(token))


def get_link_states(link_ids: Collection[UUID]) -> dict[UUID, LinkState]:
    """Return whether each of these links can be used, and if not, why."""
    rows = list(_rows().filter(pk__in=link_ids))
    makers = _Creators(rows)
    return {row.pk: _state(row, makers=makers) for row in rows}


@retry_on_conflict
def decide_by_link(
    token: str,
    type: str,  # noqa: A002
    value: Any = UNSET,
    *,
    reason: str = "",
) -> DecisionInfo:
    """Decide a question with a link, which is used up by it.

    LinkUnusableError says why it can't be: nothing is written then, as with every other refusal.
    Where a question has to be claimed, the link stands for the claim, unless somebody else than
    its maker has one.
    """
    link = _found(token)
    guest = Guest(link.name, invitation=str(link.pk), invited_by=link.created_by_label)
    key = f"{LINK_KEY}{link.pk}"
    request = Request.build(type, value, by=None, via=VIA, reason=reason, key=key, guest=guest)
    validated = decide.validate(link.interrupt, request)
    with transaction.atomic(using=write_alias()):
        # First the thread's lock, as everywhere: what follows sees link and question as they are.
        thread = leases.lock_thread(interrupt=link.interrupt_id)
        row = _rows().get(pk=link.pk)
        state = _state(row, now=thread.now)
        if state != LinkState.OPEN:
            raise LinkUnusableError(state=str(state))
        if type not in row.decisions:
            raise InvalidAnswerError(f"This review link doesn't allow the decision {type!r}.")
        # Zero rows: it was used, or its time was up on the database's clock.
        unused = _rows().filter(pk=row.pk, used_at=None, revoked_at=None, expires_at__gt=Now())
        if not unused.update(used_at=Now()):
            raise LinkUnusableError(state=str(LinkState.EXPIRED))
        row.interrupt.thread = row.interrupt.run.thread = thread
        return decide.record_validated(thread, row.interrupt, validated)


def find_undo_by_link(token: str) -> UndoInfo | None:
    """Return the decision that was made with a link, if it can be undone at this moment."""
    if not hitl.UNDO_SECONDS:
        return None
    link = _found(token)
    decision = _find_own_decision(link)
    if decision is None or not _Creators([link]).may(link):
        return None
    return undo.describe(link.interrupt, decision)


@retry_on_conflict
def undo_by_link(token: str) -> DecisionInfo:
    """Undo what was decided with a link, which can be used again; as ``undo`` refuses it."""
    link = _found(token)
    with transaction.atomic(using=write_alias()):
        thread = leases.lock_thread(interrupt=link.interrupt_id)
        row = _rows().get(pk=link.pk)
        decision = _find_own_decision(row)
        if decision is None:
            raise UndoRefusedError(undo.NOTHING)
        if not _Creators([row]).may(row):
            raise LinkUnusableError(state=str(LinkState.VOID))
        return undo.undo_locked(thread, row.interrupt, decision, by=None, via=VIA, guest=row.name)


def restore_links(batch: Any, event: Event) -> None:
    """Keep the links to an interrupt when its decision is undone; a used link is unused again.

    A link is for the version of the interrupt that it was created for. An undo opens the same
    request in a new version.
    """
    if event.name != EventName.INTERRUPT_UNDONE:
        return
    using = write_alias()
    interrupt = Interrupt.objects.using(using).get(pk=event.data["interrupt_id"])
    decision = Decision.objects.using(using).get(pk=event.data["decision_id"])
    links = ReviewLink.objects.using(using).filter(interrupt=interrupt, version=decision.version)
    links.update(version=interrupt.version, used_at=None)


def _name_guest(row: ReviewLink) -> dict[str, Any]:
    return {"invitation": str(row.pk), "guest": row.name}


def _find_own_decision(link: ReviewLink) -> Decision | None:
    """Return the decision that closed a link's question, if it was made with the link."""
    decision = link.interrupt.closing()
    made_with = None if decision is None else (decision.via, decision.key)
    return decision if made_with == (VIA, f"{LINK_KEY}{link.pk}") else None


def _refuse_without_page() -> None:
    """Raise ImproperlyConfigured where a link would lead nowhere."""
    if find_url(PAGE, "token") is None:
        raise ImproperlyConfigured(
            "Review links require path('hitl/', include('hitl_django.urls')) in ROOT_URLCONF."
        )


def _address(link_id: UUID, secret: bytes) -> str:
    """Return the address of a link."""
    token = base64.urlsafe_b64encode(link_id.bytes + secret).decode()
    return str(find_url(PAGE, token))


def _found(token: str) -> ReviewLink:
    try:
        raw = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
    except ValueError:
        raise LinkNotFound from None
    if len(raw) != ID_BYTES + SECRET_BYTES:
        raise LinkNotFound
    row = _rows().filter(pk=UUID(bytes=raw[:ID_BYTES])).first()
    expected = "" if row is None else row.secret_digest
    if not hmac.compare_digest(_digest(raw[ID_BYTES:]), expected) or row is None:
        raise LinkNotFound
    return row


def _state(
    row: ReviewLink, *, now: datetime | None = None, makers: _Creators | None = None
) -> LinkState:
    interrupt, now = row.interrupt, now or timezone.now()
    if row.used_at is not None:
        return LinkState.USED
    if row.revoked_at is not None:
        return LinkState.REVOKED
    if row.expires_at <= now:
        return LinkState.EXPIRED
    if interrupt.status == Interrupt.Status.DECIDED:
        return LinkState.DECIDED
    if interrupt.status != Interrupt.Status.PENDING:
        return LinkState.CLOSED
    if (interrupt.payload_digest, interrupt.version) != (row.payload_digest, row.version):
        return LinkState.STALE
    if not (makers or _Creators([row])).may(row):
        return LinkState.VOID
    if interrupt.run.state not in Run.ANSWERABLE:
        return LinkState.WAITING
    return LinkState.CLAIMED if _is_claimed(row, now) else LinkState.OPEN


class _Creators:
    """Who made these links, and whether they still could: each is looked up once for all theirs."""

    def __init__(self, rows: Collection[ReviewLink]) -> None:
        self._rows = rows
        self._seen: dict[Any, tuple[Any, set[UUID]]] = {}

    def may(self, row: ReviewLink) -> bool:
        """Return whether who made the link could still make it."""
        if row.created_by is None:
            return row.created_by_label == audit.SYSTEM
        if row.created_by_id not in self._seen:
            self._seen[row.created_by_id] = row.created_by, self._visible(row.created_by)
        maker, visible = self._seen[row.created_by_id]
        return row.interrupt_id in visible and may_make_link(maker, row.interrupt)

    def _visible(self, maker: Any) -> set[UUID]:
        theirs = [row.interrupt_id for row in self._rows if row.created_by_id == maker.pk]
        asked = Interrupt.objects.using(write_alias()).filter(pk__in=theirs)
        return {*select_visible(asked, maker).values_list("pk", flat=True)}


def _is_claimed(row: ReviewLink, now: datetime) -> bool:
    """Return whether a claim keeps the link from deciding: another's, who is not its maker."""
    interrupt = row.interrupt
    if not interrupt.claim_required or interrupt.claimed_until is None:
        return False
    return interrupt.claimed_until > now and interrupt.claimed_by_id != row.created_by_id


def _asked(interrupt_id: UUID | str, by: Any) -> tuple[Thread, Interrupt]:
    """Return the locked thread and the open question, if the user may make links to it."""
    thread = lookup.lock_thread(interrupt_id)
    interrupt = lookup.rows_with_run().get(pk=interrupt_id)
    _refuse_if_not_allowed(interrupt, by, InterruptNotFound)
    quorum.refuse_own(interrupt, APPROVE, by)
    if interrupt.quorum > 1:
        # Whoever makes links could agree with himself as often as he likes.
        reason = "requires several approvals, which need accounts"
        raise InvalidInputError(f"The interrupt {reason}.", [("", reason)])
    if interrupt.status != Interrupt.Status.PENDING:
        raise AlreadyDecidedError(
            f"The interrupt is no longer pending: {interrupt.get_status_display()}.",
            status=str(interrupt.status),
            decision=None,
        )
    return thread, interrupt


def _refuse_if_not_allowed(interrupt: Interrupt, by: Any, absent: type[Exception]) -> None:
    if by is None:
        return
    rows = Interrupt.objects.using(write_alias()).filter(pk=interrupt.pk)
    if not select_visible(rows, by).exists():
        raise absent
    message = "You don't have permission to create review links for this interrupt."
    refuse_unless_may(by, may_make_link, interrupt, message)


def _narrowed(interrupt: Interrupt, decisions: Collection[str]) -> list[str]:
    allowed = answers.read_options(interrupt).allowed
    if unknown := sorted(set(decisions) - set(allowed)):
        reason = f"{unknown[0]!r} is not one of {', '.join(allowed)}"
        raise InvalidInputError(f"Review link decisions: {reason}.", [("decisions", reason)])
    return [one for one in allowed if one in decisions or not decisions]


def _check(name: str, email: str) -> None:
    faults = []
    if not 1 <= len(name.strip()) <= NAME_LENGTH or not name.isprintable():
        faults.append(("name", f"must be 1 to {NAME_LENGTH} visible characters"))
    if name.strip() == audit.SYSTEM:
        faults.append(("name", "is reserved for the system"))
    if audit.is_pseudonym(name.strip()):
        faults.append(("name", "is a pseudonym of a forgotten person"))
    if email:
        try:
            validate_email(email)
        except ValidationError:
            faults.append(("email", "is not a valid email address"))
    if faults:
        what, reason = faults[0]
        raise InvalidInputError(f"Review link {what} {reason}.", faults)


def _end(expires: timedelta | datetime, thread: Thread) -> datetime:
    end = thread.now + expires if isinstance(expires, timedelta) else to_stored(expires)
    if not thread.now < end <= thread.now + LONGEST:
        reason = f"must be within {LONGEST.days} days"
        raise InvalidInputError(f"Review link expiry {reason}.", [("expires_at", reason)])
    return end


def _info(row: ReviewLink, *, url: str = "", makers: _Creators | None = None) -> LinkInfo:
    shown = read_fields(LinkInfo, row, but=["state", "url"])
    return LinkInfo(**shown, state=str(_state(row, makers=makers)), url=url)


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


def _rows() -> QuerySet[ReviewLink]:
    rows = ReviewLink.objects.using(write_alias())
    return rows.select_related("interrupt__run", "interrupt__thread", "created_by")
