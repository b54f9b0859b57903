"""All GET requests about any object, and the parts of responses that must not leak."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from django_filters import ChoiceFilter

from .addresses import addresses
from .conftest import World
from .table import ADMIN, API, Page, path_of
from .world import GRAPHS, Things, canary

#: A time before all others, and a time after all others.
MOMENTS = ("2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z")
#: Query parameters that every list of the admin accepts.
LIST_QUERIES = ("", "o=1", "o=-1", "o=2.-3", "_facets=True", "_popup=1", "_to_field=id", "p=2",
                "all=", "e=1")  # fmt: skip


def asked_for(things: Things) -> dict[str, str]:
    """Return the parameter values that an attacker could guess, by name."""
    return {
        "graph": GRAPHS[things.area],
        "thread": things.thread.thread_id,
        "thread_id": things.thread.thread_id,
        "run": str(things.run.pk),
        "node": "ask",
        "key": str(things.run.key),
        "group": canary(things.area, "group"),
        "search": canary(things.area, "title"),
        "subject": "auth.user:1",
        "checkpoint": things.checkpoint.checkpoint_id,
        "page_size": "1",
    }


def api_lists(asked: dict[str, str]) -> Iterator[str]:
    """Yield the API's lists with each value of each filter.

    Filters are discovered automatically.
    """
    for name, view in addresses().items():
        filters = getattr(getattr(view, "cls", None), "filterset_class", None)
        if filters is None or "<" in str(view) or takes_arguments(name):
            continue
        path = path_of(name, ())
        yield path
        for parameter, one in filters.base_filters.items():
            for value in values_of(parameter, one, asked):
                yield f"{path}?{parameter}={quote(value)}"
                if parameter in ("graph", "search"):
                    yield f"{path}?{parameter}={quote(value)}&page_size=1"
                    if name.endswith("interrupts"):
                        yield f"{path}?{parameter}={quote(value)}&status=any"
    for name in ("graphs", "stats", "worker-health"):
        yield path_of(f"hitl_django:{name}", ())
    yield path_of("hitl_django:stats", ()) + f"?graph={asked['graph']}"
    yield path_of("hitl_django:interrupts", ()) + "?status=any"


def wide_lists() -> Iterator[str]:
    """Yield the lists that show most rows, because they have no filter."""
    for (name, method), row in API.items():
        if method == "GET" and not row.kind:
            yield path_of(name, ())
    yield path_of("hitl_django:interrupts", ()) + "?status=any"
    for name in ADMIN:
        if name.endswith("_changelist"):
            yield path_of(name, ()) + "?_facets=True"
    yield path_of("admin:hitl_django_reviewitem_changelist", ()) + "?show=claimed"
    yield path_of("admin:index", ())


def takes_arguments(name: str) -> bool:
    row = API.get((name, "GET"))
    return row is None or row.kind != ""


def values_of(parameter: str, one: Any, asked: dict[str, str]) -> list[str]:
    if isinstance(one, ChoiceFilter):
        return [str(value) for value, _ in one.extra["choices"]]
    if parameter.startswith("created_"):
        return [*MOMENTS]
    return [asked[parameter]]


def admin_lists(asked: dict[str, str]) -> Iterator[str]:
    """Yield the admin's lists with searches, orders and guessed filters."""
    for name in ADMIN:
        if not name.endswith("_changelist"):
            continue
        path = path_of(name, ())
        for query in LIST_QUERIES:
            yield f"{path}?{query}"
        for words in (asked["search"], asked["thread"]):
            yield f"{path}?q={quote(words)}"
        yield f"{path}?graph={asked['graph']}"
        if "reviewitem" in name:
            yield from (f"{path}?show={tab}" for tab in ("mine", "unclaimed", "claimed", "overdue"))
            yield f"{path}?show=snoozed&q={quote(asked['search'])}&_facets=True"
    for name in ("admin:index", "admin:jsi18n"):
        yield path_of(name, ())
    yield path_of("admin:app_list", ("hitl_django",))


def pages_of(things: Things, world: World) -> Iterator[str]:
    """Yield every page of the API and the admin about an object in an area."""
    for (name, method), row in API.items():
        if method == "GET" and row.kind:
            yield path_of(name, row.at(things, world.hooks))
    api = "hitl_django:"
    for item in (things.interrupt, things.decided, things.erased):
        for page in ("interrupt", "decisions", "comments", "links"):
            yield path_of(api + page, (item.pk,))
        for page in ("change", "file", "history", "payload", "status"):
            yield path_of(f"admin:hitl_django_reviewitem_{page}", (item.pk,))
    for run in (things.failed, things.decided.run, things.erased.run):
        yield path_of(f"{api}run", (run.pk,))
        yield path_of(f"{api}run-events", (run.pk,))
        yield path_of(f"{api}thread-state", (run.thread.thread_id,))
        for page in ("change", "history", "cancel"):
            yield path_of(f"admin:hitl_django_run_{page}", (run.pk,))
        yield path_of("admin:hitl_django_thread_change", (run.thread.pk,))
    thread = quote(things.thread.thread_id)
    yield path_of(f"{api}graph-diagram", (things.interrupt.graph,)) + f"?thread={thread}"
    for name, page in ADMIN.items():
        # The list of people has the usernames of all who can view the request.
        if name.endswith(("_row", "_people")):
            continue
        if page.lists is None and isinstance(page, Page):
            yield path_of(name, page.at(things, world.hooks)) + page.query(things)


def plain(response: Any, path: str) -> str:
    """Return a response without values of the request and values that change each time."""
    if getattr(response, "streaming", False):
        return ""
    dated = ("Expires", "Content-Length", "X-Request-ID", "RateLimit")
    headers = sorted(item for item in response.headers.items() if item[0] not in dated)
    text = f"{response.status_code} {headers}\n{response.content.decode()}"
    for sent in {path, *re.split("[?&=]", path)}:
        if sent.startswith(("zq", "shut-zq", "/")):
            text = text.replace(quote(sent), "").replace(sent, "")
    text = re.sub(r'"request_id":"[^"]+"', "", text)
    text = re.sub("\\d+\xa0[a-z]+|just now", "", text)  # The time elapsed since an event.
    text = re.sub(r'since=[^"&]+', "", text)  # The time at which the page was rendered.
    return re.sub('((?:csrfmiddlewaretoken|key)" value=)"[^"]+"', r"\1", text)
