"""URLs of the demo project."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.urls import include, path
from django.views.generic import TemplateView

from .graphs import HAS_SUPPORT

landing = TemplateView.as_view(
    template_name="landing.html", extra_context={"has_support": HAS_SUPPORT}
)
urlpatterns = [
    path("", landing, name="landing"),
    path("admin/", admin.site.urls),
    path("hitl/", include("hitl_django.urls")),
]
if HAS_SUPPORT:
    chat = TemplateView.as_view(template_name="chat.html")
    urlpatterns += [
        path("agent/", include("hitl_django.contrib.langgraph_api.urls")),
        path("chat/", login_required(chat, login_url="admin:login"), name="chat"),
    ]
