"""URL patterns that a host includes: ``path("hitl/", include("hitl_django.urls"))``."""

from __future__ import annotations

from importlib import import_module

from django.urls import URLPattern, URLResolver, include, path, re_path

from hitl_django.api.views.not_found import NotFoundView
from hitl_django.extensions import list_extensions
from hitl_django.link_pages import LinkPage

app_name = "hitl_django"

urlpatterns: list[URLPattern | URLResolver] = [
    path("links/<str:token>/", LinkPage.as_view(), name="link"),
    # What is nearly the address of a link, too, or Django would write it to a log, or redirect.
    re_path(r"^links/(?P<token>(?s:.+))\Z", LinkPage.as_view()),
    path("api/v1/", include("hitl_django.api.urls")),
    re_path("^api/v1/", NotFoundView.as_view()),
]
for _extension in list_extensions():
    if _extension.urls:
        urlpatterns += import_module(_extension.urls).urlpatterns
