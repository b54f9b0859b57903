"""Services for review links.

A review link lets one named person without an account view and decide an interrupt once. The user
who creates the link must have the permission to decide. If this user loses the permission or the
account, the link becomes invalid. A link contains the id of its row and a secret. The database
contains only a digest of the secret.
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
from hitl_django.db.alias import write_alias
from hitl_django.db.clock import to_stored
from hitl_django.db.retry import retry_on_conflict
from hitl_django.decision_types import APPROVE
from hitl_django.dialects import UNSET
from hitl_django.engine.arguments import check_names
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
from hitl_django.services.reviews.record_decision import DecisionRequest, Guest

from .errors import LinkNotFound, LinkUnusableError
from .models import ReviewLink

VIA = "link"
#: Name of the view of a review link.
PAGE = "hitl_django:link"
PERMISSION = "hitl_links.link_interrupt"
#: Prefix of the idempotency key of a decision by link. The id of the link follows.
LINK_KEY = "link:"
NAME_LENGTH = 255
SECRET_BYTES, ID_BYTES = 32, 16
#: Default and maximum period of validity of a link.
USUAL, LONGEST = timedelta(days=7), timedelta(days=365)


class LinkState(StrEnum):
    """The state of a link: open, or the reason why the link can't be used."""

    OPEN = "open"
    USED = "used"
    EXPIRED = "expired"
    REVOKED = "revoked"
    #: The user who created the link no longer has the permission to decide.
    INVALID = "invalid"
    #: The interrupt has changed since the link was created.
    STALE = "stale"
    #: Another person has decided the interrupt.
    DECIDED = "decided"
    #: The interrupt has expired or was withdrawn.
    CLOSED = "closed"
    #: The run has stopped, and a retry may make the link usable again.
    WAITING = "waiting"
    #: The interrupt requires a claim, and another person has claimed it.
    CLAIMED = "claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkInfo:
    """A review link.

    ``url`` is set only by ``create_review_link``.
    """

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


def may_create_link(user: Any, interrupt: Interrupt) -> bool:
    """Return whether the user may create review links to the interrupt.

    The user must have the permission to decide. The permission is checked again when a link is
    used.
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
    """Create a review link to a pending interrupt.

    Only the returned value contains the link's URL. The URL begins with ``SITE_URL``. Without this
    setting, the URL is only a path.

    Args:
        name: the name of the person, which is stored with the decision.
        email: an email address for reference only. No email is sent.
        decisions: the allowed decision types, by default all that the interrupt allows.
        expires: the period of validity, or the time of expiry.

    Raises:
        ImproperlyConfigured: if the project doesn't include ``hitl_django.urls``.
    """
    _check(name, email)
    _refuse_without_page()
    secret = secrets.token_bytes(SECRET_BYTES)
    refusal = denied_log.record_denial("link", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        thread, interrupt = _lock_pending_interrupt(interrupt_id, by)
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
    """Revoke an unused link.

    Raises:
        LinkUnusableError: if the link has already been used.
    """
    row = find_row(_rows(), LinkNotFound, pk=link_id)
    refusal = denied_log.record_denial("revoke", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        thread = leases.lock_thread(interrupt=row.interrupt_id)
        row = _rows().get(pk=row.pk)
        _refuse_if_not_allowed(row.interrupt, by, LinkNotFound)
        # Zero rows: the link was used or revoked in the meantime.
        open_links = _rows().filter(pk=row.pk, used_at=None, revoked_at=None)
        if not open_links.update(revoked_at=Now()):
            row.refresh_from_db(write_alias())
            raise LinkUnusableError(state=str(_state(row)))
        detail, subject = _name_guest(row), str(row.interrupt_id)
        audit.append_alone(thread, "revoke", by=by, via=via, subject=subject, detail=detail)
        row.refresh_from_db(write_alias())
        return _info(row)


def list_links(interrupt_id: UUID | str, *, by: Any = None) -> list[LinkInfo]:
    """Return the links of an interrupt, newest first."""
    interrupts = Interrupt.objects.using(write_alias()).select_related("thread")
    interrupt = find_row(interrupts, InterruptNotFound, pk=interrupt_id)
    _refuse_if_not_allowed(interrupt, by, InterruptNotFound)
    rows = list(_rows().filter(interrupt=interrupt))
    creators = _Creators(rows)
    return [_info(row, creators=creators) for row in rows]


def resolve_link(token: str) -> LinkInfo:
    """Return the link to which a token belongs, with its state.

    Raises:
        LinkNotFound: if the token doesn't belong to a link.
    """
    return _info(_found(token))


def get_link_states(link_ids: Collection[UUID]) -> dict[UUID, LinkState]:
    """Return the state of each link, by link id."""
    rows = list(_rows().filter(pk__in=link_ids))
    creators = _Creators(rows)
    return {row.pk: _state(row, creators=creators) for row in rows}


@retry_on_conflict
def decide_by_link(
    token: str,
    type: str,  # noqa: A002
    value: Any = UNSET,
    *,
    reason: str = "",
) -> DecisionInfo:
    """Decide an interrupt with a link. Afterwards, the link can't be used again.

    If the interrupt requires a claim, the link counts as a claim. In this case, the link can't be
    used while anyone other than the link's creator has claimed the interrupt.

    Raises:
        LinkUnusableError: if the link can't be used. In this case, nothing is stored.
    """
    link = _found(token)
    guest = Guest(link.name, invitation=str(link.pk), invited_by=link.created_by_label)
    key = f"{LINK_KEY}{link.pk}"
    request = DecisionRequest.build(
        type, value, by=None, via=VIA, reason=reason, key=key, guest=guest
    )
    validated = decide.validate(link.interrupt, request)
    with transaction.atomic(using=write_alias()):
        # Lock the thread first, as all transactions do, so that the link and the interrupt can't
        # change.
        thread = leases.lock_thread(interrupt=link.interrupt_id)
        row = _rows().get(pk=link.pk)
        state = _state(row, now=thread.now)
        if state != LinkState.OPEN:
            raise LinkUnusableError(state=str(state))
        if type not in row.decisions:
            raise InvalidAnswerError(f"This review link doesn't allow the decision {type!r}.")
        # Zero rows: the link was used in the meantime, or has expired by the database's clock.
        unused = _rows().filter(pk=row.pk, used_at=None, revoked_at=None, expires_at__gt=Now())
        if not unused.update(used_at=Now()):
            raise LinkUnusableError(state=str(LinkState.EXPIRED))
        row.interrupt.thread = row.interrupt.run.thread = thread
        return decide.record_validated(thread, row.interrupt, validated)


def find_undo_by_link(token: str) -> UndoInfo | None:
    """Return the decision made with a link, or None if the decision can't be undone now."""
    link = _found(token)
    decision = _find_own_decision(link)
    if decision is None or not _Creators([link]).may(link):
        return None
    return undo.describe(link.interrupt, decision)


