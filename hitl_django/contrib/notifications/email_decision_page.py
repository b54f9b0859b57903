"""The page on which the recipient of an email confirms a decision.

Only a POST request with a signed form decides, because mail scanners follow every link. The token
in the URL is the authorization, so the page needs no login. The page shows the payload only if the
policy allows sending it by email.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy as _
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters

from hitl_django.admin.display.refusal_messages import Notice
from hitl_django.admin.request.request_view import display_why
from hitl_django.audit import label_user
from hitl_django.decision_types import DECISION_TYPES, REJECT
from hitl_django.engine.errors import HitlError
from hitl_django.errors import ClaimedError
from hitl_django.forms import submission
from hitl_django.forms.decision_form import get_button_label
from hitl_django.page_urls import find_request_url
from hitl_django.permissions import get_policy
from hitl_django.public_pages.notices import TOO_OFTEN, UNKNOWN, UNREADABLE
from hitl_django.public_pages.rate import is_too_often
from hitl_django.public_pages.redaction import redact_token
from hitl_django.public_pages.responses import protect_response, render_page

from . import decision_links
from .decision_links import DecisionLink, DecisionLinkState
from .mails import list_moments, name_node
from .sent_payload import copy_redacted, display_redacted

MESSAGE = "hitl_django/notifications/decision_message.html"
#: Limit of HTTP requests for each link, and for each IP address for invalid links.
LIMIT = "60/min"
REASON_LENGTH = 2000

BY_STATE = {
    DecisionLinkState.EXPIRED: Notice(
        _("This link has expired"), (_("You can still decide on the page of the request."),)
    ),
    DecisionLinkState.INVALID: Notice(_("This link is no longer valid")),
    DecisionLinkState.STALE: Notice(
        _("This request has changed"),
        (_("The email was about an earlier version of the request. Nothing was saved."),),
    ),
    DecisionLinkState.CLOSED: Notice(
        _("This request is closed"),
        (_("The request was decided or withdrawn. Nothing was saved."),),
    ),
    DecisionLinkState.BLOCKED: Notice(
        _("This request can't be decided here right now"), (_("Open the page of the request."),)
    ),
}
CLAIMED = Notice(
    _("Someone else is working on this request right now"),
    (_("Nothing was saved."), _("Open the page of the request.")),
)
USED = _("Your decision has been saved")
NOT_SAVED = _("Your decision could not be saved. Open the page of the request.")
UNSIGNED = _("Your session could not be verified. Check the page and submit again.")


@method_decorator(
    [login_not_required, never_cache, csrf_exempt, sensitive_post_parameters()], name="dispatch"
)
class EmailDecisionView(View):
    """The confirmation page of a decision by email."""

    http_method_names = ("get", "head", "post")

    def dispatch(self, request: HttpRequest, token: str) -> Any:
        self.address, self.token = request.path, token
        redact_token(request, token)
        link = decision_links.read_link(token)
        if is_too_often(request, "email", LIMIT, "" if link is None else link.key):
            return render_page(request, MESSAGE, status=429, message=TOO_OFTEN)
        if link is None:
            return render_page(request, MESSAGE, status=404, message=UNKNOWN)
        return super().dispatch(request, link)

    def get(self, request: HttpRequest, link: DecisionLink) -> HttpResponse:
        """Show the interrupt with the form or, if the link can't be used, the reason."""
        if link.state != DecisionLinkState.OPEN:
            return self._close(request, link)
        return self._show_form(request, link)

    def post(self, request: HttpRequest, link: DecisionLink) -> HttpResponse:
        """Store the decision."""
        if link.state != DecisionLinkState.OPEN:
            return self._close(request, link)
        try:
            form = submission.read_form(request)
        except (*submission.TOO_LARGE, *submission.UNREADABLE):
            return render_page(request, MESSAGE, status=400, message=UNREADABLE)
        reason = form.get("reason", "")[:REASON_LENGTH]
        if not decision_links.is_signed(form.get("signature", ""), link):
            return self._show_form(request, link, status=403, error=UNSIGNED, reason=reason)
        try:
            decision_links.decide_by_email(link, reason=reason)
        except ClaimedError:
            return self._show_notice(request, link, CLAIMED)
        except HitlError:
            # Usually, the request was decided or changed in the meantime.
            link = decision_links.read_link(self.token) or link
            if link.state != DecisionLinkState.OPEN:
                return self._close(request, link)
            return self._show_form(request, link, status=409, error=NOT_SAVED, reason=reason)
        return protect_response(HttpResponseRedirect(self.address))

    def _show_form(
        self,
        request: HttpRequest,
        link: DecisionLink,
        *,
        status: int = 200,
        **context: Any,
    ) -> HttpResponse:
        item = link.item
        assert item is not None
        context |= {
            "item": item,
            "place": name_node(item),
            "moments": list_moments(item),
            "name": label_user(link.user),
            "type": link.type,
            "takes_reason": link.type == REJECT,
            "label": get_button_label(item, link.type),
            "signature": decision_links.sign_form(link),
            "url": find_request_url(item, link.user),
        }
        if get_policy().may_send_payload("email", item):
            redacted = copy_redacted(item)
            context |= {"why": display_why(redacted, None), "values": display_redacted(redacted)}
        template = "hitl_django/notifications/decision.html"
        return render_page(request, template, status=status, **context)

    def _close(self, request: HttpRequest, link: DecisionLink) -> HttpResponse:
        if link.decision is None:
            return self._show_notice(request, link, BY_STATE[link.state])
        type_ = DECISION_TYPES.get(link.decision.type)
        line = "" if type_ is None else type_.thanks
        return self._show_notice(request, link, Notice(USED, (line,), "done"), status=200)

    def _show_notice(
        self, request: HttpRequest, link: DecisionLink, message: Notice, *, status: int = 410
    ) -> HttpResponse:
        url = "" if link.item is None else find_request_url(link.item, link.user)
        return render_page(request, MESSAGE, status=status, message=message, url=url)
