"""Floor of decisions over HTTP: a view with one conditional UPDATE and one INSERT."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.urls import path
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from hitl_django.models import Decision, Interrupt


class Body(serializers.Serializer[Any]):
    type = serializers.ChoiceField(choices=Decision.Type.choices)
    value = serializers.JSONField()


class Decisions(APIView):
    permission_classes = [IsAuthenticated]  # noqa: RUF012  (as DRF has it)

    def post(self, request: Request, interrupt_id: UUID) -> Response:
        body = Body(data=request.data)
        body.is_valid(raise_exception=True)
        with transaction.atomic():
            closed = Interrupt.objects.filter(pk=interrupt_id, status="pending").update(
                status="decided", closed_at=Now(), version=F("version") + 1
            )
            if not closed:
                return Response(status=409)
            decision = Decision.objects.create(
                interrupt_id=interrupt_id,
                version=1,
                by=request.user,
                by_label=request.user.get_username(),
                via="api",
                **body.validated_data,
            )
        return Response({"id": str(decision.pk), "type": decision.type}, status=202)


urlpatterns = [path("hitl/api/v1/interrupts/<uuid:interrupt_id>/decisions/", Decisions.as_view())]
