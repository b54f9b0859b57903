"""A node that fails until it is repaired, next to nodes that don't fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hitl_django.engine.savers.checkpoint import Outcome

from .graphs import CONFIG, line, log_of, saved, says, side_by_side

#: Positions of the faulty node: alone, or in a super-step with a working node.
PLACES = ("alone", "beside")


class Trial:
    """A thread of a graph whose node ``bad`` calls ``fault(state)`` until it is repaired.

    ``able`` runs before or concurrently with ``bad``, and ``after`` runs after both. ``calls``
    contains the order in which ``able`` and ``after`` ran.
    """

    def __init__(
        self, fault: Callable[[Any], Any], place: str = "alone", saver: Any = None, **options: Any
    ) -> None:
        self.fault: Callable[[Any], Any] = fault
        self.calls: list[str] = []
        self.able_ran = threading.Event()
        if place == "alone":
            graph = line(able=self._able, bad=self._bad, after=says("after"))
        else:
            graph = side_by_side(able=self._able, bad=self._bad)
            graph.add_node("after", says("after")).add_edge(["able", "bad"], "after")
        self.graph = saved(graph, saver, **options)
        self.graph.submit({"x": 1}, CONFIG)

    def _able(self, state: Any) -> dict[str, Any]:
        self.calls.append("able")
        self.able_ran.set()
        return {"log": ["able"]}

    def _bad(self, state: Any) -> Any:
        assert self.able_ran.wait(60)
        self.calls.append("bad")
        return self.fault(state)

    def advance(self) -> Outcome:
        return self.graph.advance(CONFIG)

    def failure(self) -> Exception:
        outcome = self.advance()
        assert outcome.status == "failed"
        assert isinstance(outcome.error, Exception)
        return outcome.error

    async def afailure(self) -> Exception:
        try:
            await self.graph.ainvoke(None, CONFIG)
        except Exception as error:
            return error
        raise AssertionError("Succeeded.")

    def mend(self) -> None:
        self.fault = says("fine")

    def assert_waits_at_the_fault(self) -> None:
        seen = self.graph.get_state(CONFIG)
        assert seen.next == ("bad",)
        assert seen.values == {"x": 1, "log": ["able"]}
        assert [task.error for task in seen.tasks if task.name == "bad"] != [None]

    def assert_goes_on(self) -> None:
        self.mend()
        assert self.advance().status == "finished"
        assert sorted(log_of(self.graph)) == ["able", "after", "fine"]
        assert sorted(self.calls) == ["able", "bad", "bad"]


def said_of(error: BaseException) -> str:
    try:
        words = str(error)
    except Exception:
        words = ""
    return "\n".join([words, *getattr(error, "__notes__", [])])
