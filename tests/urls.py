"""URLs of the test suite: the admin and the API, included as in a project."""

from __future__ import annotations

from django.apps import apps
from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("hitl/", include("hitl_django.urls")),
    path("agent/", include("hitl_django.contrib.langgraph_api.urls")),
]
if apps.is_installed("grappelli"):
    urlpatterns.append(path("grappelli/", include("grappelli.urls")))
