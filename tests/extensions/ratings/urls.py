"""URL patterns below ``api/v1/``."""

from __future__ import annotations

from django.urls import path
from rest_framework.permissions import IsAdminUser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from .models import Rating


class RatingList(APIView):
    permission_classes = (IsAdminUser,)

    def get(self, request: Request) -> Response:
        return Response([*Rating.objects.order_by("pk").values("interrupt", "stars")])


urlpatterns = [path("ratings/", RatingList.as_view(), name="ratings")]
