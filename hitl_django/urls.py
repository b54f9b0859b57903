"""URL patterns that a host includes: ``path("hitl/", include("hitl_django.urls"))``."""

from __future__ import annotations

from django.apps import apps
from django.urls import URLPattern, URLResolver, include, path, re_path

from hitl_django.api.views.not_found import NotFoundView
from hitl_django.link_pages import LinkPage

app_name = "hitl_django"

urlpatterns: list[URLPattern | URLResolver] = [
    path("links/<str:token>/", LinkPage.as_view(), name="link"),
    # What is nearly the address of a link, too, or Django would write it to a log, or redirect.
    re_path(r"^links/(?P<token>(?s:.+))\Z", LinkPage.as_view()),
    path("api/v1/", include("hitl_django.api.urls")),
    re_path("^api/v1/", NotFoundView.as_view()),
]
if apps.is_installed("hitl_django.contrib.alerts"):
    from hitl_django.contrib.alerts.stop_page import StopPage

    urlpatterns.append(path("alerts/stop/<str:token>/", StopPage.as_view(), name="alerts-stop"))
