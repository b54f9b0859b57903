"""Context and configurable of runs: validation, storage and availability in nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from django.test import override_settings
from django.urls import reverse
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph as ForeignStateGraph
from langgraph.runtime import Runtime as ForeignRuntime
from langgraph.types import interrupt as foreign_interrupt
from pydantic import BaseModel, SecretStr
from typing_extensions import TypedDict

from hitl_django import START, StateGraph, interrupt, services, testing
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import change_schedule, create_schedule
from hitl_django.contrib.schedules.start_due import start_due
from hitl_django.engine.errors import InvalidInputError
from hitl_django.engine.task.runtime import Runtime
from hitl_django.errors import IdempotencyKeyReusedError
from hitl_django.graph_registry import registry
from hitl_django.models import Checkpoint, Interrupt, Run, Thread
from hitl_django.services import RunOptions

pytestmark = pytest.mark.django_db

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
Advance = Callable[[], int]


@dataclasses.dataclass
class Person:
    user_id: str
    since: date = date(2020, 1, 1)


class State(TypedDict, total=False):
    out: Any


def node(state: State, config: RunnableConfig, runtime: Runtime[Person]) -> dict[str, Any]:
    answer = interrupt({"title": "ok?"})
    context, tenant = runtime.context, config["configurable"].get("tenant")
    return {"out": [context.user_id, context.since.isoformat(), tenant, answer]}


def foreign_node(
    state: State, config: RunnableConfig, runtime: ForeignRuntime[Person]
) -> dict[str, Any]:
    answer = foreign_interrupt({"title": "ok?"})
    context, tenant = runtime.context, config["configurable"].get("tenant")
    return {"out": [context.user_id, context.since.isoformat(), tenant, answer]}


def build(kind: str) -> Any:
    if kind == "langgraph":
        foreign = ForeignStateGraph(State, context_schema=Person).add_node("n", foreign_node)
        return foreign.add_edge("__start__", "n")
    graph = StateGraph(State, context_schema=Person).add_node("n", node).add_edge(START, "n")
    if kind == "subgraph":
        inner = graph.compile()
        graph = StateGraph(State, context_schema=Person).add_node("outer", inner)
        graph.add_edge(START, "outer")
    return graph


@pytest.fixture
def registered() -> Iterator[Callable[[str], None]]:
    def register(kind: str) -> None:
        decorate = register_langgraph if kind == "langgraph" else registry.register
        decorate("contextual")(lambda: build(kind))

    yield register
    registry.unregister("contextual")


@pytest.fixture
def advance() -> Iterator[Advance]:
    with testing.inline() as advance_all:
        yield advance_all


def answer(advance: Advance) -> list[Any]:
    """Respond to the pending interrupt, and return the result of the newest run."""
    asked = Interrupt.objects.get(status="pending")
    services.decide(asked.pk, "respond", value="yes")
    advance()
    run = Run.objects.get(pk=asked.run_id)
    assert (run.state, run.error) == ("succeeded", "")
    return list(services.thread_state(run.thread.thread_id).values["out"])


@pytest.mark.parametrize("kind", ["ours", "subgraph", "langgraph"])
@pytest.mark.parametrize("form", ["instance", "json", "options"])
def test_run_context_and_configurable_reach_nodes_after_an_interrupt(
    registered: Any, advance: Advance, kind: str, form: str
) -> None:
    registered(kind)
    given: Any = {"user_id": "ann", "since": "2026-01-02"}
    if form == "instance":
        given = Person("ann", date(2026, 1, 2))
    if form == "options":
        options = RunOptions(context=given, configurable={"tenant": "t1"})
        services.start("contextual", {}, options=options)
    else:
        services.start("contextual", {}, context=given, configurable={"tenant": "t1"})
    advance()
    assert answer(advance) == ["ann", "2026-01-02", "t1", "yes"]


@pytest.mark.parametrize(
    ("context", "pointer"),
    [
        (None, "context.user_id"),
        ({}, "context.user_id"),
        ({"user_id": 3}, "context.user_id"),
        ({"user_id": "ann", "since": "soon"}, "context.since"),
        ({"user_id": "ann", "more": 1}, "context.more"),
        ({"user_id": object()}, "context"),
    ],
)
@pytest.mark.parametrize("kind", ["ours", "langgraph"])
def test_start_with_invalid_context_raises_invalid_input_error_naming_field_and_stores_no_run(
    registered: Any, kind: str, context: Any, pointer: str
) -> None:
    registered(kind)
    with pytest.raises(InvalidInputError) as refused:
        services.start("contextual", {}, context=context)
    assert [at for at, _ in refused.value.faults] == [pointer]
    assert not Run.objects.exists()
    assert not Thread.objects.exists()


@pytest.mark.any_database
def test_start_with_thread_id_in_configurable_raises_invalid_input_error(registered: Any) -> None:
    registered("ours")
    with pytest.raises(InvalidInputError, match="'thread_id' is the engine's own") as refused:
        services.start("contextual", {}, context={"user_id": "a"}, configurable={"thread_id": "x"})
    assert [at for at, _ in refused.value.faults] == ["configurable.thread_id"]


@pytest.mark.any_database
def test_start_with_repeated_key_and_different_context_raises_key_reused_error(
    registered: Any,
) -> None:
    registered("ours")
    first = services.start("contextual", {}, context=Person("ann"), key="k")
    again = services.start("contextual", {}, context=Person("ann"), key="k")
    assert (again.id, again.created) == (first.id, False)
    with pytest.raises(IdempotencyKeyReusedError):
        services.start("contextual", {}, context=Person("ben"), key="k")


def test_waiting_run_receives_its_context_instead_of_the_context_of_the_earlier_run(
    registered: Any, advance: Advance
) -> None:
    registered("ours")
    services.start("contextual", {}, context=Person("ann"), thread_id="t")
    advance()
    services.start("contextual", {}, context=Person("ben"), thread_id="t", on_pending="wait")
    asked = Interrupt.objects.get(status="pending")
    services.decide(asked.pk, "respond", value="yes")
    advance()
    assert answer(advance)[0] == "ben"


def test_fork_of_run_receives_context_of_the_forked_run(registered: Any, advance: Advance) -> None:
    registered("ours")
    run = services.start("contextual", {}, context=Person("ann"), thread_id="t")
    advance()
    newest = Checkpoint.objects.order_by("-checkpoint_id").values_list("checkpoint_id", flat=True)
    services.fork("t", newest[0], options=RunOptions(durability="sync"))
    advance()
    assert answer(advance)[0] == "ann"
    assert run.thread_id == "t"


@pytest.mark.parametrize("kind", ["ours", "langgraph"])
def test_run_context_is_encrypted_in_database_and_removed_by_erase_thread(
    registered: Any, advance: Advance, kind: str
) -> None:
    def dump() -> str:
        found = ""
        with connection.cursor() as cursor:
            for table in connection.introspection.table_names(cursor):
                if table.startswith("hitl_django_"):
                    cursor.execute(f'SELECT * FROM "{table}"')
                    for row in cursor.fetchall():
                        found += " ".join(
                            bytes(each).decode("latin-1")
                            if isinstance(each, (bytes, memoryview))
                            else str(each)
                            for each in row
                        )
        return found

    registered(kind)
    with override_settings(HITL={**settings.HITL, "ENCRYPTION_KEYS": [KEY]}):
        context, more = {"user_id": "palimpsest"}, {"tenant": "hierophant"}
        services.start("contextual", {}, context=context, configurable=more, thread_id="t")
        advance()
        assert "palimpsest" not in dump()
        assert "hierophant" not in dump()
        answer(advance)
        services.erase_thread("t")
    assert Run.objects.get().options is None


class Keyed(BaseModel):
    api_key: SecretStr


@pytest.mark.any_database
def test_secret_in_run_context_reaches_node_with_its_real_value(advance: Advance) -> None:
    def read(state: State, runtime: Runtime[Keyed]) -> dict[str, Any]:
        return {"out": runtime.context.api_key.get_secret_value()}

    graph = StateGraph(State, context_schema=Keyed).add_node("n", read).add_edge(START, "n")
    registry.register("with api key")(lambda: graph)
    try:
        run = services.start("with api key", {}, context=Keyed(api_key=SecretStr("s3cret")))
        advance()
        assert services.run_result(run.id)["out"] == "s3cret"
    finally:
        registry.unregister("with api key")


@pytest.mark.any_database
def test_start_api_with_invalid_context_returns_error_with_json_pointer(
    registered: Any, advance: Advance, admin_client: Any
) -> None:
    registered("ours")
    address = reverse("hitl_django:runs")
    body = {"graph": "contextual", "input": {}, "context": {"user_id": 3}}
    refused = admin_client.post(address, body, content_type="application/json")
    assert refused.status_code == 422
    assert [each["pointer"] for each in refused.json()["errors"]] == ["/context/user_id"]
    body |= {"context": {"user_id": "ann"}, "configurable": {"tenant": "t1"}}
    assert admin_client.post(address, body, content_type="application/json").status_code == 202
    advance()
    assert answer(advance) == ["ann", "2020-01-01", "t1", "yes"]


@pytest.mark.any_database
def test_admin_start_form_has_one_field_per_context_schema_field(
    registered: Any, advance: Advance, admin_client: Any
) -> None:
    registered("ours")
    address = reverse("admin:hitl_django_run_start_graph", args=["contextual"])
    page = admin_client.get(address).content.decode()
    assert 'name="context/user_id"' in page
    refused = admin_client.post(
        address, {"start": "1", "context/user_id": "a", "context/since": "soon"}
    )
    assert refused.status_code == 200
    assert not Run.objects.exists()
    admin_client.post(address, {"start": "1", "context/user_id": "ann"})
    advance()
    assert answer(advance)[0] == "ann"


@pytest.mark.any_database
def test_admin_start_form_validates_configurable_json_and_passes_it_to_run(
    registered: Any, advance: Advance, admin_client: Any
) -> None:
    registered("ours")
    address = reverse("admin:hitl_django_run_start_graph", args=["contextual"])
    given = {"start": "1", "context/user_id": "ann"}
    for wrong, reason in (
        ("{", "Enter valid JSON: "),
        ('["t1"]', "Must be a JSON object."),
        ('{"thread_id": "x"}', "configurable.thread_id: is the engine"),
    ):
        page = admin_client.post(address, {**given, "configurable": wrong})
        assert page.context["form"].options.errors.keys() == {"configurable"}
        assert reason in page.content.decode()
        assert not Run.objects.exists()
    admin_client.post(address, {**given, "configurable": '{"tenant": "t1"}'})
    advance()
    assert answer(advance) == ["ann", "2020-01-01", "t1", "yes"]


@pytest.mark.any_database
def test_admin_start_form_of_graph_without_context_schema_accepts_context_as_json(
    admin_client: Any,
) -> None:
    graph = StateGraph(State).add_node("n", lambda state: {}).add_edge(START, "n")
    registry.register("schemaless")(lambda: graph)
    try:
        address = reverse("admin:hitl_django_run_start_graph", args=["schemaless"])
        assert '<details class="hitl-card hitl-fold">' in admin_client.get(address).content.decode()
        given = {"context": '{"user_id": "ann"}', "configurable": ""}
        page = admin_client.post(address, {**given, "more": "input"}).content.decode()
        assert '<details class="hitl-card hitl-fold" open>' in page
        admin_client.post(address, {**given, "start": "1"})
    finally:
        registry.unregister("schemaless")
    assert Run.objects.get().options == {"context": {"user_id": "ann"}}


@pytest.mark.any_database
def test_admin_start_form_of_graph_with_dict_context_has_one_json_field(admin_client: Any) -> None:
    graph = StateGraph(State, context_schema=dict).add_node("n", lambda state: {})
    registry.register("loose")(lambda: graph.add_edge(START, "n"))
    try:
        address = reverse("admin:hitl_django_run_start_graph", args=["loose"])
        assert 'name="context"' in admin_client.get(address).content.decode()
        admin_client.post(address, {"start": "1", "context": '{"user_id": "ann"}'})
        assert Run.objects.get().options == {"context": {"user_id": "ann"}}
        schemas = admin_client.get("/agent/assistants/loose/schemas").json()
        assert schemas["context_schema"]["type"] == "object"
    finally:
        registry.unregister("loose")


@pytest.mark.any_database
def test_scheduled_run_receives_context_and_configurable_of_its_schedule(
    registered: Any, advance: Advance
) -> None:
    registered("ours")
    with pytest.raises(InvalidInputError) as refused:
        create_schedule("contextual", "0 7 * * *", {})
    assert [at for at, _ in refused.value.faults] == ["context.user_id"]
    made = create_schedule(
        "contextual", "0 7 * * *", {}, context=Person("ann"), configurable={"tenant": "t1"}
    )
    Schedule.objects.update(next_at=Now() - timedelta(minutes=1))
    start_due()
    advance()
    assert answer(advance) == ["ann", "2020-01-01", "t1", "yes"]
    change_schedule(made.id, context={"user_id": "ben"})
    assert Schedule.objects.get().context == {"user_id": "ben"}
