"""Events and results of runs in the format of LangGraph's server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from hitl_django import services
from hitl_django.api import querysets
from hitl_django.api.event_stream import render_frame, stream_events
from hitl_django.api.waiting_response import Steps
from hitl_django.errors import HitlError, RunNotFound
from hitl_django.models import Interrupt, Run
from hitl_django.models.events import SUBGRAPHS, decode_modes
from hitl_django.permissions import get_policy
from hitl_django.services import EventInfo, EventPage, EventReader

from .bodies import STORED_MODES
from .derived_modes import DERIVED_MODES, Part

#: Name of the error in a failed run's response. An SDK requires this name.
FAILURES = {
    Run.State.FAILED: "RunFailed",
    Run.State.PARKED: "RunParked",
    Run.State.CANCELLED: "RunCancelled",
}
_MODE_OF = {kind: mode for mode, kind in STORED_MODES.items()}
#: Number of earlier events that are read together.
EVENTS_READ = 100
#: Coordinates of checkpoints. Clients read them under the engine's names and under their own names.
_COORDINATES = {"config": "checkpoint", "parent_config": "parent_checkpoint"}


class RunStream:
    """A stream of the events of a run, starting after the event with the number ``after``.

    The id of an event is its number, so that a reconnecting client gets each event exactly once.
    The stream ends with ``end`` when the run ends or waits for review. With ``stays``, the stream
    stays open after the maximum time of a response, because some clients don't reconnect. The
    user's permissions are then checked again. Set ``stays`` only under ASGI, where a stream doesn't
    occupy an OS thread.
    """

    def __init__(
        self,
        reader: EventReader,
        user: Any,
        after: int,
        modes: list[str] | None,
        *,
        subgraphs: bool,
        stays: bool,
    ) -> None:
        self.reader, self.user, self.last, self.stays = reader, user, after, stays
        self.run = Run.objects.using(reader.using).select_related("thread").get(pk=reader.run_id)
        wanted = {*(modes or STORED_MODES)}
        if "messages-tuple" in wanted:  # As with LangGraph's server, it replaces the older format.
            wanted.discard("messages")
        self.kinds = {kind for mode, kind in STORED_MODES.items() if mode in wanted}
        self.derived = [make(self.run) for mode, make in DERIVED_MODES.items() if mode in wanted]
        self.subgraphs = subgraphs

    def steps(self, most: float) -> Steps:
        """Yield the events to send, and the numbers of seconds to wait between events.

        ``most`` is the maximum time of a response in seconds.
        """
        if self.derived:
            self._read_earlier_events()
        yield from stream_events(self.reader, self.last, most, self._render_page)
        while not self.reader.read(self.last, 1).ended:
            if not (self.stays and most and self._may_stay()):
                return
            yield from stream_events(self.reader, self.last, most, self._render_page)
        yield self._render_end()

    def _may_stay(self) -> bool:
        """Check the user's permissions again, and return whether the stream may continue."""
        user = querysets.reload_user(self.user)
        if user is None:
            return False
        try:
            self.reader = EventReader(self.run.pk, by=user, to_rest=True)
        except RunNotFound:
            return False
        self.user = user
        return True

    def _render_page(self, page: EventPage) -> bytes:
        self.last = page.last
        return b"".join(map(self._render_event, page.events))

    def _read_earlier_events(self) -> None:
        """Pass the events that precede the stream to the derived stream modes.

        The later parts of these modes depend on all earlier events of the run.
        """
        place = max(self.run.first_event - 1, 0)
        while place < self.last:
            page = self.reader.read(place, min(EVENTS_READ, self.last - place))
            for event in page.events:
                list(self._derive_parts(event))
            if page.last == place:
                return
            place = page.last

    def _render_event(self, event: EventInfo) -> bytes:
        """Return an event of the run as one or more server-sent events (frames).

        The last frame has the number of the event. Earlier frames have the number of the previous
        event. If a client disconnects between the frames, it therefore receives all frames again.
        """
        parts = [*self._list_parts(event)]
        places = [event.seq - 1] * (len(parts) - 1) + [event.seq]
        return b"".join(
            render_frame(name, data, place)
            for (name, data), place in zip(parts, places, strict=False)
        )

    def _list_parts(self, event: EventInfo) -> Iterator[Part]:
        if event.kind == Run.State.QUEUED:
            yield from self._list_first_parts(event)
        elif self._shows(event) and event.kind in self.kinds:
            name = "|".join([_MODE_OF[event.kind].removesuffix("-tuple"), *event.namespace])
            yield name, self._find_data(event)
        yield from self._derive_parts(event)

    def _derive_parts(self, event: EventInfo) -> Iterator[Part]:
        for mode in self.derived:
            if self._shows(event) or (not event.withheld and SUBGRAPHS in mode.kinds):
                yield from mode.convert(event, self._find_data(event))

    def _shows(self, event: EventInfo) -> bool:
        return not event.withheld and (self.subgraphs or not event.namespace)

    def _list_first_parts(self, event: EventInfo) -> Iterator[Part]:
        """Yield the parts (server-sent events) for the start or resume of a run.

        Clients show the interrupts of the last values until they receive new values. If the last
        values had interrupts, the values are therefore sent again without interrupts.
        """
        thread_id = self.run.thread.thread_id
        yield "metadata", {"run_id": str(self.run.pk), "thread_id": thread_id, "attempt": 1}
        values = self._find_answered_values(event.seq)
        if values is not None:
            yield "values", values

    def _find_answered_values(self, before: int) -> Any:
        """Return the values of the last ``values`` event, without their interrupts.

        Only events before the event number ``before`` are considered. Return None if the values had
        no interrupts.
        """
        event = self.reader.find_last("values", before) if "values" in self.kinds else None
        if event is None or event.withheld:
            return None
        values = self._find_data(event)
        if not isinstance(values, dict) or not (event.truncated or "__interrupt__" in values):
            return None
        return _drop_interrupts(values)

    def _find_data(self, event: EventInfo) -> Any:
        if event.kind == "checkpoints" and isinstance(event.data, dict):
            places = {also: _strip(event.data.get(name)) for name, also in _COORDINATES.items()}
            return {**event.data, **places}
        if event.kind == "values" and event.truncated and not event.namespace:
            # A client would consider a partial state complete.
            return read_values(self.run, self.user)
        return event.data

    def _render_end(self) -> bytes:
        """Return the final events of the stream.

        The state with its interrupts is included if no earlier event contains both. This happens if
        the run doesn't store ``values`` events, or if an interrupt was stored after the last
        ``values`` event.
        """
        self.run.refresh_from_db(self.reader.using)
        frames = []
        unsent = self.kinds - decode_modes(self.run.events)
        if "values" in unsent or ("values" in self.kinds and self.reader.interrupts.left_out):
            values = read_values(self.run, self.user)
            if values is not None:
                frames.append(render_frame("values", values))
        failure = describe_failure(self.run, self.user)
        if failure is not None:
            frames.append(render_frame("error", failure))
        else:
            parts = [part for mode in self.derived for part in mode.finish(self._read_final_values)]
            frames += [render_frame(name, data) for name, data in parts]
        return b"".join([*frames, render_frame("end", None)])

    def _read_final_values(self) -> Any:
        return _drop_interrupts(read_values(self.run, self.user))


