"""The URL to which Slack sends clicks on the buttons of messages.

The signature of a request proves that Slack sent it. The Slack user is mapped to the active user
with the same confirmed email address, and this user's permissions apply. A repeated request has the
same idempotency key, so it changes nothing. All channels then update their messages through the
outbox.
"""

from __future__ import annotations

import json
import logging
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy as _
from django.views import View
from django.views.decorators.csrf import csrf_exempt

from hitl_django import services
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import HitlError
from hitl_django.errors import (
    AlreadyDecidedError,
    ClaimedError,
    InterruptNotFound,
    NotAllowedError,
    StaleInterruptError,
)
from hitl_django.forms import submission
from hitl_django.models import Interrupt

from . import slack_api
from .quick_decisions import TYPES
from .slack_api import SlackError
from .slack_channel import queue_update
from .slack_messages import ACTION
from .slack_signature import is_from_slack

logger = logging.getLogger("hitl_django")

VIA = "slack"
MOST_BYTES = 256 * 1024
#: Timeout of a call. Slack waits three seconds for the response to a click.
SECONDS = 1.0

NO_USER = _("Your Slack account has no matching user here. Open the request to decide.")
FAILED = _("Your decision could not be saved. Open the request to decide.")
REFUSALS: tuple[tuple[type[HitlError], Any], ...] = (
    (InterruptNotFound, _("You don't have permission to decide this request.")),
    (NotAllowedError, _("You don't have permission to decide this request.")),
    (AlreadyDecidedError, _("This request is closed. Nothing was saved.")),
    (StaleInterruptError, _("This request has changed. Open the request to decide.")),
    (ClaimedError, _("Someone else is working on this request. Nothing was saved.")),
)


@method_decorator([login_not_required, csrf_exempt], name="dispatch")
class SlackActionsView(View):
    """The interactivity request URL of the Slack app."""

    http_method_names = ("post",)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Store the decision of a click, or tell the Slack user the reason of a refusal."""
        if not hitl.SLACK_SIGNING_SECRET:
            raise Http404
        if not _is_short(request) or not is_from_slack(request):
            return HttpResponse(status=403)
        submission.hide_from_reports(request)
        try:
            click = json.loads(request.POST["payload"])
            if click["type"] != "block_actions":
                return HttpResponse()
            for action in click["actions"]:
                if action.get("action_id", "") in _ACTIONS:
                    _decide(click, _ACTIONS[action["action_id"]], action["value"])
        except (KeyError, TypeError, ValueError, AttributeError):
            return HttpResponse(status=400)
        return HttpResponse()


_ACTIONS = {f"{ACTION}{type_}": type_ for type_ in TYPES}


def _is_short(request: HttpRequest) -> bool:
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
        return length <= MOST_BYTES and len(request.body) <= MOST_BYTES
    except (ValueError, RequestDataTooBig):
        return False


def _decide(click: dict[str, Any], type_: str, value: str) -> None:
    key, version, digest = value.split(":")
    interrupt_id = UUID(key)
    slack_user = str(click["user"]["id"])
    user = _find_user(slack_user)
    if user is None:
        _tell(click, slack_user, NO_USER)
        return
    try:
        services.decide(
            interrupt_id,
            type_,
            by=user,
            via=VIA,
            key=f"slack:{type_}:{version}:{user.pk}",
            digest=digest,
            version=int(version),
            ignore_claim=False,
        )
    except HitlError as error:
        words = next((words for kind, words in REFUSALS if isinstance(error, kind)), FAILED)
        _tell(click, slack_user, words)
        _update_messages(interrupt_id)


def _find_user(slack_user: str) -> Any:
    """Return the active user with the email address of a Slack user, or None."""
    try:
        email = slack_api.find_email(slack_user, SECONDS)
    except SlackError as error:
        logger.warning("Slack user could not be looked up (%s)", error.code)
        return None
    if not email:
        return None
    users = get_user_model()
    rows = users._default_manager.using(write_alias()).filter(is_active=True)
    found = list(rows.filter(**{f"{users.get_email_field_name()}__iexact": email})[:2])
    return found[0] if len(found) == 1 else None


def _tell(click: dict[str, Any], slack_user: str, words: Any) -> None:
    """Show a text that only the Slack user sees, if Slack accepts it."""
    channel = (click.get("channel") or {}).get("id")
    if not channel:
        return
    values = {"channel": channel, "user": slack_user, "text": str(words)}
    try:
        slack_api.call("chat.postEphemeral", values, SECONDS)
    except SlackError as error:
        logger.warning("Slack user could not be notified (%s)", error.code)


def _update_messages(interrupt_id: UUID) -> None:
    rows = Interrupt.objects.using(write_alias()).filter(pk=interrupt_id)
    graph = rows.values_list("graph", flat=True).first()
    if graph is not None:
        batch = WriteBatch(write_alias())
        queue_update(batch, graph, str(interrupt_id))
        batch.run()
