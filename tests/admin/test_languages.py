"""The admin in other languages: the German catalogue, and translatable texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import translation
from django.utils.translation import ngettext

from hitl_django import services
from hitl_django.contrib.links.services import create_review_link
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Decision, Interrupt, Run

from .browsing import press, text_of, told
from .conftest import list_of, make_interrupt, page_of
from .test_hostile import Markup

MODELS = (
    "reviewitem", "decision", "run", "thread", "webhookendpoint", "delivery", "reviewlink",
    "schedule",
)  # fmt: skip
GERMAN = {"HTTP_ACCEPT_LANGUAGE": "de-AT,de;q=0.9,en;q=0.5"}


@pytest.fixture
def multilingual(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]


@pytest.mark.usefixtures("multilingual")
def test_queue_is_in_german_for_a_german_browser(
    reviewer: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    page = text_of(reviewer.get(list_of(), **GERMAN))
    assert '<html lang="de"' in page
    assert "1 offene Anfrage" in page
    assert "Mit den ausgewählten" in page
    asked()
    assert "2 offene Anfragen" in text_of(reviewer.get(list_of(), **GERMAN))
    assert "2 pending requests" in text_of(reviewer.get(list_of()))
    assert item.title in page  # payloads of graphs are not translated


@pytest.mark.usefixtures("multilingual")
def test_request_page_in_german_saves_approval_and_confirms_in_german(
    reviewer: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked("approval")
    page = text_of(reviewer.get(page_of(item), **GERMAN))
    for words in ("Anfrage", "Freigeben", "Ablehnen", "Rohdaten"):
        assert words in page
    reviewer.defaults |= GERMAN
    (said,) = told(press(reviewer, item, "approve"))
    assert said.startswith(f"Sie haben „{item.title}“ freigegeben.")
    assert Decision.objects.get().type == "approve"


@pytest.mark.usefixtures("multilingual")
@pytest.mark.parametrize(
    ("limit", "reply", "is_json", "words"),
    [
        ("RESPONSE_MAX_BYTES", "x" * 300, False,
         "Die Antwort umfasst 302 Bytes; die Grenze ist 10."),
        ("RESPONSE_MAX_DEPTH", "[" * 20 + "]" * 20, True,
         "Die Antwort hat 11 Verschachtelungsebenen; die Grenze ist 10."),
        ("RESPONSE_MAX_ITEMS", "[1,1,1,1,1,1,1,1,1,1,1]", True,
         "Die Antwort enthält 12 Werte; die Grenze ist 10."),
        ("RESPONSE_MAX_BYTES", "[" * 100_000, True, "Dies ist zu tief verschachtelt."),
        ("RESPONSE_MAX_BYTES", "1e999", True, "Eine Zahl ist zu groß."),
    ],
)  # fmt: skip
def test_too_large_response_error_for_german_browser_is_in_german(
    reviewer: Client, limit: str, reply: str, is_json: bool, words: str
) -> None:
    item = make_interrupt({"note": "x"})
    more = {"reply_is_json": "on"} if is_json else {}
    reviewer.defaults |= GERMAN
    with override_settings(HITL={**settings.HITL, limit: 10}):
        page = text_of(press(reviewer, item, "respond", reply=reply, **more))
    assert words in page
    assert "the limit" not in page
    assert not Decision.objects.exists()


@pytest.mark.usefixtures("multilingual")
def test_too_large_payload_notice_for_german_browser_is_in_german(
    reviewer: Client,
) -> None:
    schema = {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "note": {"type": "string"}},
    }
    item = make_interrupt({"note": "x" * 300_000}, schema)
    page = text_of(reviewer.get(page_of(item), **GERMAN))
    words = (
        "Die Antwort und die ursprüngliche Anfrage umfassen zusammen 300027 Bytes; die Grenze ist"
    )
    assert words in page


@pytest.mark.parametrize("n", [0, 1, 2, 5, 21])
def test_german_pending_request_count_has_singular_and_plural(n: int) -> None:
    with translation.override("de"):
        words = ngettext("%(n)d pending request", "%(n)d pending requests", n) % {"n": n}
    assert words == ("1 offene Anfrage" if n == 1 else f"{n} offene Anfragen")


OPEN, SHUT = "⟦", "⟧"


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Activate a language whose messages are the English messages in brackets."""
    translation.gettext("")  # loads the functions that are replaced below
    active = translation._trans  # type: ignore[attr-defined]

    def mark(text: str) -> str:
        return f"{OPEN}{text}{SHUT}" if text else text

    def plural(one: str, many: str, number: int) -> str:
        return mark(one if number == 1 else many)

    monkeypatch.setattr(active, "gettext", mark)
    monkeypatch.setattr(active, "ngettext", plural)
    monkeypatch.setattr(active, "pgettext", lambda context, text: mark(text))
    monkeypatch.setattr(
        active, "npgettext", lambda context, one, many, number: plural(one, many, number)
    )


