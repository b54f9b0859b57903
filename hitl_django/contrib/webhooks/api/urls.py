"""URL patterns of webhooks and deliveries."""

from __future__ import annotations

from django.urls import path

from . import views

urlpatterns = [
    path("webhooks/", views.WebhookList.as_view(), name="webhooks"),
    path("webhooks/<uuid:webhook_id>/", views.WebhookDetail.as_view(), name="webhook"),
    path(
        "webhooks/<uuid:webhook_id>/secret/",
        views.WebhookSecret.as_view(),
        name="webhook-secret",
    ),
    path("webhooks/<uuid:webhook_id>/test/", views.WebhookTest.as_view(), name="webhook-test"),
    path(
        "webhooks/<uuid:webhook_id>/deliveries/",
        views.DeliveryList.as_view(),
        name="deliveries",
    ),
    path("deliveries/<uuid:delivery_id>/", views.DeliveryDetail.as_view(), name="delivery"),
    path(
        "deliveries/<uuid:delivery_id>/redeliver/",
        views.Redelivery.as_view(),
        name="redeliver",
    ),
]
