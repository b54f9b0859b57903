"""Subject, text and headers of emails.

An email names the interrupt and links to it. The email contains the payload only if the policy
allows it, because mailboxes are outside of the site's control.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.mail import DNS_NAME, EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext, ngettext

from hitl_django.audit import label_user
from hitl_django.conf import hitl
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.db.alias import write_alias
from hitl_django.dialects import is_middleware_node
from hitl_django.forms.decision_form import get_button_label
from hitl_django.forms.local_time import format_with_zone
from hitl_django.graph_registry import registry
from hitl_django.json_text.sanitize import escape_invisible, shorten
from hitl_django.models import Interrupt, ReviewItem
from hitl_django.page_urls import build_url, find_admin_page, find_request_url
from hitl_django.public_pages.brand import read_brand

from .decision_links import list_decision_urls
from .digests import Digest
from .models import NotificationPreferences
from .preferences import DIGEST, make_unsubscribe_url
from .sent_payload import Fact, SentPayload, read_payload
from .topics import NotificationTopic, is_escalation

SUBJECT_LENGTH = 200
Entry = tuple[str, str, list[str]]
#: Number of short facts in a row.
COLUMNS = 3


def build_mail(
    delivery: Delivery, user: Any, wanted: NotificationPreferences, item: Interrupt, topic: str
) -> EmailMultiAlternatives:
    """Return the email about one interrupt."""
    with translation.override(wanted.language or settings.LANGUAGE_CODE):
        title = make_line(item.title) or gettext("(erased)")
        headline = (
            gettext("Escalated")
            if is_escalation(delivery, item)
            else _headline(topic, _name(delivery.data.get("by")))
        )
        sent = read_payload("email", item)
        context: dict[str, Any] = {
            "headline": headline,
            "title": title,
            "place": name_node(item),
            "moments": list_moments(item),
            "link": find_request_url(item, user),
            "why": sent.why,
            "rows": list_rows(sent),
        }
        # A mention asks for an opinion, not for a decision.
        urls = {} if topic == NotificationTopic.MENTIONED else list_decision_urls(item, user)
        context["buttons"] = [(type_, get_button_label(item, type_), urls[type_]) for type_ in urls]
        text = [f"{headline}:", title, "", context["place"], *list_moments(item)]
        text += ["", sent.why] if sent.why else []
        text += ["", *(fact.line for fact in sent.facts)] if sent.facts else []
        links = [f"{label}: {url}" for _type, label, url in context["buttons"]]
        text += ["", *links] if links else []
        text += ["", context["link"]]
        return _build(delivery, user, f"{headline}: {title}", "request", text, context, topic)


def build_digest_mail(
    delivery: Delivery, user: Any, wanted: NotificationPreferences, digest: Digest
) -> EmailMultiAlternatives:
    """Return the daily digest as an email."""
    with translation.override(wanted.language or settings.LANGUAGE_CODE):
        subject = gettext("You were mentioned")
        if digest.count:
            words = ngettext(
                "%(n)d request needs your review", "%(n)d requests need your review", digest.count
            )
            subject = words % {"n": digest.count}
        context = {
            "headline": subject,
            "digest": digest,
            "waiting": _list_entries(digest.waiting, user),
            "mentions": _list_entries(digest.mentions, user),
            "link": _find_url(ReviewItem, "changelist"),
        }
        return _build(delivery, user, subject, "digest", _write_digest(context), context, DIGEST)


def list_rows(sent: SentPayload) -> list[Sequence[Fact]]:
    """Return the facts (labelled texts) as rows of a table.

    The first rows contain up to ``COLUMNS`` short facts each. After them, each long fact has a row.
    """
    short = sent.short
    rows: list[Sequence[Fact]] = [short[at : at + COLUMNS] for at in range(0, len(short), COLUMNS)]
    return [*rows, *([fact] for fact in sent.long)]


def name_node(item: Interrupt) -> str:
    """Return the title of the interrupt's graph and the name of its node.

    The name of a node of an agent's middleware is omitted, because it is the name of a class.
    """
    graph = make_line(str(registry.get_title(item.graph)))
    return graph if is_middleware_node(item.node) else f"{graph} ▸ {make_line(item.node)}"


def make_line(text: str) -> str:
    """Return untrusted text as one line without invisible characters."""
    return shorten(escape_invisible(text), SUBJECT_LENGTH)


def _build(
    delivery: Delivery, user: Any, subject: str, name: str, text: Sequence[str],
    context: dict[str, Any], what: str,
) -> EmailMultiAlternatives:  # fmt: skip
    unsubscribe_url = make_unsubscribe_url(user, what) if hitl.SITE_URL else None
    preferences = _find_url(NotificationPreferences, "changelist")
    context |= {
        "subject": make_line(subject),
        "unsubscribe_url": unsubscribe_url,
        "preferences": preferences,
        "language": translation.get_language(),
        "brand": read_brand(),
    }
    foot = [
        f"{words}: {url}"
        for words, url in (
            (gettext("Notification settings"), preferences),
            (gettext("Unsubscribe"), unsubscribe_url),
        )
        if url
    ]
    mail = EmailMultiAlternatives(
        make_line(subject),
        "\n".join([*text, "", "-- ", *foot, ""]),
        to=[getattr(user, user.get_email_field_name())],
    )
    html = render_to_string(f"hitl_django/notifications/mails/{name}.html", context)
    mail.attach_alternative(html, "text/html")
    mail.extra_headers = {
        "Message-ID": f"<{delivery.pk}@{_domain()}>",
        "Auto-Submitted": "auto-generated",
    }
    if unsubscribe_url:
        mail.extra_headers |= {
            "List-Unsubscribe": f"<{unsubscribe_url}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        }
    return mail


def _write_digest(context: dict[str, Any]) -> list[str]:
    digest: Digest = context["digest"]
    text = [f"{context['headline']}."]
    if digest.overdue:
        words = ngettext("%(n)s request is overdue.", "%(n)s requests are overdue.", digest.overdue)
        text.append(words % {"n": digest.overdue})
    text += _write_list(context["waiting"])
    if digest.more:
        words = ngettext("And %(n)s more request.", "And %(n)s more requests.", digest.more)
        text += ["", words % {"n": digest.more}]
    if digest.mentions:
        text += ["", gettext("You were mentioned in:"), *_write_list(context["mentions"])]
    return [*text, "", context["link"]]


def _write_list(entries: Sequence[Entry]) -> list[str]:
    found = []
    for title, url, moments in entries:
        found += ["", f"* {title}", *(f"  {line}" for line in moments)]
        found += [f"  {url}"] if url else []
    return found


def list_moments(item: Interrupt) -> list[str]:
    """Return text lines with the due time and the time of expiry of an interrupt."""
    found = []
    if item.due_at is not None:
        found.append(gettext("Due: %(when)s") % {"when": format_with_zone(item.due_at)})
    if item.expires_at is not None:
        found.append(gettext("Expires: %(when)s") % {"when": format_with_zone(item.expires_at)})
    return found


def _headline(topic: str, who: str) -> str:
    if topic == NotificationTopic.ASSIGNED:
        return gettext("%(who)s assigned a request to you") % {"who": who}
    if topic == NotificationTopic.MENTIONED:
        return gettext("%(who)s mentioned you") % {"who": who}
    if topic == NotificationTopic.DUE:
        return gettext("Due soon")
    if topic == NotificationTopic.OVERDUE:
        return gettext("Overdue")
    return gettext("Review requested")


def _name(pk: str | None) -> str:
    users = get_user_model()._default_manager.using(write_alias())
    user = users.filter(pk=pk).first() if pk else None
    return make_line(label_user(user))


def _list_entries(items: Sequence[Interrupt], user: Any) -> list[Entry]:
    return [
        (
            make_line(item.title) or gettext("(erased)"),
            find_request_url(item, user),
            list_moments(item),
        )
        for item in items
    ]


def _find_url(model: Any, page: str, *args: Any) -> str:
    path = find_admin_page(model, page, *args) if hitl.SITE_URL else ""
    return build_url(path) if path else ""


def _domain() -> str:
    return urlsplit(str(hitl.SITE_URL)).hostname or str(DNS_NAME)
