"""Escaping of untrusted text on all pages of the admin."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from hitl_django.json_text.sanitize import escape_invisible, make_title
from hitl_django.models import AuditEntry, Comment, Decision, Interrupt, Run

from .conftest import list_of, make_interrupt, page_of

#: Only the templates determine how a page displays a text.
pytestmark = pytest.mark.any_database
MARK = "hostile"
EVERY = ("approve", "edit", "reject", "respond")
TEXTS = [
    f"<script>alert('{MARK}')</script>",
    f"<img src=x onerror=alert('{MARK}')>",
    f"'\"><svg/onload=alert('{MARK}')>",
    f"javascript:alert('{MARK}')",
    f"data:text/html,<b>{MARK}</b>",
    f"https://example.com/{MARK}",
    f"</textarea></pre></details><script>{MARK}</script>",
    f"{{{{ {MARK} }}}}{{% debug %}}",
    f"%(title)s %s {{0}} {{title}} {{run}} {MARK}",
    f"{MARK} \u202etcejer\u202c \u2066\u200b\u00ad",
    f"{MARK} \x1b[31m\x07\x00".replace("\x00", ""),
    f"{MARK} line\r\nbreak\u2028here",
    f"<!-- {MARK} --!> <![CDATA[",
]
HIDDEN = set("\u202e\u202c\u2066\u200b\u00ad\x1b\x07\u2028")


class Markup(HTMLParser):
    """Collects every tag, attribute and visible text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.shown: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        # A text box contains the unescaped text, because editing would change escaped text.
        if "textarea" not in self.inside and "script" not in self.inside:
            self.shown.append(data)


def assert_inert(html: str, says: str = MARK) -> None:
    page = Markup()
    page.feed(html)
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        if tag in ("script", "style", "iframe", "object", "svg"):
            assert MARK not in str(attributes)
        for name in ("href", "src", "action"):
            # A link stays in the admin: it has no scheme and no other host.
            assert re.match(r"(/(?!/)|\?|#|$)", attributes.get(name) or ""), attributes
        assert "style" not in attributes
    text = "".join(page.shown)
    assert says in text
    assert not HIDDEN & set(text)
    assert f"<script>alert('{MARK}" not in html


def hostile_interrupt(text: str) -> Interrupt:
    payload = {
        "why": text,
        text: text,
        "nested": {text: [text, {text: text}]},
        "table": [{text: text}],
        "body": text + "\n" + text,
    }
    schema = {
        "type": "object",
        "title": text,
        "properties": {
            "approved": {"type": "boolean"},
            text: {"type": "string", "title": text, "description": text},
            "choice": {"enum": [text, "b"], "description": text},
            "several": {"type": "array", "uniqueItems": True, "items": {"enum": [text]}},
            "const": {"const": text},
        },
    }
    title = make_title({"title": text}, "ask")
    return make_interrupt(
        payload, schema, title=title, node=text[:200], graph=escape_invisible(text)
    )


@pytest.mark.promise("P19")
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_admin_pages_escape_hostile_text_of_payloads_titles_and_decisions(
    text: str, browse: Callable[[str], Client]
) -> None:
    item = hostile_interrupt(text)
    free = make_interrupt({"title": text, "body": text}, title=item.title)
    closed = make_interrupt({"body": text}, title=item.title, status="decided", version=2)
    Run.objects.update(error=text, traceback=text, state="failed", started_by_label=text)
    decision = Decision.objects.create(
        version=1,
        interrupt=closed,
        type="reject",
        value={text: text},
        reason=text,
        by_label=text,
        via="code",
        request_digest="0",
        payload_digest="0",
    )
    AuditEntry.objects.create(
        thread=item.thread,
        seq=1,
        verb="decide",
        actor_label=text,
        via="code",
        at=item.created_at,
        hash="0",
        detail={"type": text},
    )
    reviewer, operator = browse("reviewer"), browse("operator")
    pages = [
        reviewer.get(list_of()),
        reviewer.get(page_of(item)),
        reviewer.get(page_of(free)),
        reviewer.get(page_of(closed)),
        reviewer.post(page_of(closed), {"reason": text, "decision": "approve"}),
        reviewer.post(page_of(item), {"reason": text, "decision": text}),
        reviewer.get(list_of("interrupt")),
        reviewer.get(list_of("decision")),
        reviewer.get(page_of(decision, "decision")),
        reviewer.get(list_of("run")),
        operator.get(page_of(item.run_id, "run")),
    ]
    for response in pages:
        assert response.status_code in (200, 409)
        assert_inert(response.content.decode())


def test_admin_pages_contain_no_inline_scripts_or_styles(
    browse: Callable[[str], Client], asked: Callable[..., Any]
) -> None:
    item = asked()
    client = browse("operator")
    urls = [list_of(), page_of(item), list_of("run"), page_of(item.run_id, "run")]
    for url in [*urls, list_of("interrupt"), list_of("decision")]:
        page = Markup()
        page.feed(client.get(url).content.decode())
        for tag, attributes in page.tags:
            assert tag != "style"
            assert "style" not in attributes
            if tag == "script":
                assert attributes.get("src")


@pytest.mark.promise("P19")
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
@pytest.mark.slow
def test_admin_pages_escape_markup_in_action_requests_comments_and_typed_changes(
    text: str, browse: Callable[[str], Client], person: Callable[[str], Any]
) -> None:
    args = {text: text, "lines": [{text: text}, {text: f"{text} {text}"}]}
    request = {
        "action_requests": [{"name": text, "args": args, "description": text}] * 2,
        "review_configs": [{"action_name": text, "allowed_decisions": list(EVERY)}] * 2,
    }
    human = {
        "action_request": {"action": text, "args": args},
        "config": {"allow_accept": True, "allow_edit": True, "allow_respond": True},
        "description": text,
    }
    call = {"question": text, "tool_call": {"name": text, "args": args}}
    items = [make_interrupt(payload, why=text) for payload in (request, human, call, args)]
    later = timezone.now() + timedelta(hours=1)
    Interrupt.objects.update(
        claimed_by=person("operator"),
        claimed_by_label=text,
        claimed_until=later,
        assignee_label=text,
        group_label=escape_invisible(text)[:150],
        quorum=2,
        approvals=1,
    )
    changed = [{"op": "replace", "path": "/lines", "value": [text * 20]}]
    for item in items:
        Comment.objects.create(interrupt=item, by_label=text, via="admin", text=text)
        Decision.objects.create(
            version=1,
            effective=None,
            interrupt=item,
            type="approve",
            value=None,
            by_label=text,
            via="code",
            request_digest="0",
            payload_digest="0",
        )
    free = items[-1]
    Interrupt.objects.filter(pk=free.pk).update(
        proposal={"edited": args, "answer": args, "patch": changed}
    )
    reviewer = browse("reviewer")
    typed = {"decision": text, "verb": "comment", "text": "", "reason": text, "answer/lines": text}
    for item in items:
        assert_inert(reviewer.get(page_of(item)).content.decode())
        assert_inert(reviewer.post(page_of(item), typed).content.decode())
        handling = page_of(item).removesuffix("change/") + "handling/"
        assert_inert(reviewer.post(handling, typed).content.decode())
        assert_inert(reviewer.post(handling, {"verb": "claim"}).content.decode())
