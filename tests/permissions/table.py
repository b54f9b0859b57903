"""The expected status of each URL and method, by permission.

A URL has the ``kind`` of its object. Without the permission to view the object, the status is 404.
With this permission, but without the permission of the row, the status is 403.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from tests.reading import name_app

from .people import NOBODY, Person
from .world import Hooks, Things

OK, CREATED, ACCEPTED, EMPTY, MOVED = 200, 201, 202, 204, 302
INVALID, FORBIDDEN, ABSENT, UNSUPPORTED, CONFLICT, NOT_OFFERED = 400, 403, 404, 405, 409, 501
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE")

Arguments = tuple[Any, ...]
Body = Mapping[str, Any] | list[Any] | None


@dataclass(frozen=True)
class Row:
    """Expected responses of a URL.

    ``needs`` are the permissions in addition to viewing an object of this ``kind``. ``at`` is the
    object in an area, and ``body`` the submitted data. The status for hidden objects is ``unseen``.
    """

    kind: str = ""
    needs: str = ""
    answer: int = OK
    at: Callable[[Things, Hooks], Arguments] = lambda things, hooks: ()
    body: Callable[[Things], Body] = lambda things: None
    unseen: int = ABSENT
    refused: int = FORBIDDEN
    changes: bool = False

    def answer_to(self, person: Person, area: str) -> int:
        if not person.sees(self.kind, area):
            return self.unseen
        return self.answer if person.does(self.needs, area) else self.refused


def of(*names: str) -> Callable[[Things, Hooks], Arguments]:

    def find(things: Things, hooks: Hooks) -> Arguments:
        return tuple(_attribute(things, hooks, name) for name in names)

    return find


def _attribute(things: Things, hooks: Hooks, name: str) -> Any:
    found: Any = hooks if hasattr(hooks, name.partition(".")[0]) else things
    for part in name.split("."):
        found = getattr(found, part)
    return found


def sends(**body: Any) -> Callable[[Things], Body]:
    return lambda things: body


ASKED, FREE = of("interrupt.pk"), of("free.pk")
GRAPH = of("interrupt.graph")
HOOK, MESSAGE = of("webhook.pk"), of("delivery.pk")
SCHEDULE = of("schedule.pk")
SLACK = of("slack.pk")
NEW_HOOK = sends(url="https://crm.example/")

_API: dict[tuple[str, str], Row] = {
    ("graphs", "GET"): Row(),
    ("graph", "GET"): Row("graph", at=GRAPH),
    ("graph-diagram", "GET"): Row("graph", at=GRAPH),
    ("runs", "GET"): Row(),
    ("runs", "POST"): Row(
        "", "start_run", ACCEPTED, changes=True,
        body=sends(graph="ledger", input={"area": "open"}),
    ),
    ("runs-batch", "POST"): Row(body=sends(runs=[{"graph": "no such", "input": {}}])),
    ("run", "GET"): Row("run", at=of("run.pk")),
    ("run-cancel", "POST"): Row("run", "operate_run", at=of("run.pk"), changes=True),
    ("run-events", "GET"): Row("run", at=of("run.pk")),
    ("run-retry", "POST"): Row("run", "operate_run", ACCEPTED, at=of("failed.pk"), changes=True),
    ("threads", "GET"): Row(),
    ("thread", "GET"): Row("thread", at=of("thread.thread_id")),
    ("thread", "PATCH"): Row(
        "thread", "operate_run", at=of("thread.thread_id"), body=sends(metadata={"a": 1}),
        changes=True,
    ),
    ("thread", "DELETE"): Row(
        "operated", "operate_run", at=of("decided.thread.thread_id"), changes=True
    ),
    ("thread-audit", "GET"): Row("thread", "read the record", at=of("thread.thread_id")),
    ("thread-state", "GET"): Row("thread", "view_thread_state", at=of("thread.thread_id")),
    ("thread-history", "GET"): Row("thread", at=of("thread.thread_id")),
    ("thread-fork", "POST"): Row(
        "operated", "operate_run", ACCEPTED, at=of("thread.thread_id"), changes=True,
        body=lambda things: {"checkpoint": things.checkpoint.checkpoint_id},
    ),
    ("interrupts", "GET"): Row(),
    ("interrupts", "POST"): Row(
        "", "add_interrupt", CREATED, body=sends(payload={"title": "Pay?"}), changes=True
    ),
    ("interrupt-stream", "GET"): Row(),
    ("next", "POST"): Row("", "take", changes=True, refused=EMPTY),
    ("interrupt", "GET"): Row("interrupt", at=ASKED),
    ("interrupt", "DELETE"): Row("interrupt", "operate_run", EMPTY, at=FREE, changes=True),
    ("decisions", "GET"): Row("interrupt", at=of("decided.pk")),
    ("decisions", "POST"): Row(
        "interrupt", "decide", ACCEPTED, at=FREE, body=sends(type="approve"), changes=True
    ),
    ("decision-validate", "POST"): Row("interrupt", "decide", at=FREE, body=sends(type="approve")),
    ("decisions-bulk", "POST"): Row(
        body=lambda things: {"decisions": [{"interrupt": str(things.free.pk), "type": "approve"}]}
    ),
    ("schema", "GET"): Row(),
    ("links", "GET"): Row("interrupt", "link", at=ASKED),
    ("links", "POST"): Row(
        "interrupt", "link", CREATED, at=FREE, body=sends(name="Dana K."), changes=True
    ),
    ("link-detail", "DELETE"): Row(
        "interrupt", "link", EMPTY, at=of("interrupt.pk", "link.pk"), changes=True
    ),
    ("claim", "POST"): Row("interrupt", "decide", at=FREE, changes=True),
    ("release", "POST"): Row("interrupt", "", EMPTY, at=FREE),
    ("assign", "POST"): Row(
        "interrupt", "assign_interrupt", at=ASKED, body=sends(to=None), changes=True
    ),
    ("snooze", "POST"): Row(
        "interrupt", "decide", at=FREE, body=sends(until="2999-01-01T00:00:00Z"), changes=True
    ),
    ("undo", "POST"): Row("interrupt", "undo", at=of("undoable.pk"), changes=True),
    ("comments", "GET"): Row("interrupt", at=ASKED),
    ("comments", "POST"): Row(
        "interrupt", "comment", CREATED, at=ASKED, body=sends(text="Half?"), changes=True
    ),
    ("stats", "GET"): Row(),
    ("schedules", "GET"): Row(),
    ("schedules", "POST"): Row(
        "", "schedule", CREATED, changes=True,
        body=sends(graph="ledger", expression="0 7 * * *", input={"area": "open"}),
    ),
    ("schedule", "GET"): Row("schedule", at=SCHEDULE),
    ("schedule", "PATCH"): Row(
        "schedule", "manage_schedules", at=SCHEDULE, body=sends(active=False), changes=True
    ),
    ("schedule", "DELETE"): Row(
        "schedule", "manage_schedules", EMPTY, at=SCHEDULE, changes=True
    ),
    ("webhooks", "GET"): Row(),
    ("webhooks", "POST"): Row("", "manage_webhooks", CREATED, body=NEW_HOOK, changes=True),
    ("webhook", "GET"): Row("webhook", at=HOOK),
    ("webhook", "PATCH"): Row(
        "webhook", "manage_webhooks", at=HOOK, body=sends(description="Another"), changes=True
    ),
    ("webhook", "DELETE"): Row("webhook", "manage_webhooks", EMPTY, at=HOOK, changes=True),
    ("webhook-secret", "POST"): Row("webhook", "manage_webhooks", at=HOOK, changes=True),
    ("webhook-test", "POST"): Row("webhook", "manage_webhooks", ACCEPTED, at=HOOK, changes=True),
    ("deliveries", "GET"): Row("webhook", at=HOOK),
    ("delivery", "GET"): Row("webhook", at=MESSAGE),
    ("redeliver", "POST"): Row("webhook", "manage_webhooks", ACCEPTED, at=MESSAGE, changes=True),
    ("worker-health", "GET"): Row("", "operate_run"),
}  # fmt: skip
API = {(f"hitl_django:{name}", method): row for (name, method), row in _API.items()}


@dataclass(frozen=True)
class Answer(Row):
    """Expected responses to a resume of a thread by LangGraph's clients.

    With ``follows``, the run is returned. Without permission to view the interrupt, the thread has
    none.
    """

    follows: bool = False

    def answer_to(self, person: Person, area: str) -> int:
        if not person.sees("thread", area):
            return ABSENT
        if not person.sees("interrupt", area):
            return CONFLICT
        allowed = person.decides(area) and (not self.follows or person.sees("run", area))
        return OK if allowed else FORBIDDEN


THREAD = of("thread.thread_id")
#: The built-in assistant of a graph, and an assistant that a client created.
ASSISTANT, OF_CLIENT = of("interrupt.graph"), of("assistant.pk")
RUN_OF = of("thread.thread_id", "run.pk")
_NEW = sends(assistant_id="ledger", input={"area": "open"})
_CRON = sends(assistant_id="ledger", schedule="0 7 * * *", input={"area": "open"})


def _resume(things: Things) -> Body:
    return {"assistant_id": things.free.graph, "command": {"resume": True}}


_ANSWER: dict[str, Any] = {
    "kind": "interrupt", "at": of("free.thread.thread_id"), "body": _resume, "changes": True
}  # fmt: skip
#: The LangGraph-compatible API, which uses the same services.
_AGENT: dict[tuple[str, str], Row] = {
    ("info", "GET"): Row(),
    ("assistants", "POST"): Row(
        "graph", "add_assistant", changes=True,
        body=lambda things: {"graph_id": things.interrupt.graph},
    ),
    ("assistant-search", "POST"): Row(body=sends()),
    ("assistant-count", "POST"): Row(body=sends()),
    ("assistant", "GET"): Row("assistant", at=OF_CLIENT),
    ("assistant", "PATCH"): Row(
        "assistant", "change_assistant", at=OF_CLIENT, body=sends(name="Other"), changes=True
    ),
    ("assistant", "DELETE"): Row(
        "assistant", "delete_assistant", EMPTY, at=OF_CLIENT, changes=True
    ),
    ("assistant-versions", "POST"): Row("assistant", at=OF_CLIENT, body=sends()),
    ("assistant-latest", "POST"): Row(
        "assistant", "change_assistant", at=OF_CLIENT, body=sends(version=1), changes=True
    ),
    ("assistant-graph", "GET"): Row("graph", at=ASSISTANT),
    ("assistant-schemas", "GET"): Row("graph", at=ASSISTANT),
    ("assistant-subgraphs", "GET"): Row("graph", at=ASSISTANT),
    ("assistant-subgraph", "GET"): Row(at=of("interrupt.graph", "interrupt.graph"), answer=ABSENT),
    ("threads", "POST"): Row("", "start_run", body=sends(), changes=True),
    ("thread-search", "POST"): Row(body=sends()),
    ("thread-count", "POST"): Row(body=sends()),
    ("thread", "GET"): Row("thread", at=THREAD),
    ("thread", "PATCH"): Row(
        "thread", "operate_run", at=THREAD, body=sends(metadata={"a": 1}), changes=True
    ),
    ("thread", "DELETE"): Row(
        "operated", "operate_run", EMPTY, at=of("decided.thread.thread_id"), changes=True
    ),
    ("thread-copy", "POST"): Row("thread", "copy", at=THREAD, changes=True),
    ("thread-state", "GET"): Row("thread", "view_thread_state", at=THREAD),
    ("thread-state", "POST"): Row(
        "operated", "operate_run", at=THREAD, changes=True,
        body=sends(values={"answer": 1}, as_node="ask"),
    ),
    ("thread-state-at", "POST"): Row(
        "thread", "view_thread_state", at=THREAD, body=sends(checkpoint={})
    ),
    ("thread-state-of", "GET"): Row(
        "thread", "view_thread_state", at=of("thread.thread_id", "checkpoint.checkpoint_id")
    ),
    ("thread-history", "GET"): Row("thread", "view_thread_state", at=THREAD),
    ("thread-history", "POST"): Row("thread", "view_thread_state", at=THREAD, body=sends()),
    ("runs", "POST"): Row("", "start_run", body=_NEW, changes=True),
    ("runs-batch", "POST"): Row(
        "", "start_run", body=lambda things: [_NEW(things)], changes=True
    ),
    ("runs-stream", "POST"): Row("", "start_run", body=_NEW, changes=True),
    ("runs-wait", "POST"): Row("", "start_run", body=_NEW, changes=True),
    ("crons", "POST"): Row("", "schedule", body=_CRON, changes=True),
    ("thread-crons", "POST"): Row(
        "thread", "schedule", at=THREAD, changes=True,
        body=lambda things: {**_CRON(things), "assistant_id": things.thread.graph},
    ),
    ("cron-search", "POST"): Row(body=sends()),
    ("cron-count", "POST"): Row(body=sends()),
    ("cron", "PATCH"): Row(
        "schedule", "manage_schedules", at=SCHEDULE, body=sends(enabled=False), changes=True
    ),
    ("cron", "DELETE"): Row("schedule", "manage_schedules", EMPTY, at=SCHEDULE, changes=True),
    ("thread-runs", "GET"): Row("thread", at=THREAD),
    ("thread-runs", "POST"): Answer(**_ANSWER),
    ("thread-runs-stream", "POST"): Answer(**_ANSWER, follows=True),
    ("thread-runs-wait", "POST"): Answer(**_ANSWER, follows=True),
    ("run", "GET"): Row("run", at=RUN_OF),
    ("run", "DELETE"): Row(at=RUN_OF, answer=NOT_OFFERED),
    ("run-cancel", "POST"): Row("run", "operate_run", ACCEPTED, at=RUN_OF, changes=True),
    ("run-join", "GET"): Row("run", at=RUN_OF),
    ("run-stream", "GET"): Row("run", at=RUN_OF),
    ("own-run-join", "GET"): Row("run", at=of("run.pk")),
    ("own-run-stream", "GET"): Row("run", at=of("run.pk")),
    ("store-items", "GET"): Row(answer=INVALID),  # The URL needs a query.
    ("store-items", "PUT"): Row("", NOBODY, body=sends(namespace=["a"], key="b", value={})),
    ("store-items", "DELETE"): Row("", NOBODY, body=sends(namespace=["a"], key="b")),
    ("store-search", "POST"): Row("", NOBODY, body=sends(namespace_prefix=["a"])),
    ("store-namespaces", "POST"): Row("", NOBODY, body=sends()),
}  # fmt: skip
AGENT = {(f"langgraph_api:{name}", method): row for (name, method), row in _AGENT.items()}
#: URLs of LangGraph's server whose response says that the feature isn't supported.
NOT_THERE = {f"langgraph_api:absent-{number}" for number in range(4)} | {"agent/^"}

#: For the admin pages of a model: the kind of object, the path to its row, and the permissions for
#: the list.
MODELS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # Because some graph is restricted, the groups of every user are looked up. The list is visible
    # and empty.
    "reviewitem": ("interrupt", "interrupt.pk", ()),
    "interrupt": ("interrupt", "interrupt.pk", ()),
    "decision": ("interrupt", "decision.pk", ()),
    "spotcheck": ("interrupt", "look.pk", ()),
    "reviewlink": ("link", "link.pk", ("link_interrupt",)),
    "run": ("run", "run.pk", ("view_run",)),
    "thread": ("thread", "thread.pk", ("view_thread",)),
    "archivedthread": ("archived", "archived.pk", ("view_archivedthread",)),
    "checkpoint": ("checkpoint", "checkpoint.pk", ("view_thread", "view_checkpoint")),
    "channelblob": ("channelblob", "channelblob.pk", ("view_thread", "view_channelblob")),
    "pendingwrite": ("pendingwrite", "pendingwrite.pk", ("view_thread", "view_pendingwrite")),
    "schedule": ("schedule", "schedule.pk", ("view_schedule",)),
    "webhookendpoint": ("webhook", "webhook.pk", ("view_webhookendpoint",)),
    "delivery": ("webhook", "delivery.pk", ("view_webhookendpoint",)),
}


@dataclass(frozen=True)
class Page(Row):
    """A page of the admin: the status of GET, and the status of POST with the permission ``posts``.

    ``lists`` are the permissions for a page without an object.
    """

    lists: tuple[str, ...] | None = None
    posts: str | None = None
    refused: int = FORBIDDEN
    extra: Callable[[Things], Mapping[str, Any]] = lambda things: {}
    query: Callable[[Things], str] = lambda things: ""

    def answer_to(self, person: Person, area: str) -> int:
        if self.lists is not None:
            allowed = person.may(*self.lists) and person.does(self.needs, area)
            return self.answer if allowed else FORBIDDEN
        return super().answer_to(person, area)

    def changes_for(self, person: Person, area: str) -> bool:
        if self.posts is None:
            return False
        return person.sees(self.kind, area) and person.does(self.posts, area)


def _usual(model: str) -> dict[str, Page]:
    """Return the pages that Django's admin has for each model with read-only rows."""
    kind, row, lists = MODELS[model]
    at = of(row)
    return {
        f"{model}_changelist": Page(lists=lists),
        f"{model}_add": Page(lists=(NOBODY,)),
        # Redirects to the page that asks for a confirmation.
        f"{model}_row": Page(answer=MOVED, at=at),
        f"{model}_change": Page(kind, at=at),
        f"{model}_history": Page(kind, at=at),
        f"{model}_delete": Page(kind, NOBODY, at=at),
    }


