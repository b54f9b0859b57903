from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

import hitl_django

from .models import Order


@require_POST
@login_required
def refund(request: HttpRequest, pk: int) -> JsonResponse:
    order = get_object_or_404(Order, pk=pk)
    run = hitl_django.start(
        "refund",
        {"order": order.pk, "cents": order.cents},
        key=f"refund:{order.pk}",
        subject=order,
        by=request.user,
    )
    return JsonResponse({"run": str(run.id), "created": run.created}, status=202)
