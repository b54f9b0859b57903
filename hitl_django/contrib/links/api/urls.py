"""URL patterns of review links, below ``api/v1/``."""

from __future__ import annotations

from django.urls import path

from . import views

urlpatterns = [
    path("interrupts/<uuid:interrupt_id>/links/", views.LinkList.as_view(), name="links"),
    path(
        "interrupts/<uuid:interrupt_id>/links/<uuid:link_id>/",
        views.LinkDetail.as_view(),
        name="link-detail",
    ),
]
