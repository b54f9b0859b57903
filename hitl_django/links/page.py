"""What a link shows, and how it decides: by POST only, since mail scanners follow every link.

The address is the secret. So nothing on the page leads to another site, nothing of it is kept by a
cache or found by a search engine, and no other site is told where a visitor came from. The policy
for that is ``same-origin`` and not ``no-referrer``: with the latter a browser says ``Origin: null``
when the form is sent, which Django's protection against forged requests has to refuse.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from hitl_django import dispatch, services
from hitl_django.admin.actions import sheet_of
from hitl_django.admin.asked import facts_asked, why_asked
from hitl_django.admin.sheet import Sheet
from hitl_django.engine.errors import (
    AlreadyDecidedError,
    InvalidAnswerError,
    LinkNotFound,
    LinkSpentError,
    PayloadError,
    RunStateError,
    StaleQuestionError,
)
from hitl_django.models import Decision, Interrupt
from hitl_django.services import LinkInfo, LinkState

from .rate import is_too_often
from .words import TOO_LARGE, TOO_OFTEN, UNKNOWN, Words, maker_of, words_for

HEADERS = {
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}


@method_decorator(
    [login_not_required, never_cache, csrf_protect, sensitive_post_parameters()], name="dispatch"
)
class LinkPage(View):
    """The one page there is: the question with its form, or why there is none."""

    http_method_names = ["get", "head", "post"]  # noqa: RUF012

    @sensitive_variables("token")
    def dispatch(self, request: HttpRequest, token: str) -> HttpResponseBase:
        try:
            link = services.follow_link(token)
        except LinkNotFound:
            link = None
        if is_too_often(request, None if link is None else link.id):
            return self._say(request, TOO_OFTEN, status=429)
        if link is None:
            return self._say(request, UNKNOWN, status=404)
        return super().dispatch(request, link, token)

    def get(self, request: HttpRequest, link: LinkInfo, token: str) -> HttpResponse:
        """Shows the question, or what became of the link; changes nothing."""
        if link.state != LinkState.OPEN:
            return self._spent(request, link)
        return self._ask(request, link, sheet_of(_question(link)))

    @sensitive_variables("token")
    def post(self, request: HttpRequest, link: LinkInfo, token: str) -> HttpResponse:
        """Decides the question."""
        if link.state != LinkState.OPEN:
            return self._spent(request, link)
        more = "" if "decision" in request.POST else request.POST.get("more", "")
        sheet = sheet_of(_question(link), request.POST, more=more)
        decision = None if more else sheet.read(request.POST.get("decision", ""))
        if decision is None:
            return self._ask(request, link, sheet)
        try:
            reason = sheet.slip.cleaned_data["reason"]
            services.decide_by_link(token, *decision, reason=reason)
        except (AlreadyDecidedError, LinkSpentError, RunStateError, StaleQuestionError):
            return self._spent(request, services.follow_link(token))
        except (InvalidAnswerError, PayloadError) as error:
            sheet.refuse(error)
            return self._ask(request, link, sheet)
        return HttpResponseRedirect(request.path)

    @classmethod
    def too_large(cls, request: HttpRequest, *, too_many: bool) -> HttpResponse:
        """Says that what was sent is more than can be read."""
        return cls()._say(request, TOO_LARGE, status=413)

    def _ask(self, request: HttpRequest, link: LinkInfo, sheet: Sheet) -> HttpResponse:
        told = {
            "item": sheet.item,
            "why": why_asked(sheet.item, sheet),
            "facts": facts_asked(sheet.item, sheet),
            "maker": maker_of(link),
        }
        return self._page(request, "question.html", 200, sheet=sheet, link=link, **told)

    def _spent(self, request: HttpRequest, link: LinkInfo) -> HttpResponse:
        """Says why the link can't be used, and nothing of what it was about."""
        used = link.state == LinkState.USED
        words = words_for(link, _decision(link) if used else None)
        return self._say(request, words, status=200 if used else 410)

    def _say(self, request: HttpRequest, words: Words, *, status: int) -> HttpResponse:
        return self._page(request, "words.html", status, words=words)

    def _page(
        self, request: HttpRequest, template: str, status: int, **context: Any
    ) -> HttpResponse:
        name = f"hitl_django/links/{template}"
        response = TemplateResponse(request, name, context, status=status)
        # Django logs the address of each refusal, and this one may still open something.
        response._has_been_logged = True  # type: ignore[attr-defined]
        for header, value in HEADERS.items():
            response.headers[header] = value
        response.headers["Content-Security-Policy"] = _content_policy()
        return response


def _question(link: LinkInfo) -> Interrupt:
    """Reads the question as the link shows it: with those decisions only that it is for."""
    rows = Interrupt.objects.using(dispatch.alias()).select_related("thread", "run")
    question = rows.get(pk=link.interrupt_id)
    question.allowed_decisions = list(link.decisions)
    return question


def _decision(link: LinkInfo) -> Decision | None:
    decisions = Decision.objects.using(dispatch.alias()).filter(interrupt=link.interrupt_id)
    return decisions.filter(key=f"{services.LINK_KEY}{link.id}").defer("value").first()


def _content_policy() -> str:
    """Allows the page its own style sheet, from wherever static files come, and nothing else."""
    found = urlsplit(static("hitl_django/link.css"))
    styles = f"{found.scheme or 'https'}://{found.netloc}" if found.netloc else "'self'"
    return (
        f"default-src 'none'; style-src {styles}; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
