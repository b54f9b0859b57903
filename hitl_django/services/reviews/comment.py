"""Comments on interrupts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from hitl_django import audit, events
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import InvalidInputError
from hitl_django.events import EventName
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import Comment, Interrupt
from hitl_django.models.fields import digest_json
from hitl_django.permissions import get_policy, refuse_unless_may

from .. import denied_log
from ..results import read_fields
from . import lookup
from .mentions import find_mentioned, find_unmentioned


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentInfo:
    """A comment with its author, source and time, and the names of the users it mentions."""

    id: UUID
    interrupt_id: UUID
    text: str
    by_label: str
    via: str
    created_at: datetime
    mentions: Sequence[str] = ()

    @classmethod
    def from_row(cls, comment: Comment) -> CommentInfo:
        return cls(**{**read_fields(cls, comment), "mentions": tuple(comment.mentions or ())})


@retry_on_conflict
def comment(
    interrupt_id: UUID | str, text: str, *, by: Any = None, via: str = "code"
) -> CommentInfo:
    """Add a comment to a pending or closed interrupt. Comments can't be edited.

    Whitespace around the text is removed. The audit log entry contains only a digest of the text,
    so that the text can be erased. Users named as ``@username`` are mentioned and notified if they
    may see the interrupt.

    Raises:
        InvalidInputError: if the text is empty or longer than COMMENT_MAX_LENGTH characters.
        NotAllowedError: if the user may not comment on the interrupt.
    """
    refusal = denied_log.record_denial("comment", by=by, via=via)
    with refusal, transaction.atomic(using=write_alias()):
        thread, interrupt = lookup.lock(interrupt_id, by)
        message = "You don't have permission to comment on this interrupt."
        refuse_unless_may(by, get_policy().may_comment, interrupt, message)
        made = Comment.objects.using(write_alias()).create(
            interrupt=interrupt,
            by=by,
            by_label=audit.label_user(by),
            via=via,
            text=_fit(text),
            created_at=thread.now,
        )
        detail = {"comment": str(made.pk), "text": digest_json(made.text)}
        subject = str(interrupt.pk)
        audit.append_alone(thread, "comment", by=by, via=via, subject=subject, detail=detail)
        _mention(made, interrupt, by)
        return CommentInfo.from_row(made)


def list_unmentioned(comment: CommentInfo) -> list[str]:
    """Return each name after an "@" in a comment, unless a user with this name was notified.

    A name is returned in three cases: no active user has the name, the user may not see the
    interrupt, or the author of the comment may not mention the user.
    """
    return find_unmentioned(comment.text, comment.mentions)


def _mention(made: Comment, interrupt: Interrupt, by: Any) -> None:
    """Store the users whom a comment mentions, and publish the event that notifies them."""
    mentioned = find_mentioned(made.text, interrupt, by)
    if not mentioned:
        return
    made.mentions = [user.get_username() for user in mentioned]
    made.save(using=write_alias(), update_fields=["mentions"])
    batch = WriteBatch(write_alias())
    events.publish_about(
        batch,
        EventName.INTERRUPT_MENTIONED,
        interrupt,
        users=" ".join(str(user.pk) for user in mentioned),
        by="" if by is None else by.pk,
    )
    batch.run()


def _fit(text: str) -> str:
    fit = escape_unstorable(text).strip()
    if not fit:
        raise InvalidInputError("The comment is empty.", [("text", "is required")])
    if len(fit) > hitl.COMMENT_MAX_LENGTH:
        reason = f"is longer than {hitl.COMMENT_MAX_LENGTH} characters"
        raise InvalidInputError(f"The comment {reason}.", [("text", reason)])
    return fit
