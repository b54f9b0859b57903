"""Runs without a saver, the debug mode, and the second format of output, in both engines."""

from __future__ import annotations

from typing import Any

import pytest

from . import cases_asking, cases_commands, cases_flow, cases_state, cases_subgraphs
from .driving import CONFIG, Case, attempted, plain
from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")

#: Their first step asks nobody.
SILENT = [
    case
    for case in (*cases_flow.CASES, *cases_commands.CASES, *cases_state.CASES)
    if "invoke" in case.ways and not case.differs and not case.name.endswith("that_asks")
]
SOME = [
    case
    for case in (*cases_flow.CASES, *cases_asking.CASES, *cases_commands.CASES)
    if "stream" in case.ways and not case.leaves_out and not case.differs
][::3]


def first_run(engine: Engine, case: Case, call: Any, *, saver: bool) -> Any:
    """Return the stream chunks of the first step of a case."""
    graph = case.build(engine).compile(
        checkpointer=engine.InMemorySaver() if saver else None, **case.compiled
    )
    options = {key: value for key, value in case.steps[0].options.items() if key != "durability"}
    value = case.steps[0].make(engine, ())
    config = {**CONFIG, **case.config} if saver else dict(case.config)
    return attempted(lambda: call(graph, value, config, options))


@pytest.mark.parametrize("case", SILENT, ids=lambda case: case.name)
def test_result_of_run_without_saver_matches_langgraph(case: Case) -> None:
    def call(graph: Any, value: Any, config: Any, options: Any) -> Any:
        return graph.invoke(value, config, **options)

    ours = first_run(OURS, case, call, saver=False)
    assert ours == first_run(LANGGRAPH, case, call, saver=False)


@pytest.mark.parametrize("case", SILENT[::2], ids=lambda case: case.name)
@pytest.mark.parametrize("mode", ["values", "updates", "custom", "tasks"])
def test_stream_of_run_without_saver_matches_langgraph(case: Case, mode: str) -> None:
    def call(graph: Any, value: Any, config: Any, options: Any) -> Any:
        told: list[Any] = []
        ended = attempted(
            lambda: told.extend(graph.stream(value, config, stream_mode=mode, **options))
        )
        return [*sorted(map(plain, told), key=repr), ended]

    ours = first_run(OURS, case, call, saver=False)
    assert ours == first_run(LANGGRAPH, case, call, saver=False)


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)
def test_stream_mode_debug_matches_langgraph(case: Case) -> None:
    def call(graph: Any, value: Any, config: Any, options: Any) -> Any:
        told: list[Any] = []
        ended = attempted(
            lambda: told.extend(graph.stream(value, config, stream_mode="debug", **options))
        )
        return [*sorted(map(plain, told), key=repr), ended]

    ours = first_run(OURS, case, call, saver=True)
    assert ours == first_run(LANGGRAPH, case, call, saver=True)


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)
@pytest.mark.parametrize("mode", ["values", "updates", "tasks", "checkpoints"])
def test_version_2_stream_matches_langgraph(case: Case, mode: str) -> None:
    def call(graph: Any, value: Any, config: Any, options: Any) -> Any:
        told: list[Any] = []
        ended = attempted(
            lambda: told.extend(
                graph.stream(value, config, stream_mode=mode, version="v2", **options)
            )
        )
        return [*sorted(map(plain, told), key=repr), ended]

    ours = first_run(OURS, case, call, saver=True)
    assert ours == first_run(LANGGRAPH, case, call, saver=True)


@pytest.mark.parametrize(
    "case", [*SOME, *cases_state.CASES[:6], *cases_subgraphs.CASES[:6]], ids=lambda case: case.name
)
def test_version_2_result_matches_langgraph(case: Case) -> None:
    def call(graph: Any, value: Any, config: Any, options: Any) -> Any:
        result = graph.invoke(value, config, version="v2", **options)
        return [plain(result.value), sorted(map(plain, result.interrupts), key=repr)]

    ours = first_run(OURS, case, call, saver=True)
    assert ours == first_run(LANGGRAPH, case, call, saver=True)
