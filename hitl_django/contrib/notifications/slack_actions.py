"""The URL to which Slack sends clicks on the buttons of messages, and submitted modals.

A click on Approve stores the decision immediately. A click on Reject opens a modal for the reason,
and submitting the modal stores the decision.

The signature of a request proves that Slack sent it. The Slack user is mapped to the active user
with the same confirmed email address, and this user's permissions apply. A repeated request has the
same idempotency key, so it changes nothing. After a decision, all channels update their messages
through the outbox.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import translation
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy as _
from django.views import View
from django.views.decorators.csrf import csrf_exempt

from hitl_django import services
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch
from hitl_django.decision_types import REJECT, DecisionName
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

from . import slack_api, slack_reject_modal
from .quick_decisions import TYPES
from .slack_api import SlackError
from .slack_channel import queue_update
from .slack_messages import ACTION
from .slack_reject_modal import REASON
from .slack_signature import is_from_slack

logger = logging.getLogger("hitl_django")

VIA = "slack"
MAX_BYTES = 256 * 1024
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
        """Store the decision of a click or a modal. If this fails, show the user the reason."""
        if not hitl.SLACK_SIGNING_SECRET:
            raise Http404
        if not _is_short(request) or not is_from_slack(request):
            return HttpResponse(status=403)
        submission.hide_from_reports(request)
        try:
            # Messages and modals are in the language of the site.
            with translation.override(settings.LANGUAGE_CODE):
                return _answer(json.loads(request.POST["payload"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            return HttpResponse(status=400)


_ACTIONS = {f"{ACTION}{type_}": type_ for type_ in TYPES}


@dataclass(frozen=True, slots=True)
class _Target:
    """The version of an interrupt that a Slack message or modal shows."""

    pk: UUID
    version: int
    digest: str

    @classmethod
    def read(cls, value: str) -> _Target:
        key, version, digest = value.split(":")
        return cls(UUID(key), int(version), digest)


def _answer(interaction: dict[str, Any]) -> HttpResponse:
    if interaction["type"] == "view_submission":
        return _submit(interaction, interaction["view"])
    if interaction["type"] == "block_actions":
        for action in interaction["actions"]:
            type_ = _ACTIONS.get(action.get("action_id", ""))
            if type_ is not None:
                _click(interaction, type_, _Target.read(action["value"]))
    return HttpResponse()


def _click(click: dict[str, Any], type_: str, target: _Target) -> None:
    slack_user = str(click["user"]["id"])
    user = _find_user(slack_user)
    if user is None:
        _tell(click, slack_user, NO_USER)
        return
    try:
        if type_ == REJECT:
            _open_modal(click["trigger_id"], target, user)
        else:
            _decide(target, type_, user, key=f"slack:{type_}:{target.version}:{user.pk}")
    except SlackError as error:
        logger.warning("Slack modal could not be opened (%s)", error.code)
        _tell(click, slack_user, FAILED)
    except HitlError as error:
        _tell(click, slack_user, _explain(error))
        _update_messages(target.pk)


def _open_modal(trigger: str, target: _Target, user: Any) -> None:
    """Open the modal for the reason of a rejection.

    ``trigger`` is the ``trigger_id`` that Slack sends with the click on the button.

    Raises:
        HitlError: if the user can't reject this version of the interrupt.
        SlackError: if the call failed.
    """
    services.check_answer(target.pk, REJECT, by=user)
    item = Interrupt.objects.using(write_alias()).get(pk=target.pk)
    if (item.version, item.payload_digest) != (target.version, target.digest):
        raise StaleInterruptError
    values = {"trigger_id": trigger, "view": slack_reject_modal.build_modal(item)}
    slack_api.call("views.open", values, SECONDS)


def _submit(interaction: dict[str, Any], view: dict[str, Any]) -> HttpResponse:
    """Store the rejection from a submitted modal, or return the errors for the modal."""
    if view["callback_id"] != slack_reject_modal.CALLBACK:
        return HttpResponse()
    target = _Target.read(view["private_metadata"])
    user = _find_user(str(interaction["user"]["id"]))
    if user is None:
        return _show_errors({REASON: str(NO_USER)})
    graph = _find_graph(target.pk)
    form = slack_reject_modal.read_reason(graph or "", view["state"]["values"])
    if not form.is_valid():
        return _show_errors(slack_reject_modal.find_errors(form))
    try:
        # The same user may open several modals about the same version.
        key = f"slack:{REJECT}:{str(view['id'])[:40]}"
        _decide(target, REJECT, user, key=key, reason=form.cleaned_data[REASON])
    except HitlError as error:
        _update_messages(target.pk)
        return _show_errors({REASON: _explain(error)})
    return HttpResponse()


def _show_errors(errors: dict[str, str]) -> HttpResponse:
    return JsonResponse({"response_action": "errors", "errors": errors})


def _decide(target: _Target, type_: str, user: Any, *, key: str, reason: str = "") -> None:
    services.decide(
        target.pk,
        cast(DecisionName, type_),
        by=user,
        via=VIA,
        reason=reason,
        key=key,
        digest=target.digest,
        version=target.version,
        ignore_claim=False,
    )


def _explain(error: HitlError) -> str:
    return str(next((words for kind, words in REFUSALS if isinstance(error, kind)), FAILED))


def _is_short(request: HttpRequest) -> bool:
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
        return length <= MAX_BYTES and len(request.body) <= MAX_BYTES
    except (ValueError, RequestDataTooBig):
        return False


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
    """Show a text to one Slack user only, in the channel of the click.

    Errors of Slack are logged, not raised.
    """
    channel = (click.get("channel") or {}).get("id")
    if not channel:
        return
    values = {"channel": channel, "user": slack_user, "text": str(words)}
    try:
        slack_api.call("chat.postEphemeral", values, SECONDS)
    except SlackError as error:
        logger.warning("Slack user could not be notified (%s)", error.code)


def _update_messages(interrupt_id: UUID) -> None:
    graph = _find_graph(interrupt_id)
    if graph is not None:
        batch = WriteBatch(write_alias())
        queue_update(batch, graph, str(interrupt_id))
        batch.run()


def _find_graph(interrupt_id: UUID) -> str | None:
    rows = Interrupt.objects.using(write_alias()).filter(pk=interrupt_id)
    return rows.values_list("graph", flat=True).first()
