"""The page of an unsubscribe link. Only a POST request unsubscribes.

Mail scanners follow every link, so GET requests change nothing. Mail clients unsubscribe with one
POST request according to RFC 8058. Mail clients send no cookies, so Django's CSRF check isn't used.
The signed URL only allows unsubscribing.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from hitl_django.audit import label_user
from hitl_django.forms import submission
from hitl_django.public_pages.notices import UNKNOWN, UNREADABLE
from hitl_django.public_pages.responses import render_page

from .preferences import ALL, DIGEST, read_unsubscribe_token, unsubscribe
from .topics import NotificationTopic

MESSAGE = "hitl_django/public/message.html"


@method_decorator([login_not_required, never_cache, csrf_exempt], name="dispatch")
class UnsubscribeView(View):
    """The page of an unsubscribe link."""

    http_method_names = ("get", "head", "post")

    def get(self, request: HttpRequest, token: str) -> HttpResponse:
        found = read_unsubscribe_token(token)
        if found is None:
            return render_page(request, MESSAGE, status=404, message=UNKNOWN)
        user, what = found
        return self._page(request, what, name=label_user(user))

    def post(self, request: HttpRequest, token: str) -> HttpResponse:
        """Turn off the topic of the link, or all topics."""
        found = read_unsubscribe_token(token)
        if found is None:
            return render_page(request, MESSAGE, status=404, message=UNKNOWN)
        try:
            form = submission.read_form(request)
        except (*submission.TOO_LARGE, *submission.UNREADABLE):
            return render_page(request, MESSAGE, status=400, message=UNREADABLE)
        user, what = found
        what = ALL if form.get("what") == ALL else what
        unsubscribe(user, what)
        return self._page(request, what, stopped=True)

    def _page(self, request: HttpRequest, what: str, **context: Any) -> HttpResponse:
        topic = NotificationTopic(what).label if what in NotificationTopic.values else ""
        if what == DIGEST:
            topic = gettext("Daily digest")
        return render_page(
            request, "hitl_django/public/unsubscribe.html", status=200, topic=topic, **context
        )
