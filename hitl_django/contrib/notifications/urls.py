"""URL patterns of notifications, which ``hitl_django.urls`` includes."""

from __future__ import annotations

from django.urls import path

from .email_decision_page import EmailDecisionView
from .slack_actions import SlackActionsView
from .unsubscribe_page import UnsubscribeView

urlpatterns = [
    path("notifications/slack/", SlackActionsView.as_view(), name="slack-actions"),
    path("notifications/decide/<str:token>/", EmailDecisionView.as_view(), name="email-decision"),
    path("notifications/unsubscribe/<str:token>/", UnsubscribeView.as_view(), name="unsubscribe"),
]
