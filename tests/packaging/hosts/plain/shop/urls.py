from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from orders.pages import CustomerPage
from orders.views import refund

urlpatterns = [
    path("admin/", admin.site.urls),
    path("hitl/", include("hitl_django.urls")),
    path("orders/<int:pk>/refund/", refund),
    path("requests/<uuid:pk>/", CustomerPage.as_view(), name="decide"),
]
