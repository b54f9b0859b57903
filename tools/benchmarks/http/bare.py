"""Bare views of Django REST framework that do the minimum of the API's views.

The views use the API's tables and answer with the members of the API's responses. They check the
login and one permission. They have no filters, no other permissions, no rate limits, no audit log,
no runs and no check of the decision's value.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from rest_framework import generics, pagination, permissions, serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from hitl_django.models import Decision, Interrupt
from hitl_django.models.review import LARGE_COLUMNS, queue_order


class Listed(serializers.Serializer[Any]):
    """The members of the API's list, without computed values and URLs."""

    id = serializers.UUIDField()
    url = serializers.CharField(source="id")
    review_url = serializers.CharField(source="id")
    run = serializers.UUIDField(source="run_id")
    thread_id = serializers.CharField(source="thread.thread_id")
    kind = serializers.CharField()
    graph = serializers.CharField()
    node = serializers.CharField()
    title = serializers.CharField()
    dialect = serializers.CharField()
    allowed_decisions = serializers.JSONField()
    status = serializers.CharField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    closed_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()
    assignee = serializers.CharField(source="assignee_label")
    group = serializers.CharField(source="group_label")
    claimed_by = serializers.CharField(source="claimed_by_label")
    claimed_until = serializers.DateTimeField()
    snoozed_until = serializers.DateTimeField()
    priority = serializers.IntegerField()
    due_at = serializers.DateTimeField()
    overdue = serializers.BooleanField()


class Decided(serializers.Serializer[Any]):
    """The members of a decision in the API."""

    id = serializers.UUIDField()
    interrupt = serializers.UUIDField(source="interrupt_id")
    version = serializers.IntegerField()
    type = serializers.CharField()
    value = serializers.JSONField()
    reason = serializers.CharField()
    refusal = serializers.CharField()
    by = serializers.CharField(source="by_label")
    via = serializers.CharField()
    claimed_by = serializers.CharField(source="claimed_by_label")
    complete = serializers.BooleanField(source="effective")
    approvals = serializers.IntegerField()
    quorum = serializers.IntegerField()
    patch = serializers.JSONField()
    created_at = serializers.DateTimeField()
    undone_at = serializers.DateTimeField()


class Detailed(Listed):
    """The members of one interrupt in the API. Without a decision, three of them are null."""

    why = serializers.CharField()
    payload = serializers.JSONField()
    digest = serializers.CharField(source="payload_digest")
    response_schema = serializers.JSONField()
    editable = serializers.JSONField()
    quorum = serializers.IntegerField()
    approvals = serializers.IntegerField()
    proposal = serializers.JSONField()
    no_self_approval = serializers.BooleanField()
    claim_required = serializers.BooleanField()
    decision = serializers.ReadOnlyField(default=None)
    refused = serializers.ReadOnlyField(default=None)
    resumes_at = serializers.ReadOnlyField(default=None)
    settled = serializers.ReadOnlyField(default=False)


class Given(serializers.Serializer[Any]):
    """The body of a decision."""

    type = serializers.ChoiceField(["approve", "reject"])
    reason = serializers.CharField(required=False)


class MayDecide(permissions.IsAuthenticated):
    def has_permission(self, request: Any, view: Any) -> bool:
        return super().has_permission(request, view) and request.user.has_perm(view.permission)


class Pages(pagination.CursorPagination):
    page_size, ordering = 25, "created_at"


class List(generics.ListAPIView[Interrupt]):
    permission = "hitl_django.view_interrupt"
    permission_classes = (MayDecide,)
    pagination_class = Pages
    serializer_class = Listed
    queryset = (
        Interrupt.objects.filter(status="pending").select_related("thread").defer(*LARGE_COLUMNS)
    )


class Next(APIView):
    permission = "hitl_django.decide_interrupt"
    permission_classes = (MayDecide,)

    def post(self, request: Any) -> Response:
        now = timezone.now()
        free = Q(claimed_until__isnull=True) | Q(claimed_until__lte=now)
        rows = Interrupt.objects.filter(free, status="pending").order_by(*queue_order())
        rows = rows.select_related("thread").select_for_update(skip_locked=True, of=("self",))
        with transaction.atomic():
            row = rows.first()
            if row is None:
                return Response(status=204)
            row.claimed_by, row.claimed_by_label = request.user, request.user.username
            row.claimed_until = now + timedelta(minutes=10)
            row.save(update_fields=["claimed_by", "claimed_by_label", "claimed_until"])
        return Response(Detailed(row).data)


class Decide(APIView):
    permission = "hitl_django.decide_interrupt"
    permission_classes = (MayDecide,)

    def post(self, request: Any, pk: Any) -> Response:
        given = Given(data=request.data)
        given.is_valid(raise_exception=True)
        user = request.user
        with transaction.atomic():
            row = generics.get_object_or_404(
                Interrupt.objects.select_for_update(), pk=pk, status="pending"
            )
            row.status, row.closed_at, row.version = "decided", timezone.now(), row.version + 1
            row.save(update_fields=["status", "closed_at", "version"])
            decision = Decision.objects.create(
                interrupt=row,
                version=row.version - 1,
                value=True,
                by=user,
                by_label=user.username,
                via="api",
                request_digest="",
                payload_digest=row.payload_digest,
                created_at=timezone.now(),
                **given.validated_data,
            )
        return Response(Decided(decision).data, status=201)
