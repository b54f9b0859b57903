"""The states of runs and questions, from the models."""

from __future__ import annotations

from collections.abc import Mapping

from hitl_django import START, StateGraph

from . import markdown, sources

#: Why a run goes from one state to another.
REASONS: Mapping[tuple[str, str], str] = {
    ("WAITING", "QUEUED"): "The runs of its thread before it have ended.",
    ("WAITING", "FAILED"): "Its input is none that today's graph takes.",
    ("WAITING", "CANCELLED"): "Somebody cancels it.",
    ("QUEUED", "RUNNING"): "A worker claims it.",
    ("QUEUED", "PARKED"): "Workers claimed it several times and got nowhere.",
    ("QUEUED", "CANCELLED"): "Somebody cancels it.",
    ("RUNNING", "QUEUED"): "Its time slice is used up, or its worker is told to end.",
    ("RUNNING", "RUNNING"): "Another worker takes over from one that fell silent.",
    ("RUNNING", "INTERRUPTED"): "It asks.",
    ("RUNNING", "SUCCEEDED"): "It came to its end.",
    ("RUNNING", "FAILED"): "A node raised.",
    ("RUNNING", "PARKED"): (
        "It got nowhere, several times, has an answer to another question, or misses something of "
        "its graph."
    ),
    ("RUNNING", "CANCELLED"): "Somebody cancels it.",
    ("INTERRUPTED", "QUEUED"): "Somebody decides, or the question expires.",
    ("INTERRUPTED", "PARKED"): "The question expires.",
    ("INTERRUPTED", "CANCELLED"): "Somebody cancels it, or the question expires.",
    ("FAILED", "WAITING"): "An operator retries it, and it never began.",
    ("FAILED", "QUEUED"): "An operator retries it.",
    ("FAILED", "CANCELLED"): "Somebody cancels it.",
    ("PARKED", "QUEUED"): "An operator retries it.",
    ("PARKED", "CANCELLED"): "Somebody cancels it.",
}


def transitions() -> list[tuple[str, str]]:
    """Return the transitions of a run, by the names of their states."""
    run = sources.load(sources.RUN)
    return [
        (before.name, after.name)
        for before in run.State
        for after in run.State
        if after in run.TRANSITIONS[before]
    ]


def picture() -> str:
    """Return the states and transitions of a run as SVG, drawn as any graph of the engine is."""
    graph = StateGraph(dict)
    for state in sources.load(sources.RUN).State:
        graph.add_node(state.name, lambda state: {})
    graph.add_edge(START, "QUEUED").add_edge(START, "WAITING")
    for before, after in transitions():
        graph.add_edge(before, after)
    laid_out = sources.load(sources.LAYOUT)(graph.compile())
    return str(sources.load(sources.SVG)(laid_out, title="The states of a run"))


def page() -> str:
    """Return the states of a run and the transitions between them."""
    found = transitions()
    if wrong := set(found) ^ REASONS.keys():
        raise LookupError(f"Transitions that are not in both places: {sorted(wrong)}")
    return markdown.page(
        [
            markdown.directive("raw", "html", picture()),
            markdown.table(
                ["from", "to", "when"],
                (
                    [markdown.code(before), markdown.code(after), REASONS[before, after]]
                    for before, after in found
                ),
            ),
        ]
    )


def interrupts() -> str:
    """Return the states of a question."""
    return markdown.table(
        ["status", "shown as"],
        (
            [markdown.code(status.value), str(status.label)]
            for status in sources.load(sources.INTERRUPT).Status
        ),
    )
