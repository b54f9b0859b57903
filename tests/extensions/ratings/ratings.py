"""Work on ratings: in the sweep and for the doctor."""

from __future__ import annotations

from collections.abc import Iterator

from hitl_django.extensions import Finding

from .models import Rating


def delete_empty() -> None:
    Rating.objects.filter(stars=0).delete()


def report_missing() -> Iterator[Finding]:
    if not Rating.objects.exists():
        yield Finding("note", "Nobody has rated an interrupt.")
