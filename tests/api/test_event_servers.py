"""Run events from real servers: waiting, streams, and reconnection after a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from hitl_django import services
from hitl_django.models import Interrupt, Run, RunEvent
from hitl_django.worker import runner
from tests.chaos.graphs import EMPTY, reply

from .servers import PASSWORD, PATIENCE, USER, Client, Server

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]
QUICK = {"EVENT_POLL_SECONDS": 0.02}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []
    get_user_model().objects.create_superuser(USER, password=PASSWORD)

    def start(kind: str, **hitl: Any) -> Server:
        started.append(Server(kind, tmp_path / "log", **{**QUICK, **hitl}))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def begin() -> Any:
    run = services.start("chaos line", EMPTY).id
    runner.advance(str(run))
    return run


def go_on(run: Any) -> None:
    for interrupt in Interrupt.objects.filter(run=run, status="pending"):
        services.decide(interrupt.pk, "respond", reply(interrupt.payload))
    runner.advance(str(run))


def numbers(run: Any) -> list[int]:
    return list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn"])
def test_events_request_waiting_at_a_real_server_returns_when_the_run_resumes(
    kind: str, serve: Any
) -> None:
    client, run = Client(serve(kind, EVENT_MAX_WAITING_THREADS=4, EVENT_MAX_USER_SHARE=1)), begin()
    last = numbers(run)[-1]
    with ThreadPoolExecutor(3) as pool:
        path = f"runs/{run}/events/?after={last}&wait=25"
        waiting = [pool.submit(client.get, path) for _ in range(3)]
        go_on(run)
        for answer in waiting:
            status, page = answer.result()
            assert (status, page["results"][0]["seq"]) == (200, last + 1)


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn"])
def test_run_creation_waiting_at_a_real_server_returns_at_the_interrupt(
    kind: str, serve: Any
) -> None:
    client = Client(serve(kind, EVENT_MAX_WAITING_THREADS=4, EVENT_MAX_USER_SHARE=1))
    body = {"graph": "chaos line", "input": EMPTY}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.post, "runs/?wait=25", body)
        while not (run := Run.objects.filter(state="queued").first()):
            assert not waiting.done()
        runner.advance(str(run.pk))
        status, shown = waiting.result()
    assert (status, shown["id"], shown["state"]) == (202, str(run.pk), "interrupted")
    assert len(shown["interrupts"]) == 1


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn"])
def test_interrupt_list_waiting_at_a_real_server_returns_with_a_new_interrupt(
    kind: str, serve: Any
) -> None:
    client = Client(serve(kind, EVENT_MAX_WAITING_THREADS=4, EVENT_MAX_USER_SHARE=1))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, "interrupts/?unclaimed=true&wait=25")
        run = begin()
        status, page = waiting.result()
    assert (status, [each["run"] for each in page["results"]]) == (200, [str(run)])


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn"])
def test_event_stream_across_server_kill_has_no_gaps_or_duplicates(kind: str, serve: Any) -> None:
    server, run = serve(kind), begin()
    told = []
    for event in Client(server).follow(run):
        told.append(event)
        if event["kind"] == "interrupted":
            server.kill()
            go_on(run)
    assert [event["seq"] for event in told] == numbers(run)
    assert told[-1]["kind"] == "succeeded"
    status, nothing = Client(server).get(
        f"runs/{run}/events/", Accept="text/event-stream", **{"Last-Event-ID": str(len(told))}
    )
    assert (status, nothing) == (204, None)


def test_event_stream_ended_by_event_wait_seconds_continues_after_its_last_event(
    serve: Any,
) -> None:
    server, run = serve("gunicorn", EVENT_WAIT_SECONDS=0.1), begin()
    client, last = Client(server), numbers(run)[-1]
    assert [event["seq"] for event in client.stream(run)] == numbers(run)
    assert list(client.stream(run, last)) == []
    go_on(run)
    assert [event["seq"] for event in client.stream(run, last)] == numbers(run)[last:]


def test_event_request_to_single_threaded_server_returns_immediately_with_retry_after(
    serve: Any,
) -> None:
    client, run = Client(serve("gunicorn sync")), begin()
    with client.send("GET", f"runs/{run}/events/?after={numbers(run)[-1]}&wait=25") as answer:
        assert answer.headers["Retry-After"] == "1"
    assert [event["seq"] for event in client.stream(run)] == numbers(run)


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn"])
def test_waiting_http_requests_of_a_user_are_limited_to_the_share_per_user(
    kind: str, serve: Any
) -> None:
    # As many streams as gunicorn has threads, which is more than the limit per user.
    server = serve(kind, EVENT_MAX_STREAMS=8, EVENT_WAIT_SECONDS=PATIENCE)
    client, run = Client(server), begin()
    path = f"runs/{run}/events/?after={numbers(run)[-1]}&wait={PATIENCE}"
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(client.get, path) for _ in range(8)]
        places = 1 if kind == "gunicorn" else 2
        at_once = [next(answers) for answers in [as_completed(asked)] for _ in range(8 - places)]
        assert {future.result()[1]["last"] for future in at_once} == {numbers(run)[-1]}
        assert client.get("runs/")[0] == 200
        assert sum(not future.done() for future in asked) == places
        go_on(run)
    assert all(future.result()[0] == 200 for future in asked)


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn"])
def test_event_stream_closed_by_its_client_no_longer_counts_as_waiting(
    kind: str, serve: Any
) -> None:
    # gunicorn notices a disconnected client only at the end or at the next write.
    seconds = 5 if kind == "gunicorn" else 60
    server = serve(
        kind, EVENT_MAX_WAITING_THREADS=1, EVENT_MAX_STREAMS=1, EVENT_WAIT_SECONDS=seconds
    )
    client, run = Client(server), begin()
    path = f"runs/{run}/events/?after={numbers(run)[-1]}&wait=1"

    def is_held_up() -> bool:
        with client.send("GET", path) as answer:
            return answer.headers["Retry-After"] == "1"

    for _ in range(20):  # a pause of the machine uses up the time of a stream
        first = client.stream(run)
        assert next(first)["seq"] == 1
        if is_held_up():
            break
        first.close()
    else:
        raise AssertionError("there is a place for two")
    first.close()
    while is_held_up():  # until the server has noticed the disconnection
        pass


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn"])
def test_queue_stream_continues_after_its_last_event_and_resets_after_server_restart(
    kind: str, serve: Any
) -> None:
    server, run = serve(kind), begin()
    first = Client(server).watch()
    place, name, page = next(first)
    assert (name, [each["run"] for each in page["results"]]) == ("reset", [str(run)])
    (interrupt,) = Interrupt.objects.filter(run=run)
    go_on(run)
    place, name, changes = next(first)
    # The next interrupt, if any, may be included.
    assert (name, changes["changed"]) == ("changes", [])
    assert changes["removed"] == [{"id": str(interrupt.pk), "status": "decided"}]
    first.close()
    other = begin()
    seen = set(Interrupt.objects.filter(run=other).values_list("pk", flat=True))
    again = Client(server).watch(last=place)
    _, name, changes = next(again)
    assert (name, changes["changed"], changes["removed"]) == ("changes", [], [])
    assert {each["id"] for each in changes["added"]} == {str(pk) for pk in seen}
    again.close()
    server.kill()  # including the contents of its cache
    begin()
    assert next(Client(server).watch(last=place))[1] == "reset"


def test_sixty_event_streams_of_one_process_receive_all_events(serve: Any) -> None:
    client, run = Client(serve("uvicorn", EVENT_WAIT_SECONDS=600)), begin()
    streams = [client.stream(run) for _ in range(60)]
    assert {next(stream)["seq"] for stream in streams} == {1}
    status, _ = client.get("runs/")  # and other requests are processed meanwhile
    assert status == 200
    go_on(run)
    with ThreadPoolExecutor(60) as pool:
        rest = list(pool.map(lambda stream: [event["seq"] for event in stream], streams))
    assert rest == [numbers(run)[1:]] * 60
