"""Starting a run in the admin with a form for the graph's input schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from hitl_django import START, StateGraph, register, services
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Run, Thread

from .browsing import post_of, text_of
from .conftest import list_of, page_of
from .test_queue import words

CHOOSE = reverse("admin:hitl_django_run_start")
Browse = Callable[[str], Client]
Advance = Callable[[], int]


def form_of(graph: str) -> str:
    return reverse("admin:hitl_django_run_start_graph", args=[graph])


@pytest.fixture
def starter(browse: Browse, person: Callable[[str], Any]) -> Client:
    person("operator").user_permissions.add(Permission.objects.get(codename="start_run"))
    return browse("operator")


class Line(BaseModel):
    sku: str
    count: int = Field(ge=1, le=99)


class Parcel(BaseModel):
    """What a run of a graph with an input of its own starts from."""

    customer: str = Field(min_length=1, title="Who gets it")
    weight: Annotated[float, Field(gt=0, description="In kilograms.")]
    express: bool = False
    country: str = "DE"
    lines: list[Line] = []


class Sent(TypedDict, total=False):
    """The state of a run that has a parcel sent."""

    customer: str
    weight: float
    express: bool
    country: str
    lines: list[dict[str, Any]]


class Whole(TypedDict):
    """A state, all of which would be needed, were it an answer."""

    text: str
    result: int


@pytest.fixture
def graphs_of_ours() -> Iterator[None]:
    """Register graphs whose nodes do nothing."""

    def idle(state: Any) -> dict[str, Any]:
        return {}

    with registry.hide_graphs():

        @register("parcel", title="Send a parcel")
        def parcel() -> StateGraph:
            graph = StateGraph(Sent, input_schema=Parcel).add_node("idle", idle)
            return graph.add_edge(START, "idle")

        @register("whole")
        def whole() -> StateGraph:
            return StateGraph(Whole).add_node("idle", idle).add_edge(START, "idle")

        @register("retry")
        def anything() -> StateGraph:
            return StateGraph(Any).add_node("idle", idle).add_edge(START, "idle")

        @register("for support", startable_by=["support"])
        def for_support() -> StateGraph:
            return whole()

        @register("for code", api=False)
        def for_code() -> StateGraph:
            return whole()

        @register("broken <b>")
        def broken() -> StateGraph:
            raise RuntimeError("no such <module>")

        yield


def opened(client: Client, graph: str) -> dict[str, Any]:
    return posted_of(client.get(form_of(graph)))


def posted_of(page: Any) -> dict[str, Any]:
    form = text_of(page).split(' class="hitl-work"')[1].split("</form>")[0]
    return {**post_of(form), "start": "1"}


def stored(run: Run) -> Any:
    return services.thread_state(run.thread.thread_id).values


def test_start_page_of_a_graph_starts_a_run_and_redirects_to_its_page(
    starter: Client, advance: Advance
) -> None:
    assert f'href="{CHOOSE}"' in text_of(starter.get(list_of("run")))
    assert f'href="{form_of("approval")}"' in text_of(starter.get(CHOOSE))
    page = starter.get(form_of("approval"))
    assert "Start a run: Approval" in words(page)
    done = starter.post(
        form_of("approval"), {**posted_of(page), "input/text": "the news"}, follow=True
    )
    run = Run.objects.get()
    assert done.redirect_chain == [(page_of(run.pk, "run"), 302)]
    assert "Run queued." in words(done)
    assert (run.started_by_label, run.graph) == ("operator", "approval")
    assert AuditEntry.objects.get(verb="start").via == "admin"
    advance()
    assert stored(run)["text"] == "the news"


@pytest.mark.usefixtures("graphs_of_ours")
def test_start_form_has_labels_help_and_types_of_the_input_schema(
    starter: Client, advance: Advance
) -> None:
    page = starter.get(form_of("parcel"))
    assert "Send a parcel" in words(page)
    assert "Who gets it" in words(page)
    assert "In kilograms." in words(page)
    posted = posted_of(page)
    assert posted["input/country"] == ["DE"]
    posted |= {"input/customer": "Dana", "input/weight": "2.5", "input/express": "true"}
    posted |= {"input/lines/0/sku": "A-1", "input/lines/0/count": "2"}
    starter.post(form_of("parcel"), posted)
    advance()
    assert stored(Run.objects.get()) == {
        "customer": "Dana",
        "weight": 2.5,
        "express": True,
        "country": "DE",
        "lines": [{"sku": "A-1", "count": 2}],
    }


@pytest.mark.usefixtures("graphs_of_ours")
def test_start_form_shows_errors_at_fields_and_keeps_entered_values(starter: Client) -> None:
    posted = opened(starter, "parcel") | {
        "input/weight": "-1",
        "input/lines/0/sku": "A-1",
        "input/lines/0/count": "100",
        "run_key": "k" * 256,
        "thread_id": "parcel 7",
    }
    page = starter.post(form_of("parcel"), posted)
    assert page.status_code == 200
    assert "The run was not started." in words(page)
    form = page.context["form"]
    assert {*form.input.errors} == {"input/customer", "input/weight", "input/lines/0/count"}
    assert {*form.options.errors} == {"run_key"}
    kept = posted_of(page)
    for name in ("input/weight", "input/lines/0/count", "thread_id", "run_key", "key"):
        assert "".join(kept[name]) == "".join(posted[name])
    assert not Run.objects.exists()


@pytest.mark.usefixtures("graphs_of_ours")
def test_start_form_of_graph_without_input_schema_requires_no_state_field(
    starter: Client, advance: Advance
) -> None:
    starter.post(form_of("whole"), opened(starter, "whole") | {"input/text": "x"})
    advance()
    assert stored(Run.objects.get()) == {"text": "x"}


@pytest.mark.usefixtures("graphs_of_ours")
def test_start_form_of_untyped_graph_is_a_json_field(starter: Client, advance: Advance) -> None:
    # The name of the graph equals the name of a page of runs.
    page = starter.get(form_of("retry"))
    assert posted_of(page)["input"] == [""]
    wrong = starter.post(form_of("retry"), posted_of(page) | {"input": "{oops"})
    assert "Enter valid JSON" in words(wrong)
    assert posted_of(wrong)["input"] == ["{oops"]
    starter.post(form_of("retry"), posted_of(page) | {"input": '{"any": [1, 2]}'})
    assert Run.objects.get().graph == "retry"


@pytest.mark.usefixtures("graphs_of_ours")
def test_adding_rows_to_start_form_keeps_values_and_shows_no_errors(starter: Client) -> None:
    posted = opened(starter, "parcel") | {"input/lines/0/sku": "A-1", "more": "input/lines"}
    del posted["start"]
    posted |= {"thread_id": "mine"}
    page = starter.post(form_of("parcel"), posted)
    assert not page.context["form"].has_errors
    assert {"input/lines/3/sku", "input/lines/0/sku"} <= {*posted_of(page)}
    assert posted_of(page)["thread_id"] == ["mine"]
    assert not Run.objects.exists()


def test_start_form_submitted_twice_starts_one_run(starter: Client) -> None:
    posted = opened(starter, "approval") | {"input/text": "x"}
    first, second = (starter.post(form_of("approval"), posted, follow=True) for _ in range(2))
    assert first.redirect_chain == second.redirect_chain
    assert "No second run was" in words(second)
    # Another input from the same page, for example after the browser's back button, is confirmed
    # first.
    other = starter.post(form_of("approval"), posted | {"input/text": "y"})
    assert "Submit again to start another one" in words(other)
    assert Run.objects.count() == 1
    starter.post(form_of("approval"), posted_of(other))
    assert Run.objects.count() == 2


def test_start_form_stores_run_key_and_thread_id(starter: Client, advance: Advance) -> None:
    terms = {"input/text": "x", "run_key": "news 7", "thread_id": "the news"}
    starter.post(form_of("approval"), opened(starter, "approval") | terms)
    run = Run.objects.get()
    assert (run.key, run.thread.thread_id) == ("news 7", "the news")
    page = starter.post(form_of("approval"), opened(starter, "approval") | terms, follow=True)
    assert "No second run was" in words(page)
    page = starter.post(
        form_of("approval"), opened(starter, "approval") | terms | {"input/text": "y"}
    )
    assert "This key was already used for a different run." in words(page)
    advance()
    page = starter.post(
        form_of("approval"), opened(starter, "approval") | terms | {"run_key": "news 8"}
    )
    assert "This thread has pending requests" in words(page)
    services.cancel(run.pk)
    starter.post(form_of("approval"), opened(starter, "approval") | terms | {"run_key": "news 8"})
    assert set(Run.objects.values_list("thread", flat=True)) == {run.thread_id}
    assert Run.objects.count() == 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda thread: Run.objects.update(state="running"), "that hasn’t ended"),
        (lambda thread: Thread.objects.update(graph="typed"), "belongs to graph"),
    ],
)
def test_start_form_with_unusable_thread_shows_the_error_at_the_thread_field(
    make: Callable[[Any], Any], said: str, starter: Client
) -> None:
    run = services.start("approval", {"text": "x"}, thread_id="taken")
    make(run)
    page = starter.post(
        form_of("approval"),
        opened(starter, "approval") | {"input/text": "x", "thread_id": "taken"},
    )
    assert said in " ".join(page.context["form"].options.errors["thread_id"])
    assert Run.objects.count() == 1


def test_start_form_with_thread_hidden_from_user_starts_no_run(
    browse: Browse, person: Callable[[str], Any]
) -> None:
    person("blind").user_permissions.add(Permission.objects.get(codename="start_run"))
    services.start("approval", {"text": "x"}, thread_id="hidden")
    client = browse("blind")
    page = client.post(
        form_of("approval"), opened(client, "approval") | {"input/text": "x", "thread_id": "hidden"}
    )
    assert "You don’t have permission to continue this thread." in words(page)
    assert Run.objects.count() == 1
    # Users are redirected to the runs that they started, but can't view or continue their threads.
    page = client.post(form_of("approval"), opened(client, "approval"), follow=True)
    started = Run.objects.exclude(thread__thread_id="hidden").get()
    assert page.redirect_chain == [(page_of(started.pk, "run"), 302)]
    own = {"input/text": "x", "thread_id": started.thread.thread_id}
    page = client.post(form_of("approval"), opened(client, "approval") | own)
    assert "You don’t have permission to continue this thread." in words(page)
    assert Run.objects.count() == 2


@pytest.mark.usefixtures("graphs_of_ours")
def test_start_page_lists_only_graphs_the_policy_allows_the_user_to_start(
    starter: Client, browse: Browse, person: Callable[[str], Any]
) -> None:
    text = text_of(starter.get(CHOOSE))
    assert form_of("parcel") in text
    for graph in ("for support", "for code", "unknown"):
        assert form_of(graph) not in text
        assert starter.get(form_of(graph)).status_code == 403
        assert starter.post(form_of(graph), {"start": "1", "key": "x"}).status_code == 403
    reader = browse("reader")
    assert CHOOSE not in text_of(reader.get(list_of("run")))
    assert reader.get(CHOOSE).status_code == 403
    person("reader").groups.add(Group.objects.create(name="support"))
    assert CHOOSE in text_of(reader.get(list_of("run")))
    assert text_of(reader.get(CHOOSE)).count("/start/") == 1
    reader.post(form_of("for support"), opened(reader, "for support"))
    assert Run.objects.get().graph == "for support"


@pytest.mark.usefixtures("graphs_of_ours")
def test_start_page_shows_load_error_of_broken_graph_to_operators_only(
    starter: Client, browse: Browse, person: Callable[[str], Any]
) -> None:
    person("reader").user_permissions.add(Permission.objects.get(codename="start_run"))
    page, other = starter.get(CHOOSE), browse("reader").get(CHOOSE)
    assert "broken &lt;b&gt;" in text_of(page)
    assert "no such &lt;module&gt;" in text_of(page)
    assert "This graph can’t be loaded." in words(other)
    assert "no such" not in text_of(other)
    assert form_of("broken <b>") not in text_of(page)
    assert starter.get(form_of("broken <b>")).headers["Location"] == CHOOSE


def test_run_start_form_after_permission_was_revoked_returns_403(
    starter: Client, person: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    posted = opened(starter, "approval")
    person("operator").user_permissions.remove(Permission.objects.get(codename="start_run"))
    assert starter.post(form_of("approval"), posted).status_code == 403
    assert not Run.objects.exists()


def test_start_page_query_count_is_constant_with_five_more_graphs(starter: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as told:
            assert starter.get(CHOOSE).status_code == 200
        return len(told)

    few = queries()
    for number in range(5):
        register(f"one more {number}")(lambda: StateGraph(Whole))
    try:
        assert queries() == few
    finally:
        for number in range(5):
            registry.unregister(f"one more {number}")


def test_start_pages_with_language_code_de_are_in_german(starter: Client, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    assert "Lauf starten" in words(starter.get(CHOOSE))
    assert "Anderen Graphen auswählen" in words(starter.get(form_of("approval")))
