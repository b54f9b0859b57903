"""Authentication with the header ``x-api-key``, if the project maps keys to users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.module_loading import import_string
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from hitl_django.conf import hitl

HEADER = "X-Api-Key"


class ApiKeyAuthentication(BaseAuthentication):
    """Authentication of the user that ``HITL["API_KEY_USER_RESOLVER"]`` returns for an API key."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        key = request.headers.get(HEADER)
        if not key or hitl.API_KEY_USER_RESOLVER is None:
            return None
        find_user: Callable[[str], Any] = import_string(hitl.API_KEY_USER_RESOLVER)
        user = find_user(key)
        if user is None:
            raise AuthenticationFailed("Invalid API key.")
        return user, None

    def authenticate_header(self, request: Request) -> str:
        return HEADER