_ASKED_PAGE = {"kind": "interrupt", "at": FREE}
_ADMIN: dict[str, Page] = {
    name: page for model in MODELS for name, page in _usual(model).items()
} | {
    "interrupt_change": Page("interrupt", answer=MOVED, at=ASKED),
    "reviewitem_change": Page(**_ASKED_PAGE, posts="decide"),
    "reviewitem_prefetch": Page("interrupt", "take", at=FREE, refused=EMPTY),
    "reviewitem_file": Page(**_ASKED_PAGE, answer=MOVED),
    "reviewitem_payload": Page(**_ASKED_PAGE),
    "reviewitem_people": Page("interrupt", "find people", at=FREE),
    "reviewitem_status": Page(**_ASKED_PAGE),
    "reviewitem_watch": Page(**_ASKED_PAGE),
    "reviewitem_split": Page(**_ASKED_PAGE, answer=MOVED),
    "reviewitem_handling": Page(**_ASKED_PAGE, answer=MOVED, posts="comment"),
    "reviewitem_news": Page(lists=()),
    "reviewitem_undo": Page("interrupt", answer=MOVED, at=of("undoable.pk"), posts="undo"),
    "reviewitem_next": Page(lists=(), answer=MOVED, posts="take"),
    "reviewitem_bulk": Page(lists=(), answer=MOVED),
    "reviewitem_many": Page(lists=(), answer=MOVED),
    "reviewitem_undo_bulk": Page(lists=(), answer=MOVED),
    "reviewitem_save_filter": Page(
        lists=(), answer=MOVED, posts="", extra=lambda things: {"query": "show=mine"}
    ),
    "reviewitem_remove_filter": Page(lists=(), answer=MOVED),
    "spotcheck_change": Page(
        "interrupt", at=of("look.pk"), posts="decide", extra=lambda things: {"result": "agree"}
    ),
    "spotcheck_file": Page("interrupt", answer=MOVED, at=of("look.pk")),
    "spotcheck_reports": Page(lists=()),
    "spotcheck_csv": Page(lists=("export_decisions",)),
    "spotcheck_record": Page(lists=("export_decisions", "view_reviewer_insights")),
    "run_retry": Page("run", "operate_run", MOVED, at=of("failed.pk"), posts="operate_run"),
    "run_changelist": Page(lists=(), needs="list runs"),
    "run_overview": Page(lists=("operate_run",), needs="list runs"),
    "run_start": Page(lists=("start_run",)),
    "run_start_graph": Page(
        lists=("start_run",), at=GRAPH, posts="start_run",
        extra=lambda things: {"start": "1", "input/area": "open"},
    ),
    "run_many": Page(
        "run", lists=(), needs="list runs", answer=MOVED, posts="operate_run",
        extra=lambda things: {"verb": "retry", "item": str(things.failed.pk)},
    ),
    "run_cancel": Page("run", "operate_run", at=of("run.pk"), posts="operate_run"),
    "run_fork": Page(
        "run", "operate_run", at=of("run.pk", "checkpoint.checkpoint_id"), posts="fork"
    ),
    "reviewlink_changelist": Page(lists=("link_interrupt",)),
    "reviewlink_add": Page(
        "interrupt", "link", refused=ABSENT, posts="link",
        query=lambda things: f"?interrupt={things.free.pk}",
    ),
    "webhookendpoint_changelist": Page(
        "webhook", lists=(), needs="list webhooks", posts="manage_webhooks",
        extra=lambda things: {"action": "try_them"},
    ),
    "webhookendpoint_add": Page(lists=("manage_webhooks",), posts="manage_webhooks"),
    "webhookendpoint_change": Page("webhook", at=HOOK, posts="manage_webhooks"),
    "webhookendpoint_delete": Page(
        "webhook", "manage_webhooks", at=HOOK, posts="manage_webhooks"
    ),
    "webhookendpoint_secret": Page(
        "webhook", "manage_webhooks", at=HOOK, posts="manage_webhooks"
    ),
    "schedule_changelist": Page(
        "schedule", lists=("view_schedule",), posts="manage_schedules",
        extra=lambda things: {"action": "pause"},
    ),
    "delivery_changelist": Page(
        "webhook", lists=("view_webhookendpoint",), posts="manage_webhooks",
        extra=lambda things: {"action": "send_again"},
    ),
}  # fmt: skip


