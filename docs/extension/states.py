"""Reference of the states of runs and interrupts, from the models."""

from __future__ import annotations

from collections.abc import Mapping

from hitl_django import START, StateGraph

from . import markdown, sources

#: Causes of a run's transitions.
REASONS: Mapping[tuple[str, str], str] = {
    ("WAITING", "QUEUED"): "All earlier runs of the thread have ended.",
    ("WAITING", "FAILED"): "The current version of the graph does not accept the input.",
    ("WAITING", "CANCELLED"): "A user cancels the run.",
    ("QUEUED", "RUNNING"): "A worker claims the run.",
    ("QUEUED", "PARKED"): "Workers have claimed the run several times without progress.",
    ("QUEUED", "CANCELLED"): "A user cancels the run.",
    ("RUNNING", "QUEUED"): "The time slice has ended, or the worker is shutting down.",
    ("RUNNING", "RUNNING"): "Another worker takes over the run of a dead worker.",
    ("RUNNING", "INTERRUPTED"): "The run has created an interrupt.",
    ("RUNNING", "SUCCEEDED"): "The graph has finished.",
    ("RUNNING", "FAILED"): "A node has raised an exception.",
    ("RUNNING", "PARKED"): (
        "The run made no progress several times, its interrupt changed after the decision, or "
        "the current version of the graph lacks a part that the thread needs."
    ),
    ("RUNNING", "CANCELLED"): "A user cancels the run.",
    ("INTERRUPTED", "QUEUED"): "A user decides the interrupt, or the interrupt expires.",
    ("INTERRUPTED", "PARKED"): "The interrupt expires.",
    ("INTERRUPTED", "CANCELLED"): "A user cancels the run, or the interrupt expires.",
    ("FAILED", "WAITING"): "An operator retries a run that never began.",
    ("FAILED", "QUEUED"): "An operator retries the run.",
    ("FAILED", "CANCELLED"): "A user cancels the run.",
    ("PARKED", "QUEUED"): "An operator retries the run.",
    ("PARKED", "CANCELLED"): "A user cancels the run.",
}


def transitions() -> list[tuple[str, str]]:
    """Return the transitions of a run as pairs of state names."""
    run = sources.load(sources.RUN)
    return [
        (before.name, after.name)
        for before in run.State
        for after in run.State
        if after in run.TRANSITIONS[before]
    ]


def picture() -> str:
    """Return the states and transitions of a run as SVG."""
    graph = StateGraph(dict)
    for state in sources.load(sources.RUN).State:
        graph.add_node(state.name, lambda state: {})
    graph.add_edge(START, "QUEUED").add_edge(START, "WAITING")
    for before, after in transitions():
        graph.add_edge(before, after)
    laid_out = sources.load(sources.LAYOUT)(graph.compile())
    return str(sources.load(sources.SVG)(laid_out, title="States of a run"))


def page() -> str:
    """Return the states and transitions of a run as tables."""
    found = transitions()
    if wrong := set(found) ^ REASONS.keys():
        raise LookupError(f"Transitions that are not in both places: {sorted(wrong)}")
    return markdown.page(
        [
            markdown.directive("raw", "html", picture()),
            markdown.table(
                ["from", "to", "reason"],
                (
                    [markdown.code(before), markdown.code(after), REASONS[before, after]]
                    for before, after in found
                ),
            ),
        ]
    )


def interrupts() -> str:
    """Return the states of an interrupt."""
    return markdown.table(
        ["status", "label in the admin"],
        (
            [markdown.code(status.value), str(status.label)]
            for status in sources.load(sources.INTERRUPT).Status
        ),
    )
