"""URLs of the demo project."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from . import pages
from .graphs import HAS_SUPPORT

urlpatterns = [
    path("", pages.landing, name="landing"),
    path("login/", pages.log_in, name="demo-login"),
    path("chat/", pages.chat, name="chat"),
    path("admin/", admin.site.urls),
    path("hitl/", include("hitl_django.urls")),
]
if HAS_SUPPORT:
    urlpatterns.append(path("agent/", include("hitl_django.contrib.langgraph_api.urls")))
