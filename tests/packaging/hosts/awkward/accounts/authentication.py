from __future__ import annotations

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed

from .models import Person


class KeyAuthentication(BaseAuthentication):
    """``Authorization: Key …``, the header of the office's own clients."""

    def authenticate(self, request):
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Key":
            return None
        person = Person.people.filter(api_key=key).exclude(api_key="").first()
        if person is None:
            raise AuthenticationFailed("Nobody has this key.")
        return person, key

    def authenticate_header(self, request):
        return "Key"
