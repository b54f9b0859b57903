"""URL patterns for the URLs of LangGraph's server that its clients use."""

from __future__ import annotations

from django.apps import apps
from django.urls import URLPattern, path, re_path, register_converter

from hitl_django.extensions import require_app

from . import assistants, run_batches, runs, system, thread_states, threads
from .not_supported import NotSupportedView
from .resource import UnknownPathView
from .system import SCHEDULES

require_app("hitl_django.contrib.langgraph_api")

app_name = "langgraph_api"


class NameConverter:
    """Path converter for ids of threads and assistants.

    Ids may contain any character except a slash.
    """

    regex = r"[^/\x00]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(NameConverter, "langgraph_name")

_ASSISTANT = "assistants/<langgraph_name:assistant_id>"
_THREAD = "threads/<langgraph_name:thread_id>"
_RUN = f"{_THREAD}/runs/<uuid:run_id>"

#: Further URLs of LangGraph's server, each with the name of the feature that is not supported.
_ABSENT = {
    r"runs/cancel": "cancelling multiple runs",
    r"threads/prune": "pruning threads",
    r"threads/[^/]+/(stream|commands)(/.*)?": "thread streams",
    r"(mcp|a2a|ui)(/.*)?": "this protocol",
}


def list_cron_urls() -> list[URLPattern]:
    """Return the URL patterns of crons.

    Without the app for schedules, the response to each request is 501.
    """
    if not apps.is_installed(SCHEDULES):
        what = f"crons without the app {SCHEDULES} in INSTALLED_APPS"
        view = NotSupportedView.as_view(what=what)
        return [re_path(r"^(?:threads/[^/]+/)?runs/crons(?:/.*)?$", view, {}, "absent-crons")]
    from . import crons

    return [
        path("runs/crons", crons.CronList.as_view(), name="crons"),
        path("runs/crons/search", crons.CronSearch.as_view(), name="cron-search"),
        path("runs/crons/count", crons.CronCount.as_view(), name="cron-count"),
        path("runs/crons/<uuid:cron_id>", crons.CronDetail.as_view(), name="cron"),
        path(f"{_THREAD}/runs/crons", crons.CronList.as_view(), name="thread-crons"),
    ]


urlpatterns = [
    path("ok", system.Health.as_view(), name="ok"),
    path("info", system.Info.as_view(), name="info"),
    *(
        re_path(f"^{route}$", NotSupportedView.as_view(what=what), {}, f"absent-{number}")
        for number, (route, what) in enumerate(_ABSENT.items())
    ),
    *list_cron_urls(),
    path("assistants", assistants.AssistantList.as_view(), name="assistants"),
    path("assistants/search", assistants.AssistantSearch.as_view(), name="assistant-search"),
    path("assistants/count", assistants.AssistantCount.as_view(), name="assistant-count"),
    path(_ASSISTANT, assistants.AssistantDetail.as_view(), name="assistant"),
    path(
        f"{_ASSISTANT}/versions", assistants.AssistantVersions.as_view(), name="assistant-versions"
    ),
    path(f"{_ASSISTANT}/latest", assistants.AssistantLatest.as_view(), name="assistant-latest"),
    path(f"{_ASSISTANT}/graph", assistants.AssistantGraph.as_view(), name="assistant-graph"),
    path(f"{_ASSISTANT}/schemas", assistants.AssistantSchemas.as_view(), name="assistant-schemas"),
    path(
        f"{_ASSISTANT}/subgraphs",
        assistants.AssistantSubgraphs.as_view(),
        name="assistant-subgraphs",
    ),
    path(
        f"{_ASSISTANT}/subgraphs/<langgraph_name:namespace>",
        assistants.AssistantSubgraphs.as_view(),
        name="assistant-subgraph",
    ),
    path("threads", threads.AgentThreadList.as_view(), name="threads"),
    path("threads/search", threads.ThreadSearch.as_view(), name="thread-search"),
    path("threads/count", threads.ThreadCount.as_view(), name="thread-count"),
    path(_THREAD, threads.AgentThreadDetail.as_view(), name="thread"),
    path(f"{_THREAD}/copy", threads.ThreadCopy.as_view(), name="thread-copy"),
    path(f"{_THREAD}/state", thread_states.ThreadStateNow.as_view(), name="thread-state"),
    path(
        f"{_THREAD}/state/checkpoint",
        thread_states.ThreadStateAt.as_view(),
        name="thread-state-at",
    ),
    path(
        f"{_THREAD}/state/<langgraph_name:checkpoint_id>",
        thread_states.ThreadStateNow.as_view(http_method_names=["get", "head", "options"]),
        name="thread-state-of",
    ),
    path(f"{_THREAD}/history", thread_states.AgentThreadHistory.as_view(), name="thread-history"),
    path("runs", runs.AgentRunList.as_view(http_method_names=["post", "options"]), name="runs"),
    path("runs/batch", run_batches.AgentRunBatch.as_view(), name="runs-batch"),
    path("runs/stream", runs.stream_view, name="runs-stream"),
    path("runs/wait", runs.wait_view, name="runs-wait"),
    path("runs/<uuid:run_id>/join", runs.join_view, name="own-run-join"),
    path("runs/<uuid:run_id>/stream", runs.join_stream_view, name="own-run-stream"),
    path(f"{_THREAD}/runs", runs.AgentRunList.as_view(), name="thread-runs"),
    path(f"{_THREAD}/runs/stream", runs.stream_view, name="thread-runs-stream"),
    path(f"{_THREAD}/runs/wait", runs.wait_view, name="thread-runs-wait"),
    path(_RUN, runs.AgentRunDetail.as_view(), name="run"),
    path(f"{_RUN}/cancel", runs.AgentRunCancel.as_view(), name="run-cancel"),
    path(f"{_RUN}/join", runs.join_view, name="run-join"),
    path(f"{_RUN}/stream", runs.join_stream_view, name="run-stream"),
]
if apps.is_installed("hitl_django.contrib.store"):
    from . import store

    urlpatterns += [
        path("store/items", store.StoreItems.as_view(), name="store-items"),
        path("store/items/search", store.ItemSearch.as_view(), name="store-search"),
        path("store/namespaces", store.NamespaceList.as_view(), name="store-namespaces"),
    ]
urlpatterns.append(re_path("^", UnknownPathView.as_view()))