def _full(name: str) -> str:
    model, _, page = name.partition("_")
    if page == "row":
        return f"admin/{name_app(model)}/{model}/<path:object_id>/"
    return f"admin:{name_app(model)}_{name}"


#: Notification settings have a page per user, and rows without a page.
_NOTIFICATIONS: dict[str, Page] = {
    "notificationpreferences_changelist": Page(lists=()),
    "notificationpreferences_add": Page(lists=(NOBODY,)),
    **{
        f"notificationpreferences_{page}": Page(answer=ABSENT, at=FREE)
        for page in ("change", "history", "delete")
    },
    "slackchannel_changelist": Page(lists=("manage_webhooks",)),
    "slackchannel_add": Page(
        lists=("manage_webhooks",), posts="manage_webhooks",
        extra=lambda things: {"address": "https://crm.example/T1"},
    ),
    "slackchannel_change": Page("webhook", "manage_webhooks", at=SLACK, posts="manage_webhooks"),
    "slackchannel_history": Page("webhook", "manage_webhooks", at=SLACK),
    "slackchannel_delete": Page("webhook", "manage_webhooks", at=SLACK, posts="manage_webhooks"),
}  # fmt: skip

ADMIN = {
    **{_full(name): page for name, page in _ADMIN.items()},
    **{f"admin:hitl_notifications_{name}": page for name, page in _NOTIFICATIONS.items()},
    **{
        f"admin/hitl_notifications/{model}/<path:object_id>/": Page(answer=MOVED, at=FREE)
        for model in ("notificationpreferences", "slackchannel")
    },
}

#: General pages of the admin, which show only the available lists.
FRAME: dict[str, int] = {
    "admin:index": OK,
    "admin:app_list": OK,
    "admin:password_change": OK,
    "admin:password_change_done": OK,
    "admin:autocomplete": FORBIDDEN,  # No field of this app uses autocompletion.
    "admin:jsi18n": OK,
    "admin:view_on_site": ABSENT,  # No object of this app has a page outside of the admin.
    "admin/(?P<url>.*)$": ABSENT,
}
#: URLs that require no login.
PUBLIC = {
    "admin:login",
    "admin:logout",
    "hitl_django:brand",
    "hitl_django:email-decision",
    "hitl_django:link",
    "hitl_django:slack-actions",
    "hitl_django:unsubscribe",
    "langgraph_api:ok",
    "hitl/^links/(?P<token>(?s:.+))\\Z",  # URLs that are similar to a review link.
}
#: The URL pattern that handles all other paths of the API.
NOTHING = "hitl/^api/v1/"


def path_of(name: str, arguments: Arguments) -> str:
    if name.startswith("admin/"):
        return "/" + name.replace("<path:object_id>", str(arguments[0]))
    return reverse(name, args=arguments)