def read_values(run: Run, user: Any) -> Any:
    """Return the values and interrupts of a run's thread, or None if the user can't view them."""
    try:
        if run.state == Run.State.SUCCEEDED or not get_policy().may_view_state(user, run.thread):
            # Another run may have started since. The user who started this run may view its result.
            return services.run_result(run.pk, by=user)
        state = services.thread_state(run.thread.thread_id, by=user)
    except HitlError:  # For example, the graph is no longer registered.
        return None
    if state is None:
        return None
    pending_interrupts = _list_interrupts(run, user)
    if pending_interrupts and isinstance(state.values, dict):
        return {**state.values, "__interrupt__": pending_interrupts}
    return state.values


def read_outcome(run_id: UUID, user: Any, *, may_hide: bool = False) -> Any:
    """Return the values or the error of a run, for a client that waited for the run.

    With ``may_hide``, values that the user may not view are None instead of an error.
    """
    run = Run.objects.select_related("thread").get(pk=run_id)
    failure = describe_failure(run, user)
    if failure is None and not run.is_at_rest:
        failure = {
            "error": "Timeout",
            "message": "The run is still active. Join it to keep waiting.",
        }
    if failure is None and not may_hide and not get_policy().may_view_result(user, run):
        failure = {
            "error": "PermissionDenied",
            "message": "You don't have permission to view the thread's state.",
        }
    return read_values(run, user) if failure is None else {"__error__": failure}


def describe_failure(run: Run, user: Any) -> dict[str, str] | None:
    """Return the reason why a run failed, or None if it hasn't failed.

    The error's message is included only for operators.
    """
    name = FAILURES.get(Run.State(run.state))
    if name is None:
        return None
    message = f"The run is {run.state}."
    if run.error and get_policy().may_operate(user, run):
        message = run.error
    return {"error": name, "message": message}


def _list_interrupts(run: Run, user: Any) -> list[dict[str, Any]]:
    rows = querysets.visible_interrupts(user).filter(
        run=run, status=Interrupt.Status.PENDING, kind=Interrupt.Kind.INTERRUPT
    )
    return [
        {"id": row.interrupt_id, "value": row.payload} for row in rows.order_by("created_at", "pk")
    ]


def _drop_interrupts(values: Any) -> Any:
    if not isinstance(values, dict):
        return values
    return {name: value for name, value in values.items() if name != "__interrupt__"}


def _strip(value: Any) -> Any:
    return value.get("configurable", value) if isinstance(value, dict) else value
