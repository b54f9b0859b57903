"""Signed links in emails, with which the recipient can decide an interrupt without login.

A link is signed with SECRET_KEY instead of containing a stored secret. The reason is that a worker
builds the same email again after a failed attempt, and the link in each copy must work. The token
contains the recipient, the recipient's email address, the version of the interrupt, and the
decision. After a decision or a change of the interrupt, this version is no longer pending, so the
link works once. The signature proves that this site created the link. The timestamp of the
signature limits the validity.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core import signing
from django.utils.crypto import constant_time_compare, salted_hmac

from hitl_django import services
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.decision_types import DecisionName
from hitl_django.models import Decision, Interrupt, Run
from hitl_django.page_urls import find_url
from hitl_django.permissions import get_policy, select_visible
from hitl_django.services import DecisionInfo

from .quick_decisions import list_decisions_of

SALT = "hitl_django.notifications.decide"
FORM_SALT = "hitl_django.notifications.decide.form"
PAGE = "hitl_django:email-decision"
VIA = "email"


class DecisionLinkState(StrEnum):
    """The state of a link: open, or the reason why the link can't be used."""

    OPEN = "open"
    EXPIRED = "expired"
    #: The link decided the request.
    USED = "used"
    #: The recipient has no permission any more, or another email address.
    INVALID = "invalid"
    #: The request has changed since the email was sent.
    STALE = "stale"
    #: The request is closed.
    CLOSED = "closed"
    #: The request can't be decided without its page, or not now.
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class DecisionLink:
    """A link with a valid signature.

    ``item`` is the interrupt. It is None if the recipient may no longer decide the interrupt, or if
    the link has expired.
    """

    state: DecisionLinkState
    type: DecisionName
    key: str
    user: Any = None
    item: Interrupt | None = None
    decision: Decision | None = None


def list_decision_urls(item: Interrupt, user: Any) -> dict[str, str]:
    """Return the URLs with which the user can decide the interrupt, by decision type."""
    if hitl.EMAIL_DECISION_SECONDS is None or not hitl.SITE_URL:
        return {}
    found = {}
    for type_ in list_decisions_of(item, user):
        values = [item.pk.hex, str(user.pk), _mark_address(user), item.version]
        token = signing.dumps([*values, item.payload_digest, type_], salt=SALT)
        if url := find_url(PAGE, token):
            found[type_] = url
    return found


def read_link(token: str) -> DecisionLink | None:
    """Return the link of a token, or None if the signature is invalid."""
    seconds = hitl.EMAIL_DECISION_SECONDS
    try:
        values = signing.loads(token, salt=SALT)
        pk, user_pk, address, version, digest, type_ = values
        interrupt_id = UUID(pk)
        users = get_user_model()._default_manager.using(write_alias())
        user = users.filter(pk=user_pk, is_active=True).first()
    except (signing.BadSignature, TypeError, ValueError):
        return None
    key = "email:" + salted_hmac(SALT, token, algorithm="sha256").hexdigest()
    if user is None or not constant_time_compare(_mark_address(user), address):
        return DecisionLink(DecisionLinkState.INVALID, type_, key)
    rows = Interrupt.objects.using(write_alias()).select_related("thread", "run")
    item = select_visible(rows, user).filter(pk=interrupt_id).first()
    if item is None or not get_policy().may_decide(user, item):
        return DecisionLink(DecisionLinkState.INVALID, type_, key)
    decision = _find_decision(item, user, key)
    if decision is not None:
        return DecisionLink(DecisionLinkState.USED, type_, key, user, item, decision)
    if seconds is None or _is_expired(token, seconds):
        return DecisionLink(DecisionLinkState.EXPIRED, type_, key, user)
    state = _find_state(item, user, type_, (version, digest))
    return DecisionLink(state, type_, key, user, item)


def decide_by_email(link: DecisionLink, *, reason: str = "") -> DecisionInfo:
    """Store the decision of an open link.

    Raises the same errors as ``decide``. Repeated calls return the first decision.
    """
    assert link.item is not None
    return services.decide(
        link.item.pk,
        link.type,
        by=link.user,
        via=VIA,
        reason=reason,
        key=link.key,
        digest=link.item.payload_digest,
        version=link.item.version,
        ignore_claim=False,
    )


def sign_form(link: DecisionLink) -> str:
    """Return the signature of a link's form.

    The signature proves that the sender has seen the form.
    """
    return signing.Signer(salt=FORM_SALT).signature(link.key)


def is_signed(signature: str, link: DecisionLink) -> bool:
    """Return whether ``sign_form`` made the signature for this link, with a valid secret key."""
    try:
        signing.Signer(salt=FORM_SALT).unsign(f"{link.key}:{signature}")
    except signing.BadSignature:
        return False
    return True


def _find_state(item: Interrupt, user: Any, type_: str, seen: tuple[int, str]) -> DecisionLinkState:
    if item.status != Interrupt.Status.PENDING:
        return DecisionLinkState.CLOSED
    if (item.version, item.payload_digest) != seen:
        return DecisionLinkState.STALE
    if item.run.state not in Run.ANSWERABLE or type_ not in list_decisions_of(item, user):
        return DecisionLinkState.BLOCKED
    return DecisionLinkState.OPEN


def _find_decision(item: Interrupt, user: Any, key: str) -> Decision | None:
    made = Decision.objects.using(write_alias()).filter(interrupt=item, key=key, by=user)
    return made.filter(undone_at=None).defer("value").first()


def _is_expired(token: str, seconds: float) -> bool:
    try:
        signing.loads(token, salt=SALT, max_age=timedelta(seconds=seconds))
    except signing.SignatureExpired:
        return True
    return False


def _mark_address(user: Any) -> str:
    address = str(getattr(user, user.get_email_field_name()) or "")
    return salted_hmac(SALT, address.lower(), algorithm="sha256").hexdigest()[:16]