def unmarked(html: str) -> set[str]:
    """Return the words of a page's content that are not translated."""
    page = Markup()
    page.feed(html[html.index('<div id="content"') : html.rindex("<footer")])
    texts = ["\n".join(page.shown)]
    for _tag, attributes in page.tags:
        texts += [
            attributes.get(name) or ""
            for name in ("title", "aria-label", "placeholder", "alt", "data-say")
        ]
    text = "\n".join(texts)
    while (rest := re.sub(f"{OPEN}[^{OPEN}{SHUT}]*{SHUT}", "", text)) != text:
        text = rest
    text = re.sub(r"\b[0-9a-f]{4,}(-[0-9a-f]+)*\b", "", text)  # ids
    return set(re.findall(r"[A-Za-z_][a-z_]+", text))


#: Data and words that are equal in every language. Django's own search form also shows "Search".
DATA = {
    "Question", "made", "ask", "Amount", "amount", "Names", "names",
    "admin", "log", "reviewer", "rita", "code", "JSON", "Search",
}  # fmt: skip


@pytest.mark.usefixtures("marked")
def test_admin_pages_contain_no_untranslatable_text(
    admin_client: Client, admin_user: Any, person: Callable[[str], Any]
) -> None:
    payload = {"amount": 1, "names": ["x"]}
    item, other = make_interrupt(payload), make_interrupt(payload)
    services.claim(item.pk, by=person("reviewer"), via="code")
    closed = make_interrupt(payload, status="decided", version=2)
    Decision.objects.create(
        interrupt=closed,
        version=1,
        type="approve",
        value=1,
        by_label="rita",
        via="code",
        request_digest="0",
        payload_digest="0",
    )
    expired = make_interrupt(payload, status="expired")
    superseded = make_interrupt(payload, status="superseded")
    Run.objects.filter(pk=other.run_id).update(state="failed", error="", traceback="")
    AuditEntry.objects.create(
        thread=item.thread, seq=99, verb="decide", detail={"type": "approve"}, actor_label="rita",
        via="code", at=item.created_at, hash="0",
    )  # fmt: skip
    link = create_review_link(item.pk, name="rita", by=admin_user)
    schedule = create_schedule("steps", "0 7 * * *", {"log": []}, timezone="UTC", by=admin_user)
    named = [(name, str(registry.get_graph(name).title)) for name in registry.list_names()]
    graphs = set(re.findall(r"[A-Za-z_]+", str(named)))
    found = {}
    for url in (
        *(list_of(model) for model in MODELS),
        *(page_of(one) for one in (item, other, closed, expired, superseded)),
        *(page_of(one.run_id, "run") for one in (item, other)),
        page_of(item.thread_id, "thread"),
        page_of(link.id, "reviewlink"),
        page_of(schedule.id, "schedule"),
        page_of(Decision.objects.get().pk, "decision"),
        reverse("admin:hitl_webhooks_webhookendpoint_add"),
        reverse("admin:hitl_django_run_cancel", args=[item.run_id]),
        f"{list_of()}?q=nothing",
    ):
        response = admin_client.get(url)
        assert response.status_code == 200, url
        found[url] = unmarked(text_of(response)) - DATA - graphs
    assert {url: words for url, words in found.items() if words} == {}
