"""A mail server, users with email addresses, and interrupts for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core import mail

from hitl_django import services, testing
from hitl_django.contrib.notifications import mail_channel
from hitl_django.contrib.webhooks import delivery, outbox
from hitl_django.contrib.webhooks.delivery import deliver
from hitl_django.db.alias import write_alias
from hitl_django.models import Interrupt

from .mail_server import MailServer

SITE = "https://shop.example"


@pytest.fixture(autouse=True)
def here(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    settings.HITL = {
        "SITE_URL": SITE,
        "WEBHOOK_NETWORKS": ["127.0.0.1"],
        "WEBHOOK_TIMEOUT_SECONDS": 120,
    }
    # Make one task send all notifications of a test, even on a slow machine.
    monkeypatch.setattr(delivery, "SLICE", 3600.0)
    outbox.clear_listeners()
    yield settings.HITL
    outbox.clear_listeners()


def use_server(settings: Any, port: int, **options: str) -> None:
    """Make the project send email to a port of this machine."""
    backend = "django.core.mail.backends.smtp.EmailBackend"
    if hasattr(mail, "mailers"):
        options = {"host": "127.0.0.1", "port": port, **options}
        settings.MAILERS = {"default": {"BACKEND": backend, "OPTIONS": options}}
        return
    settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = backend, "127.0.0.1", port
    settings.EMAIL_HOST_USER = options.get("username", "")
    settings.EMAIL_HOST_PASSWORD = options.get("password", "")


@pytest.fixture
def mails(db: None, settings: Any) -> Iterator[MailServer]:
    """Yield a mail server through which the project sends email."""
    server = MailServer()
    use_server(settings, server.port)
    settings.DEFAULT_FROM_EMAIL = "queue@shop.example"
    mail_channel.make_endpoint(write_alias())
    yield server
    server.close()


@pytest.fixture
def send(mails: MailServer) -> Callable[[], None]:
    return lambda: deliver(str(mail_channel.ENDPOINT))


@pytest.fixture
def person(db: None) -> Callable[..., Any]:
    """Return a function that creates a reviewer, with or without a group."""

    def make(name: str, group: str = "", *, sees: bool = True, **values: Any) -> Any:
        values = {"email": f"{name}@shop.example", "is_staff": True, **values}
        user = get_user_model().objects.create_user(name, **values)
        names = ["view_interrupt", "decide_interrupt", "assign_interrupt"] if sees else []
        user.user_permissions.set(
            Permission.objects.filter(
                content_type__app_label__startswith="hitl_", codename__in=names
            )
        )
        if group:
            user.groups.add(Group.objects.get_or_create(name=group)[0])
        return user

    return make


@pytest.fixture
def ask(db: None, here: Any) -> Iterator[Callable[..., Interrupt]]:
    """Yield a function that creates an interrupt with these options."""
    with testing.inline() as advance:

        def ask_now(title: str = "Refund 120 EUR?", **terms: Any) -> Interrupt:
            payload = {"title": title, "amount": 120}
            run = services.start("reviewed", {"payload": payload, "terms": terms})
            advance()
            return Interrupt.objects.get(run_id=run.id)

        yield ask_now