@retry_on_conflict
def undo_by_link(token: str) -> DecisionInfo:
    """Undo the decision that was made with a link.

    The link can then be used again. Raises the same errors as ``undo``.
    """
    link = _found(token)
    with transaction.atomic(using=write_alias()):
        thread = leases.lock_thread(interrupt=link.interrupt_id)
        row = _rows().get(pk=link.pk)
        decision = _find_own_decision(row)
        if decision is None:
            raise UndoRefusedError(undo.NOTHING)
        if not _Creators([row]).may(row):
            raise LinkUnusableError(state=str(LinkState.INVALID))
        return undo.undo_locked(thread, row.interrupt, decision, by=None, via=VIA, guest=row.name)


def restore_links(batch: Any, event: Event) -> None:
    """Make the links of an interrupt valid again after the undo of a decision.

    A used link becomes unused. A link is valid for one version of the interrupt. An undo creates a
    new version, so this function sets the new version on the links.
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
    decision = link.interrupt.closing()
    made_with = None if decision is None else (decision.via, decision.key)
    return decision if made_with == (VIA, f"{LINK_KEY}{link.pk}") else None


def _refuse_without_page() -> None:
    if find_url(PAGE, "token") is None:
        raise ImproperlyConfigured(
            "Review links require path('hitl/', include('hitl_django.urls')) in ROOT_URLCONF."
        )


def _address(link_id: UUID, secret: bytes) -> str:
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
    row: ReviewLink, *, now: datetime | None = None, creators: _Creators | None = None
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
    if not (creators or _Creators([row])).may(row):
        return LinkState.INVALID
    if interrupt.run.state not in Run.ANSWERABLE:
        return LinkState.WAITING
    return LinkState.CLAIMED if _is_claimed(row, now) else LinkState.OPEN


class _Creators:
    """The users who created links, with their permissions.

    Each user is loaded once.
    """

    def __init__(self, rows: Collection[ReviewLink]) -> None:
        self._rows = rows
        self._seen: dict[Any, tuple[Any, set[UUID]]] = {}

    def may(self, row: ReviewLink) -> bool:
        if row.created_by is None:
            return row.created_by_label == audit.SYSTEM
        if row.created_by_id not in self._seen:
            self._seen[row.created_by_id] = row.created_by, self._visible(row.created_by)
        creator, visible = self._seen[row.created_by_id]
        return row.interrupt_id in visible and may_create_link(creator, row.interrupt)

    def _visible(self, creator: Any) -> set[UUID]:
        theirs = [row.interrupt_id for row in self._rows if row.created_by_id == creator.pk]
        asked = Interrupt.objects.using(write_alias()).filter(pk__in=theirs)
        return {*select_visible(asked, creator).values_list("pk", flat=True)}


def _is_claimed(row: ReviewLink, now: datetime) -> bool:
    """Return whether someone other than the link's creator has claimed the interrupt."""
    interrupt = row.interrupt
    if not interrupt.claim_required or interrupt.claimed_until is None:
        return False
    return interrupt.claimed_until > now and interrupt.claimed_by_id != row.created_by_id


def _lock_pending_interrupt(interrupt_id: UUID | str, by: Any) -> tuple[Thread, Interrupt]:
    """Lock and return a thread and its pending interrupt. Refuse users who may not create links."""
    thread = lookup.lock_thread(interrupt_id)
    interrupt = lookup.rows_with_run().get(pk=interrupt_id)
    _refuse_if_not_allowed(interrupt, by, InterruptNotFound)
    quorum.refuse_own(interrupt, APPROVE, by)
    if interrupt.quorum > 1:
        # A user who can create links could otherwise approve any number of times.
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
    refuse_unless_may(by, may_create_link, interrupt, message)


def _narrowed(interrupt: Interrupt, decisions: Collection[str]) -> list[str]:
    allowed = answers.read_options(interrupt).allowed
    if unknown := sorted(set(check_names("decisions", decisions)) - set(allowed)):
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
        faults.append(("name", "is the pseudonym of an erased person"))
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


def _info(row: ReviewLink, *, url: str = "", creators: _Creators | None = None) -> LinkInfo:
    shown = read_fields(LinkInfo, row, but=["state", "url"])
    return LinkInfo(**shown, state=str(_state(row, creators=creators)), url=url)


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


def _rows() -> QuerySet[ReviewLink]:
    rows = ReviewLink.objects.using(write_alias())
    return rows.select_related("interrupt__run", "interrupt__thread", "created_by")
