"""The view of a review link.

Only POST requests decide, because mail scanners follow every link. The URL is secret. Responses are
therefore not cached or indexed, and they send no referrer. This view handles errors itself, because
Django would log the URL. Django's CSRF check isn't used, because the check needs a cookie and logs
the URLs of rejected requests. The module ``signature`` replaces this check.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters

from hitl_django.admin.display.payload_files import open_payload_file
from hitl_django.admin.display.refusal_messages import Notice
from hitl_django.admin.request.request_view import (
    display_interrupt,
    display_why,
    find_template,
)
from hitl_django.conf import hitl
from hitl_django.db import outages
from hitl_django.db.alias import write_alias
from hitl_django.decision_types import REJECT
from hitl_django.engine.errors import InvalidAnswerError, PayloadError
from hitl_django.errors import (
    AlreadyDecidedError,
    RunStateError,
    StaleInterruptError,
    UndoRefusedError,
)
from hitl_django.forms import submission
from hitl_django.forms.action_forms import make_interrupt_forms
from hitl_django.forms.interrupt_forms import InterruptForms
from hitl_django.models import Decision, Interrupt
from hitl_django.public_pages.notices import TOO_OFTEN, UNKNOWN, UNREADABLE
from hitl_django.public_pages.rate import is_too_often
from hitl_django.public_pages.redaction import HIDDEN, redact_token
from hitl_django.public_pages.responses import protect_response, render_page

from .. import services
from ..errors import LinkNotFound, LinkUnusableError
from ..services import LinkInfo, LinkState
from .closed_page import (
    AWAY,
    FAILED,
    NO_FILE,
    NOT_OFFERED,
    TOO_LARGE,
    UNSIGNED,
    get_closed_message,
    get_creator,
)
from .preview import Preview, make_preview
from .signature import is_signed, sign_form

logger = logging.getLogger("hitl_django")

#: Base of the URLs of files on the page. The page must not contain its own URL.
FILE_URL = "./"
ALLOW = {"Allow": "GET, HEAD, POST"}


@method_decorator(
    [login_not_required, never_cache, csrf_exempt, sensitive_post_parameters()], name="dispatch"
)
class LinkPage(View):
    """The public page of a review link."""

    http_method_names = ("get", "head", "post")

    def dispatch(self, request: HttpRequest, token: str) -> HttpResponseBase:
        self.address = request.path
        redact_token(request, token)
        try:
            return self._answer(request, token)
        except Exception as error:
            return self._fail(request, token, error)

    def get(self, request: HttpRequest, link: LinkInfo, token: str) -> HttpResponseBase:
        """Show the interrupt, one of its files, or the state of the link."""
        if link.state != LinkState.OPEN:
            return self._show_closed_link(request, link, token)
        interrupt = _interrupt(link)
        if "at" in request.GET:
            return self._hand_out(request, interrupt, request.GET["at"])
        return self._show_form(
            request, link, make_interrupt_forms(interrupt), sign_form(link, interrupt)
        )

    def post(self, request: HttpRequest, link: LinkInfo, token: str) -> HttpResponse:
        """Decide the interrupt or undo the decision.

        If the link can't be used, the form is ignored.
        """
        undoes = services.find_undo_by_link(token) is not None
        if link.state != LinkState.OPEN and not undoes:
            return self._show_closed_link(request, link, token)
        try:
            form = submission.read_form(request)
        except submission.TOO_LARGE:
            submission.discard_body(request)
            return self._show_notice(request, TOO_LARGE, status=413)
        except submission.UNREADABLE:
            return self._show_notice(request, UNREADABLE, status=400)
        return (self._undo if undoes else self._decide)(request, link, token, form)

    def _answer(self, request: HttpRequest, token: str) -> HttpResponseBase:
        if str(request.method).lower() not in self.http_method_names:
            return self._show_notice(request, NOT_OFFERED, status=405, headers=ALLOW)
        try:
            link = services.resolve_link(token)
        except LinkNotFound:
            link = None
        if is_too_often(request, "link", hitl.THROTTLE_LINK, "" if link is None else str(link.id)):
            return self._show_notice(request, TOO_OFTEN, status=429, again=link is not None)
        if link is None:
            return self._show_notice(request, UNKNOWN, status=404)
        return super().dispatch(request, link, token)

    def _decide(
        self, request: HttpRequest, link: LinkInfo, token: str, form: QueryDict
    ) -> HttpResponse:
        interrupt = _interrupt(link)
        signature = sign_form(link, interrupt)
        more = "" if "decision" in form else form.get("more", "")
        interrupt_forms = make_interrupt_forms(interrupt, form, more=more)
        if not is_signed(form.get("signature", ""), link, interrupt):
            interrupt_forms.errors.append(UNSIGNED)
            return self._show_form(request, link, interrupt_forms, signature, status=403)
        if "preview" in form and "decision" not in form and not more:
            preview = make_preview(interrupt_forms)
            return self._show_form(request, link, interrupt_forms, signature, preview=preview)
        decision = None if more else interrupt_forms.read(form.get("decision", ""))
        if decision is None:
            return self._show_form(request, link, interrupt_forms, signature)
        try:
            reason = interrupt_forms.decision_form.cleaned_data["reason"]
            services.decide_by_link(token, *decision, reason=reason)
        except (AlreadyDecidedError, LinkUnusableError, RunStateError, StaleInterruptError):
            return self._show_closed_link(request, services.resolve_link(token), token)
        except (InvalidAnswerError, PayloadError) as error:
            interrupt_forms.refuse(error)
            return self._show_form(request, link, interrupt_forms, signature)
        return protect_response(HttpResponseRedirect(self.address))

    def _undo(
        self, request: HttpRequest, link: LinkInfo, token: str, form: QueryDict
    ) -> HttpResponse:
        if "undo" not in form or not is_signed(form.get("signature", ""), link, _interrupt(link)):
            return self._show_closed_link(request, link, token)
        try:
            services.undo_by_link(token)
        except (LinkUnusableError, UndoRefusedError):
            return self._show_closed_link(request, services.resolve_link(token), token)
        return protect_response(HttpResponseRedirect(self.address))

    def _show_form(
        self,
        request: HttpRequest,
        link: LinkInfo,
        interrupt_forms: InterruptForms,
        signature: str,
        *,
        status: int = 200,
        preview: Preview | None = None,
    ) -> HttpResponse:
        context: dict[str, Any] = {
            "preview": preview,
            "link": link,
            "interrupt_forms": interrupt_forms,
            "item": interrupt_forms.item,
            "why": display_why(interrupt_forms.item, interrupt_forms),
            "values": display_interrupt(interrupt_forms.item, interrupt_forms, FILE_URL),
            "own_template": find_template(interrupt_forms.item),
            "rejects": any(button.value == REJECT for button in interrupt_forms.buttons()),
            "maker": get_creator(link),
            "signature": signature,
        }
        return render_page(request, "hitl_django/links/request.html", status=status, **context)

    def _hand_out(
        self, request: HttpRequest, interrupt: Interrupt, pointer: str
    ) -> HttpResponseBase:
        try:
            return protect_response(open_payload_file(interrupt, pointer))
        except Http404:
            return self._show_notice(request, NO_FILE, status=404)

    def _show_closed_link(self, request: HttpRequest, link: LinkInfo, token: str) -> HttpResponse:
        """Return a page that explains why the link can't be used.

        The page contains nothing of the interrupt. If the decision can be undone, the page offers
        to undo it.
        """
        used = link.state == LinkState.USED
        message = get_closed_message(link, _decision(link) if used else None)
        again = link.state in (LinkState.CLAIMED, LinkState.WAITING)
        undo = services.find_undo_by_link(token)
        signature = "" if undo is None else sign_form(link, _interrupt(link))
        return self._show_notice(
            request, message, status=200 if used else 410, again=again, signature=signature
        )

    def _show_notice(
        self,
        request: HttpRequest,
        message: Notice,
        *,
        status: int,
        again: bool = False,
        signature: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """Return a page with a message.

        With ``again``, the visitor can submit the form again. With a ``signature``, the visitor can
        undo the decision.
        """
        context = {
            "message": message,
            "kept": _fields(request) if again else [],
            "signature": signature,
        }
        return render_page(
            request, "hitl_django/links/message.html", status=status, headers=headers, **context
        )

    def _fail(self, request: HttpRequest, token: str, error: Exception) -> HttpResponse:
        """Return the error page.

        Django's error report is not used, because it would contain the URL with the token.
        """
        text = "".join(traceback.format_exception(error)).replace(token, HIDDEN)
        logger.error("The page of a review link failed.\n%s", text)
        try:
            if outages.is_outage(error):
                wait = {"Retry-After": str(outages.WAIT)}
                return self._show_notice(request, AWAY, status=503, again=True, headers=wait)
            return self._show_notice(request, FAILED, status=500, again=True)
        except Exception:  # The templates themselves may be the cause of the error.
            return protect_response(
                HttpResponse(FAILED.headline, content_type="text/plain", status=500)
            )


def _fields(request: HttpRequest) -> list[tuple[str, str]]:
    try:
        form = submission.read_form(request)
    except (*submission.TOO_LARGE, *submission.UNREADABLE):
        return []
    return [(name, value) for name, values in form.lists() for value in values]


def _interrupt(link: LinkInfo) -> Interrupt:
    rows = Interrupt.objects.using(write_alias()).select_related("thread", "run")
    interrupt = rows.get(pk=link.interrupt_id)
    interrupt.allowed_decisions = list(link.decisions)
    return interrupt


def _decision(link: LinkInfo) -> Decision | None:
    decisions = Decision.objects.using(write_alias()).filter(interrupt=link.interrupt_id)
    return decisions.filter(key=f"{services.LINK_KEY}{link.id}").defer("value").first()
