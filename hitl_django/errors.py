"""Errors of the services that Django knows: a view that lets them pass answers 403 or 404.

    HitlError
    ├─ NotAllowedError(PermissionDenied)
    │  └─ SelfApprovalError
    ├─ ThreadNotFound
    │  └─ NoSuchThread(Http404)
    ├─ RunNotFound(LookupError, Http404)
    ├─ InterruptNotFound(LookupError, Http404)
    ├─ CheckpointNotFound(LookupError, Http404)
    ├─ WebhookNotFound(LookupError, Http404)
    └─ LinkNotFound(LookupError, Http404)

All others are for the view to catch: what is wrong with an input or an answer it alone can show
beside the form, and of a question that somebody else has decided it has something else to say. They
are in ``hitl_django.engine.errors``; ``hitl_django`` has all of them.
"""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404

from .engine.errors import HitlError, ThreadNotFound


class NotAllowedError(HitlError, PermissionDenied):
    """The user may not do that.

    ``thread_id`` names the thread that was to be changed, ``subject`` what of it.
    """

    def __init__(self, *args: object, thread_id: str = "", subject: str = "") -> None:
        super().__init__(*args)
        self.thread_id, self.subject = thread_id, subject


class SelfApprovalError(NotAllowedError):
    """Whoever started the run may not approve what it asks."""


class NoSuchThread(ThreadNotFound, Http404):
    """There is no such thread, or none that the user may see."""


class RunNotFound(HitlError, LookupError, Http404):
    """There is no such run."""


class InterruptNotFound(HitlError, LookupError, Http404):
    """There is no such question."""


class CheckpointNotFound(HitlError, LookupError, Http404):
    """There is no such checkpoint of the thread."""


class WebhookNotFound(HitlError, LookupError, Http404):
    """There is no such webhook, or nothing of that kind is sent to one."""


class LinkNotFound(HitlError, LookupError, Http404):
    """There is no such link."""
