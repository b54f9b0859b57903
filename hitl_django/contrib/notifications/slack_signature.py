"""The signature of requests from Slack, version v0."""

from __future__ import annotations

import hashlib
import hmac
import time

from django.http import HttpRequest

from hitl_django.conf import hitl

#: Maximum difference between the time of a request and now, in seconds.
WINDOW = 300


def is_from_slack(request: HttpRequest) -> bool:
    """Return whether the signature and the time of a request are valid."""
    stamp = request.headers.get("X-Slack-Request-Timestamp", "")
    given = request.headers.get("X-Slack-Signature", "")
    if not (stamp.isascii() and stamp.isdigit()) or abs(time.time() - int(stamp[:12])) > WINDOW:
        return False
    expected = sign(str(hitl.SLACK_SIGNING_SECRET), stamp, request.body)
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


def sign(secret: str, stamp: str, body: bytes) -> str:
    """Return the signature of a request with the given timestamp and body."""
    made = hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + body, hashlib.sha256)
    return f"v0={made.hexdigest()}"
