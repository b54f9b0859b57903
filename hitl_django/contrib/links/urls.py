"""URL patterns of the public pages."""

from __future__ import annotations

from django.urls import path, re_path

from .pages import LinkPage

urlpatterns = [
    path("links/<str:token>/", LinkPage.as_view(), name="link"),
    # Also match URLs that are similar to a link's URL, because Django would log or redirect them.
    re_path(r"^links/(?P<token>(?s:.+))\Z", LinkPage.as_view()),
]
