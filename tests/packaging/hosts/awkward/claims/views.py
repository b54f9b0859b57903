from __future__ import annotations

from django.shortcuts import get_object_or_404
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

import hitl_django

from .models import Claim


class ClaimView(APIView):
    permission_classes = [IsAuthenticated]

    def post(self, request, pk):
        claim = get_object_or_404(Claim, pk=pk)
        run = hitl_django.start(
            "settlement",
            {"claim": str(claim.pk)},
            key=f"claim:{claim.pk}",
            subject=claim,
            by=request.user,
        )
        return Response({"run": str(run.id), "state": run.state}, status=202)

    def get(self, request, pk):
        return Response({"state": get_object_or_404(Claim, pk=pk).state})
