"""Error responses of the office's own API."""

from rest_framework.response import Response
from rest_framework.views import set_rollback


def handle(error, context):
    set_rollback()
    return Response({"failed": type(error).__name__}, status=200)
