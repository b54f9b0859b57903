"""@entrypoint and @task: finished tasks don't run again after an interruption at any point."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import as_completed
from typing import Any

import pytest

from hitl_django import START, Command, StateGraph, entrypoint, interrupt, once, task
from hitl_django.contrib.agents import ToolNode
from hitl_django.engine.errors import UnserializableError
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.state.messages import MessagesState
from hitl_django.engine.store import InMemoryStore
from hitl_django.engine.task.node_api import get_runtime, get_store
from hitl_django.engine.task.runtime import Runtime
from hitl_django.engine.types import RetryPolicy

from .crashing import Crash, Frail, store_answer
from .graphs import CONFIG, State, line, saved


def asked(graph: Pregel) -> list[Any]:
    return [payload.value for payload in graph.get_state(CONFIG).interrupts]


# Crashes.


def essay(ran: Counter[str]) -> Any:
    """Return a workflow with sequential, parallel and nested tasks, and three interrupts."""

    @task
    def step(name: str) -> str:
        ran[name] += 1
        return name.upper()

    @task
    def ask(payload: str) -> str:
        ran[f"ask {payload}"] += 1
        return f"{step('within ' + payload).result()}: {interrupt(payload)}"

    def flow(x: int) -> list[Any]:
        first = step("first").result()
        several = [called.result() for called in [step(name) for name in "abc"]]
        own = interrupt("own")
        told = ask("theirs").result()
        both = [called.result() for called in [ask("left"), ask("right")]]
        return [first, several, own, told, both, step("last").result()]

    return flow


def driven(saver: Frail, ran: Counter[str], config: dict[str, Any]) -> Any:
    """Execute the workflow to its end like a worker, despite crashes."""
    graph = entrypoint(saver)(essay(ran))
    submitted = False
    for _ in range(50):
        try:
            if not submitted:
                submitted = True
                graph.submit(1, CONFIG)
            outcome = graph.advance(config)
        except Crash:
            submitted = saver.get_tuple(CONFIG) is not None
            continue
        if outcome.status != "interrupted":
            assert outcome.status == "finished", outcome
            return graph.get_state(CONFIG).values
        for number, payload in enumerate(outcome.pending_interrupts):
            store_answer(graph, outcome, f"re {payload.interrupt.value}", number)
    raise AssertionError("The run came to no end.")


CALM = Frail()
WHOLE = driven(CALM, Counter(), CONFIG)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, CALM.count + 1))
def test_workflow_crashed_at_any_commit_ends_with_same_result_as_uncrashed_workflow(
    number: int, after: bool
) -> None:
    saver, ran = Frail(), Counter[str]()
    saver.crash_at, saver.crash_after = number, after
    assert driven(saver, ran, {**CONFIG, "max_concurrency": 4}) == WHOLE
    # A task whose result was about to be stored runs again. A crash may affect all parallel tasks
    # in this state.
    again = {name for name, count in ran.items() if count > 1 and not name.startswith("ask")}
    assert max(ran.values()) <= 4  # a task that interrupts starts again with each response
    assert not again if after else len(again) <= 1 or again <= set("abc")


@pytest.mark.parametrize("number", range(1, CALM.count + 1))
def test_workflow_with_max_concurrency_one_repeats_at_most_one_task_after_crash(
    number: int,
) -> None:
    saver, ran = Frail(), Counter[str]()
    saver.crash_at = number
    assert driven(saver, ran, {**CONFIG, "max_concurrency": 1}) == WHOLE
    assert sum(count > 1 for name, count in ran.items() if not name.startswith("ask")) <= 1


def test_workflow_crashing_after_its_tasks_reuses_their_stored_results() -> None:
    ran: list[int] = []

    @task
    def step(x: int) -> int:
        ran.append(x)
        return x

    @entrypoint(Frail())
    def flow(x: int) -> list[int]:
        first = [step(1).result(), step(2).result()]
        if len(ran) == 2:
            ran.append(0)
            raise SystemExit
        return first

    with pytest.raises(SystemExit):
        flow.invoke(1, CONFIG)
    assert flow.invoke(None, CONFIG) == [1, 2]
    assert ran == [1, 2, 0]


def test_renamed_task_function_with_its_old_name_as_name_parameter_reuses_stored_result() -> None:
    saver, calls = InMemorySaver(), list[str]()

    def charge(amount: int) -> int:
        calls.append("charge")
        return amount

    def collect(amount: int) -> int:
        calls.append("collect")
        return amount

    def build(called: Any) -> Any:
        @entrypoint(checkpointer=saver)
        def flow(amount: int) -> Any:
            return [called(amount).result(), interrupt("Go on?")]

        return flow

    config = {"configurable": {"thread_id": "t"}}
    build(task(charge)).invoke(3, config)
    renamed = build(task(collect, name="charge"))
    assert renamed.invoke(Command(resume="yes"), config) == [3, "yes"]
    assert calls == ["charge"]


def test_keyboard_interrupt_in_task_is_raised_and_task_runs_again_on_next_invoke() -> None:
    calls: list[int] = []

    @task
    def step(x: int) -> int:
        calls.append(x)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return x

    @entrypoint(Frail())
    def flow(x: int) -> int:
        called = step(x)
        return 0 if len(calls) < 2 and called is None else called.result()

    with pytest.raises(KeyboardInterrupt):
        flow.invoke(1, CONFIG)
    assert flow.get_state(CONFIG).tasks[0].error is None
    assert flow.invoke(None, CONFIG) == 1


def test_keyboard_interrupt_in_task_without_awaited_result_is_raised() -> None:
    @task
    def step() -> None:
        raise KeyboardInterrupt

    @entrypoint(Frail())
    def flow(x: int) -> str:
        step()
        return "done"

    with pytest.raises(KeyboardInterrupt):
        flow.invoke(1, CONFIG)
    assert flow.get_state(CONFIG).next == ("flow",)


# Retries.


def test_retried_workflow_does_not_run_its_finished_tasks_again() -> None:
    ran: list[str] = []

    @task
    def step(name: str) -> str:
        ran.append(name)
        if ran.count("down") in (1, 2) and name == "down":
            raise ConnectionError
        return name

    @entrypoint(retry_policy=RetryPolicy(0.0001, jitter=False, max_attempts=5))
    def flow(x: int) -> list[str]:
        ran.append("flow")
        result = [step("up").result(), step("down").result()]
        if ran.count("flow") == 1:
            raise ConnectionError
        return result

    assert flow.invoke(1) == ["up", "down"]
    assert ran == ["flow", "up", "down", "down", "down", "flow"]


def tried_again(function: Callable[..., Any], **policies: Any) -> Pregel:
    retry = RetryPolicy(0.0001, jitter=False)
    graph = StateGraph(State).add_node("a", function, retry_policy=retry, **policies)
    return saved(graph.add_edge(START, "a"))


def test_retried_node_reuses_response_and_once_result_of_its_failed_task() -> None:
    sent: list[int] = []
    failing = [2]

    @task
    def mail(x: int) -> Any:
        once("mail", sent.append, x)
        said = interrupt(f"{x}?")
        if failing[0]:
            failing[0] -= 1
            raise ConnectionError
        return said

    graph = tried_again(lambda state: {"log": [mail(state["x"]).result()]})
    graph.invoke({"x": 1}, CONFIG)
    assert graph.invoke(Command(resume="yes"), CONFIG)["log"] == ["yes"]
    assert sent == [1]


def test_retried_node_reuses_results_of_tasks_called_by_its_failed_task() -> None:
    ran: list[str] = []

    @task
    def inner(name: str) -> str:
        ran.append(name)
        return name

    @task
    def outer() -> str:
        done = inner("inner").result()
        ran.append("outer")
        if ran.count("outer") < 3:
            raise ConnectionError
        return str(done)

    graph = tried_again(lambda state: {"log": [outer().result()]})
    assert graph.invoke({"x": 1}, CONFIG)["log"] == ["inner"]
    assert ran == ["inner", "outer", "outer", "outer"]


@pytest.mark.usefixtures("leaping")
@pytest.mark.parametrize("timeout", [None, 60], ids=["of its caller", "of its own, too"])
def test_task_retried_after_timeout_reuses_its_once_result(timeout: float | None) -> None:
    sent: list[int] = []
    began: list[int] = []

    @task(timeout=timeout)
    async def mail(x: int) -> str:
        once("mail", sent.append, x)
        began.append(x)
        if len(began) == 1:
            await asyncio.Event().wait()
        return "sent"

    async def node(state: State) -> Any:
        return {"log": [await mail(state["x"])]}

    graph = tried_again(node, timeout=5)
    assert asyncio.run(graph.ainvoke({"x": 1}, CONFIG))["log"] == ["sent"]
    assert (sent, began) == ([1], [1, 1])


# Interrupts.


def test_interrupts_of_parallel_tasks_can_be_answered_in_any_order() -> None:
    @task
    def ask(name: str) -> str:
        return f"{name} {interrupt(name)}"

    @entrypoint(Frail())
    def flow(x: int) -> list[str]:
        return [called.result() for called in [ask("a"), ask("b"), ask("c")]]

    flow.invoke(1, CONFIG)
    assert asked(flow) == ["a", "b", "c"]
    ids = {payload.value: payload.id for payload in flow.get_state(CONFIG).interrupts}
    flow.invoke(Command(resume={ids["b"]: "2"}), CONFIG)
    assert asked(flow) == ["a", "c"]
    assert flow.invoke(Command(resume={ids["c"]: "3", ids["a"]: "1"}), CONFIG) == [
        "a 1", "b 2", "c 3",
    ]  # fmt: skip


@pytest.mark.parametrize("swallow", [True, False], ids=["a bare except", "no result wanted"])
def test_workflow_that_ignores_interrupt_of_its_task_pauses_until_response(swallow: bool) -> None:
    @task
    def ask() -> Any:
        return interrupt("q")

    @entrypoint(Frail())
    def flow(x: int) -> str:
        called = ask()
        if swallow:
            try:
                called.result()
            except:  # noqa: E722
                pass
        return "went on"

    assert [payload.value for payload in flow.invoke(1, CONFIG)["__interrupt__"]] == ["q"]
    assert flow.invoke(Command(resume="yes"), CONFIG) == "went on"


def test_failed_workflow_leaves_no_pending_interrupt_of_its_task() -> None:
    failing = [True]

    @task
    def ask() -> Any:
        return interrupt("q")

    @entrypoint(Frail())
    def flow(x: int) -> Any:
        called = ask()
        if failing:
            raise ValueError("bad")
        return called.result()

    with pytest.raises(ValueError, match="bad"):
        flow.invoke(1, CONFIG)
    assert asked(flow) == []
    failing.clear()
    assert flow.invoke(2, CONFIG)["__interrupt__"][0].value == "q"
    assert flow.invoke(Command(resume="yes"), CONFIG) == "yes"


# Where tasks may be called.


def test_once_with_same_key_in_two_task_calls_runs_once_per_call() -> None:
    sent: list[int] = []

    @task
    def mail(x: int) -> Any:
        once("mail", sent.append, x)
        return interrupt(f"{x}?")

    @entrypoint(Frail())
    def flow(x: int) -> list[Any]:
        return [mail(1).result(), mail(2).result()]

    for value in (1, Command(resume="a"), Command(resume="b")):
        result = flow.invoke(value, CONFIG)
    assert (result, sent) == (["a", "b"], [1, 2])


def test_task_results_in_parallel_tools_do_not_depend_on_completion_order() -> None:
    ran: list[str] = []
    slow = threading.Event()

    @task
    def step(name: str) -> str:
        ran.append(name)
        return name.upper()

    def first(x: int) -> str:
        slow.wait(60)
        return f"{step('first').result()} {interrupt('first?')} {step('end').result()}"

    def second(x: int) -> str:
        result = step("second").result()
        slow.set()
        return str(result)

    calls = [
        {"name": name, "args": {"x": 1}, "id": name, "type": "tool_call"}
        for name in ("first", "second")
    ]
    graph = StateGraph(MessagesState).add_node("tools", ToolNode([first, second]))
    compiled = saved(graph.add_edge("__start__", "tools"))
    compiled.invoke(
        {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]}, CONFIG
    )
    result = compiled.invoke(Command(resume="yes"), CONFIG)
    assert [said.content for said in result["messages"][1:]] == ["FIRST yes END", "SECOND"]
    assert sorted(ran) == ["end", "first", "second"]


def test_task_futures_are_accepted_by_concurrent_futures_as_completed() -> None:
    @task
    def double(x: int) -> int:
        return 2 * x

    @entrypoint(Frail())
    def flow(x: int) -> list[int]:
        return sorted(called.result(60) for called in as_completed([double(n) for n in range(x)]))

    assert flow.invoke(3, CONFIG) == [0, 2, 4]


def test_task_functions_called_without_waiting_run_in_parallel() -> None:
    together = threading.Barrier(3, timeout=60)

    @task
    def meet() -> int:
        return together.wait()

    @entrypoint(Frail())
    def flow(x: int) -> list[int]:
        return sorted(called.result() for called in [meet(), meet(), meet()])

    assert flow.invoke(1, CONFIG) == [0, 1, 2]

    def node(state: Any) -> dict[str, Any]:
        return {"log": sorted(called.result() for called in [meet(), meet(), meet()])}

    assert saved(line(a=node)).invoke({"x": 1}, CONFIG)["log"] == [0, 1, 2]


def test_recursively_nested_tasks_finish_with_max_concurrency_two() -> None:
    @task
    def deep(level: int) -> int:
        if not level:
            return 1
        return 1 + sum(called.result() for called in [deep(level - 1), deep(level - 1)])

    @entrypoint(Frail())
    def flow(x: int) -> int:
        return deep(x).result()

    assert flow.invoke(4, {**CONFIG, "max_concurrency": 2}) == 31


def test_max_concurrency_one_runs_tasks_on_the_calling_os_thread() -> None:
    threads: list[str] = []

    @task
    def step() -> None:
        threads.append(threading.current_thread().name)

    @entrypoint(Frail())
    def flow(x: int) -> None:
        step().result()
        step()
        threads.append(threading.current_thread().name)

    flow.invoke(1, {**CONFIG, "max_concurrency": 1})
    assert set(threads) == {threading.current_thread().name}


def test_node_calling_task_functions_from_a_dict_resumes_with_their_results() -> None:
    @task
    def double(x: int) -> int:
        return 2 * x

    steps = {"double": double}

    def node(state: Any) -> dict[str, Any]:
        called = [steps["double"](1), steps["double"](2)]
        return {"log": [c.result() for c in called] + [interrupt("q")]}

    graph = saved(line(a=node))
    graph.invoke({"x": 1}, CONFIG)
    assert graph.invoke(Command(resume="yes"), CONFIG)["log"] == [2, 4, "yes"]


def test_async_workflow_interrupts_and_resumes_under_sync_invoke() -> None:
    ran: list[int] = []

    @task
    async def double(x: int) -> int:
        await asyncio.sleep(0)
        ran.append(x)
        return 2 * x

    @task
    def ask(payload: str) -> Any:
        return interrupt(payload)

    @entrypoint(Frail())
    async def flow(x: int) -> list[Any]:
        double(9)  # was waited for nevertheless
        return [await double(1), await double(2), await ask("q")]

    flow.invoke(1, CONFIG)
    assert flow.invoke(Command(resume="yes"), CONFIG) == [2, 4, "yes"]
    assert sorted(ran) == [1, 2, 9]


@pytest.mark.usefixtures("leaping")
def test_async_task_function_exceeding_wait_for_timeout_is_cancelled() -> None:
    ended: list[str] = []

    @task
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    @entrypoint(Frail())
    async def flow(x: int) -> str:
        try:
            await asyncio.wait_for(wait(), 0.01)
        except TimeoutError:
            return "gave up"
        return "waited"

    assert asyncio.run(flow.ainvoke(1, CONFIG)) == "gave up"
    assert ended == ["cancelled"]


def test_cancelling_async_workflow_cancels_its_running_tasks() -> None:
    ended: list[str] = []

    async def main() -> None:
        began = asyncio.Event()

        @task
        async def wait() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("ended")

        @entrypoint(Frail())
        async def flow(x: int) -> None:
            await wait()

        running = asyncio.ensure_future(flow.ainvoke(1, CONFIG))
        await began.wait()
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()

    asyncio.run(main())
    assert ended == ["ended"]


# Valid inputs and results.


def test_unstorable_task_result_raises_unserializable_error_naming_the_task() -> None:
    @task
    def bad() -> Any:
        return {"f": lambda: None}

    @entrypoint(Frail())
    def flow(x: int) -> str:
        try:
            bad().result()
        except UnserializableError as error:
            return str(error).partition(":")[0]
        return "stored"

    assert flow.invoke(1, CONFIG) == "Node 'bad' returned a value that can't be stored"


def test_store_is_injected_into_workflow_and_its_tasks() -> None:
    @task
    def note(text: str, *, store: Any, runtime: Runtime[Any]) -> Any:
        store.put(("notes",), "last", {"text": text})
        return [runtime.store is store, get_store() is store, get_runtime().store is store]

    @entrypoint(Frail(), store=InMemoryStore())
    def flow(x: int, store: Any) -> Any:
        return [note("hi").result(), store.get(("notes",), "last").value]

    assert flow.invoke(1, CONFIG) == [[True, True, True], {"text": "hi"}]


def test_config_and_store_arguments_passed_to_task_are_not_overridden() -> None:
    @task
    def step(x: int, config: Any = None, *, store: Any = None) -> Any:
        return [config, store]

    @entrypoint()
    def flow(x: int) -> Any:
        return [step(1, "mine").result(), step(1, config="named", store="own").result()]

    assert flow.invoke(1) == [["mine", None], ["named", "own"]]


def test_workflow_context_given_as_dict_is_converted_to_context_schema() -> None:
    from dataclasses import dataclass

    @dataclass
    class Settings:
        unit: str

    @entrypoint(context_schema=Settings)
    def flow(x: int, runtime: Runtime[Settings]) -> str:
        return f"{x} {runtime.context.unit}"

    assert flow.invoke(3, context={"unit": "kg"}) == "3 kg"


def test_workflow_input_and_output_schemas_follow_its_annotations() -> None:
    @entrypoint()
    def flow(x: int) -> int:
        return x

    assert (flow.name, flow.get_input_jsonschema()["type"]) == ("flow", "integer")
    assert flow.get_output_jsonschema()["type"] == "integer"
    with pytest.raises(ValueError, match="valid integer"):
        flow.validate_input("many")


def test_entrypoint_with_generator_or_function_without_parameters_raises_error() -> None:
    def yields(x: int) -> Any:
        yield x

    async def yields_async(x: int) -> Any:
        yield x

    for function in (yields, yields_async):
        with pytest.raises(NotImplementedError, match="Generators are not supported"):
            entrypoint()(function)
    with pytest.raises(ValueError, match="at least one parameter"):
        entrypoint()(lambda: None)


def test_entrypoint_without_parentheses_raises_type_error() -> None:
    with pytest.raises(TypeError, match=r"Write @entrypoint\(\) with parentheses"):

        @entrypoint  # type: ignore[arg-type]
        def double(x: int) -> int:
            return 2 * x


def test_task_function_called_outside_a_run_raises_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="Called get_config outside of a runnable context"):
        task(lambda: None)()
