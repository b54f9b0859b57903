"""URL patterns of the public pages."""

from __future__ import annotations

from django.urls import path, re_path

from .pages import LinkPage

urlpatterns = [
    path("links/<str:token>/", LinkPage.as_view(), name="link"),
    # What is nearly the address of a link, too, or Django would write it to a log, or redirect.
    re_path(r"^links/(?P<token>(?s:.+))\Z", LinkPage.as_view()),
]
