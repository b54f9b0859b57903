"""The email channel: one delivery per event, from which one delivery per person is created.

The first delivery is stored in the transaction of the event. Sending this delivery creates a
delivery for each person. The id of such a delivery is derived from the first delivery and the
person, so a repeated attempt creates no duplicates. The delivery to each person is claimed, sent
and retried separately. After a crash, at most one email to one person is sent twice, with the same
Message-ID.
"""

from __future__ import annotations

import logging
import smtplib
from time import monotonic
from typing import Any
from uuid import UUID, uuid5

from django.core import mail as django_mail
from django.core.mail import EmailMessage

from hitl_django.audit import SYSTEM
from hitl_django.conf import hitl
from hitl_django.contrib.webhooks.channels import AttemptResult, Channel
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.db.alias import write_alias

from . import digests, mails, recipients
from .models import NotificationPreferences
from .preferences import read_preferences
from .recipients import Recipient
from .topics import DIGEST, LABELS, TOPICS

logger = logging.getLogger("hitl_django")

#: Id of the email endpoint, which represents the project's mail server.
ENDPOINT = UUID("0192f0c4-6d6a-7c3b-9d0e-7a61696c2e01")
BATCH = 500

When = NotificationPreferences.When


def make_endpoint(using: str) -> None:
    """Create the email endpoint, the row to which the deliveries of all emails belong.

    Nothing happens if the endpoint exists, or if ``using`` is not the database of the runs.
    """
    if using == write_alias():
        values = {
            "channel": "email",
            "url": "mailto:",
            "description": "Email",
            "created_by_label": SYSTEM,
        }
        WebhookEndpoint.objects.using(using).get_or_create(pk=ENDPOINT, defaults=values)


def send(delivery: Delivery, endpoint: WebhookEndpoint, deadline: float) -> AttemptResult:
    """Send the email to a person or, for an event, create the deliveries to people.

    ``deadline`` is a time of ``time.monotonic()``.
    """
    if "user" in delivery.data:
        mail = _build_mail(delivery)
        return mail if isinstance(mail, AttemptResult) else _hand_over(mail, deadline - monotonic())
    if delivery.event == DIGEST:
        found = [Recipient(pk, When.NOW) for pk in digests.list_readers()]
        return _fan_out(delivery, found)
    item = recipients.find_item(delivery)
    topic = None if item is None else recipients.find_topic(delivery, item)
    if item is None or topic is None:
        return _drop("Nothing left to send.")
    return _fan_out(delivery, recipients.list_recipients(delivery, item, topic), topic=str(topic))


def _fan_out(delivery: Delivery, found: Any, **data: Any) -> AttemptResult:
    default = hitl.NOTIFICATION_DEFAULT
    told = [one.user_id for one in found if (one.when or default) == When.NOW]
    undecided = [one.user_id for one in found if not one.when]
    if default == When.DAILY and undecided:
        # The digest selects people by their row, so each of them needs a row.
        rows = [NotificationPreferences(user_id=pk) for pk in undecided]
        NotificationPreferences.objects.bulk_create(rows, ignore_conflicts=True, batch_size=BATCH)
    if not told:
        return _drop("No recipients with immediate notifications.")
    messages = [
        Delivery(
            pk=uuid5(delivery.pk, str(pk)),
            endpoint_id=delivery.endpoint_id,
            event=delivery.event,
            data={**delivery.data, **data, "user": str(pk)},
        )
        for pk in told
    ]
    Delivery.objects.using(write_alias()).bulk_create(
        messages, ignore_conflicts=True, batch_size=BATCH
    )
    return AttemptResult(ends=Delivery.State.DELIVERED)


def _build_mail(delivery: Delivery) -> EmailMessage | AttemptResult:
    """Return the email to a person, or the reason why no email is sent."""
    user = recipients.select_reachable().filter(pk=delivery.data["user"]).first()
    if user is None:
        return _drop("The account doesn't exist, is inactive, or has no email address.")
    wanted = read_preferences(user)
    if delivery.event == DIGEST:
        digest = digests.build_digest(user, wanted, delivery)
        return (
            mails.build_digest_mail(delivery, user, wanted, digest)
            if digest
            else _drop("Nothing to report.")
        )
    topic = delivery.data["topic"]
    if wanted.get(topic) != When.NOW:
        return _drop("The user turned off immediate notifications.")
    item = recipients.find_item(delivery, user)
    if item is None:
        return _drop("The request doesn't exist, or the user can't view it.")
    if not recipients.is_theirs(item, user, topic):
        return _drop("The request was closed or reassigned.")
    return mails.build_mail(delivery, user, wanted, item, topic)


def _hand_over(mail: EmailMessage, seconds: float) -> AttemptResult:
    try:
        with _open_connection(seconds) as connection:
            connection.send_messages([mail])
    except smtplib.SMTPRecipientsRefused as refusal:
        code, words = next(iter(refusal.recipients.values()))
        return _refused(code, f"The mail server rejected the recipient ({_words(words)}).")
    except smtplib.SMTPDataError as refusal:
        return _refused(
            refusal.smtp_code,
            f"The mail server rejected the message ({_words(refusal.smtp_error)}).",
        )
    except smtplib.SMTPResponseException as refusal:
        # The login or the sender was refused. This concerns all emails, so this delivery stays
        # pending.
        return AttemptResult(
            fault=f"The mail server refused the connection ({_words(refusal.smtp_error)})."
        )
    except smtplib.SMTPException as error:
        return AttemptResult(fault=f"The mail server failed ({type(error).__name__}).")
    except ValueError:  # Django raises this error if a value can't be written into a header.
        return _drop("The account's email address is invalid.")
    except TimeoutError:
        return AttemptResult(fault="The mail server timed out.")
    except OSError as error:
        return AttemptResult(fault=f"The mail server can't be reached: {error.strerror or error}.")
    return AttemptResult(250)


def _open_connection(seconds: float) -> Any:
    mailers = getattr(django_mail, "mailers", None)  # Available from Django 6.1.
    connection: Any = django_mail.get_connection() if mailers is None else mailers.default
    # Without a timeout, the connection would wait forever.
    if getattr(connection, "timeout", seconds) is None:
        connection.timeout = max(seconds, 1.0)
    return connection


def _refused(code: int, fault: str) -> AttemptResult:
    # Codes from 400 to 499 are temporary failures of this email. Codes from 500 on are permanent.
    return AttemptResult(code, fault=fault, ends=Delivery.State.DEAD if code >= 500 else None)


def _words(text: bytes | str) -> str:
    plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return " ".join(plain.split())[:150]


def _drop(reason: str) -> AttemptResult:
    return AttemptResult(fault=reason, ends=Delivery.State.DEAD)


EVENTS = frozenset({*TOPICS, DIGEST})
MAIL = Channel("email", lambda: EVENTS, send, is_personal=True, labels=LABELS)
