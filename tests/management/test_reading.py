"""``hitl list``, ``show`` and ``graph``: output for terminals and scripts."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from hitl_django import services
from hitl_django.models import Interrupt, Run
from hitl_django.testing import GraphEnvironment

pytestmark = pytest.mark.django_db


@pytest.fixture
def hitl() -> Any:
    with GraphEnvironment() as environment:
        yield environment


def call(*arguments: Any) -> str:
    out, err = io.StringIO(), io.StringIO()
    call_command("hitl", *map(str, arguments), stdout=out, stderr=err)
    return out.getvalue() + err.getvalue()


def lines(*arguments: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in call(*arguments, "--json").splitlines()]


def test_list_command_shows_pending_interrupts_oldest_first_with_filters(
    hitl: GraphEnvironment,
) -> None:
    assert call("list") == "No results.\n"
    first = hitl.start("approval", {"text": "A"})
    hitl.start("approval", {"text": "B"})
    hitl.decide(hitl.make_interrupt("C"), "respond", "yes")
    head, one, other = call("list").splitlines()
    assert head.split() == ["id", "created_at", "graph", "title"]
    assert one.endswith("approval  Publish A?")
    assert other.endswith("approval  Publish B?")
    asked = hitl.interrupt(run=first)
    found = lines("list", "interrupts", "--graph", "approval", "--limit", 1)
    assert [row["id"] for row in found] == [str(asked.pk)]
    assert found[0]["run_id"] == str(first.id)
    assert found[0]["decisions"] == asked.allowed_decisions
    (decided,) = lines("list", "--state", "decided")
    assert decided["title"] == "C"


def test_list_runs_command_shows_runs_newest_first_and_filters_by_state(
    hitl: GraphEnvironment,
) -> None:
    first = hitl.start("approval", {"text": "A"}, key="k-1")
    second = hitl.start("approval", {"text": "B"})
    hitl.decide(run=second, type="approve")
    found = lines("list", "runs")
    assert [(row["id"], row["state"], row["key"]) for row in found] == [
        (str(second.id), "succeeded", None),
        (str(first.id), "interrupted", "k-1"),
    ]
    assert [row["id"] for row in lines("list", "runs", "--state", "interrupted")] == [str(first.id)]
    with pytest.raises(CommandError, match=r"state must be one of waiting, queued, .*, not 'open'"):
        call("list", "runs", "--state", "open")


def test_show_command_prints_payload_and_decisions_of_an_interrupt(hitl: GraphEnvironment) -> None:
    interrupt = hitl.make_interrupt(
        {"sum": 3, "to": "Dana\u202e\x1b[2J"}, title="Pay?", why="Late."
    )
    text = call("show", interrupt.pk)
    assert "title              Pay?\n" in text
    assert '"sum": 3,' in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    hitl.decide(interrupt, "respond", {"sum": 4}, reason="As agreed.")
    (shown,) = lines("show", interrupt.pk)
    assert shown["payload"] == {"sum": 3, "to": "Dana\u202e\x1b[2J"}
    (made,) = shown["decisions"]
    assert (made["type"], made["value"], made["reason"]) == ("respond", {"sum": 4}, "As agreed.")


def test_show_command_prints_run_with_interrupts_and_rejects_unknown_ids(
    hitl: GraphEnvironment,
) -> None:
    run = hitl.start("approval", {"text": "A"})
    (shown,) = lines("show", run.id)
    assert (shown["state"], shown["graph"]) == ("interrupted", "approval")
    assert [asked["title"] for asked in shown["interrupts"]] == ["Publish A?"]
    assert "Publish A?" in call("show", run.id)
    with pytest.raises(CommandError, match="No interrupt or run with id"):
        call("show", "0" * 32)
    with pytest.raises(CommandError, match="'nonsense' is not a valid id"):
        call("show", "nonsense")


def test_decide_command_stores_decision_with_or_without_user_and_rejects_second_decision(
    hitl: GraphEnvironment, django_user_model: Any
) -> None:
    django_user_model.objects.create_superuser("rita")
    django_user_model.objects.create_user("eve")
    one, other = hitl.make_interrupt("A?"), hitl.make_interrupt("B?")
    assert call("decide", one.pk, "respond", "--value", '{"n": 1}', "--reason", "So.") == (
        f"Decided: respond. Run {one.run_id} resumes.\n"
    )
    hitl.advance()
    assert hitl.assert_finished(one.run_id)["answer"] == {"n": 1}
    with pytest.raises(CommandError, match=r"Unknown user 'nobody'\."):
        call("decide", other.pk, "respond", "--value", "1", "--by", "nobody")
    with pytest.raises(CommandError):
        call("decide", other.pk, "respond", "--value", "1", "--by", "eve")
    with pytest.raises(CommandError, match="--value is not valid JSON"):
        call("decide", other.pk, "respond", "--value", "{", "--by", "rita")
    with pytest.raises(CommandError, match=r"^The decision 'respond' requires a value\.$"):
        call("decide", other.pk, "respond", "--by", "rita")
    assert Interrupt.objects.get(pk=other.pk).status == "pending"
    decided = json.loads(
        call("decide", other.pk, "respond", "--value", "1", "--by", "rita", "--json")
    )
    assert (decided["by_label"], decided["value"], decided["complete"]) == ("rita", 1, True)
    made = Interrupt.objects.get(pk=other.pk).decisions.get()
    assert (made.by_label, made.via) == ("rita", "command")
    with pytest.raises(CommandError, match="already been decided: respond by rita"):
        call("decide", other.pk, "respond", "--value", "1")


def test_decide_command_below_quorum_prints_number_of_missing_approvals(
    hitl: GraphEnvironment, django_user_model: Any
) -> None:
    django_user_model.objects.create_superuser("rita")
    interrupt = hitl.make_interrupt({"n": 1}, quorum=3)
    said = call("decide", interrupt.pk, "approve", "--by", "rita")
    assert said == "Recorded: approve. 2 more approvals required.\n"


def test_decide_command_with_not_over_claim_option_rejects_decision_on_claimed_interrupt(
    hitl: GraphEnvironment, django_user_model: Any
) -> None:
    interrupt = hitl.make_interrupt("A?")
    services.claim(interrupt.pk, by=django_user_model.objects.create_superuser("rita"))
    with pytest.raises(CommandError, match="rita"):
        call("decide", interrupt.pk, "respond", "--value", "1", "--not-over-claim")
    call("decide", interrupt.pk, "respond", "--value", "1")
    assert Run.objects.get(pk=interrupt.run_id).state == "queued"


def test_graph_command_draws_graph_as_text_mermaid_or_svg(tmp_path: Path) -> None:
    assert "ask" in call("graph", "approval")
    assert call("graph", "approval", "--format", "mermaid").count("-->") == 2
    assert call("graph", "approval", "--format", "svg", "--output", tmp_path / "a.svg") == ""
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    with pytest.raises(CommandError, match="nothing"):
        call("graph", "nothing")
    with pytest.raises(CommandError, match=r"Can't write .*a\.svg: No such file"):
        call("graph", "approval", "--output", tmp_path / "none" / "a.svg")
