"""URL patterns of the public pages."""

from __future__ import annotations

from django.urls import path, re_path

from .pages import LinkPage

urlpatterns = [
    path("links/<str:token>/", LinkPage.as_view(), name="link"),
    # Also match URLs close to a link's, which Django would otherwise log or redirect.
    re_path(r"^links/(?P<token>(?s:.+))\Z", LinkPage.as_view()),
]
