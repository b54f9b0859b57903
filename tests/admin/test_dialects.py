"""Request pages of each payload format, and responses in the same format."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from hitl_django.models import Decision, Interrupt, Run

from .browsing import press, sheet_of, text_of
from .conftest import page_of

Asked = Callable[..., Interrupt]

HUMAN = {
    "action_request": {"action": "send_email", "args": {"to": "dana@example.com", "copies": 2}},
    "config": {
        "allow_accept": True,
        "allow_edit": True,
        "allow_respond": True,
        "allow_ignore": True,
    },
    "description": "The customer has waited for a week.",
}
CALL = {
    "question": "Is this right?",
    "tool_call": {"name": "book_hotel", "args": {"nights": 3}, "id": "call-1"},
}
APPROVAL = {
    "type": "tool_approval",
    "tool_call_id": "call-1",
    "name": "book_hotel",
    "args": {"nights": 3},
    "description": "She stays for the fair.",
}
#: The payload of LangChain's middleware for a tool call that allows edit and reject.
APPROVAL_SCHEMA = {
    "oneOf": [{"$ref": "#/$defs/Approve"}, {"$ref": "#/$defs/Edit"}, {"$ref": "#/$defs/Reject"}],
    "$defs": {
        "Approve": {
            "type": "object",
            "properties": {"type": {"const": "approve"}},
            "required": ["type"],
        },
        "Reject": {
            "type": "object",
            "properties": {"type": {"const": "reject"}, "message": {"type": "string"}},
            "required": ["type"],
        },
        "Edit": {
            "type": "object",
            "properties": {"type": {"const": "edit"}, "edited_action": {"$ref": "#/$defs/Action"}},
            "required": ["type", "edited_action"],
        },
        "Action": {
            "type": "object",
            "properties": {"name": {"const": "book_hotel"}, "args": {"$ref": "#/$defs/Args"}},
            "required": ["name", "args"],
        },
        "Args": {
            "type": "object",
            "properties": {"nights": {"type": "integer", "maximum": 5}},
            "required": ["nights"],
        },
    },
}
ALL = ["approve", "edit", "reject", "respond"]
REQUEST = {
    "action_requests": [
        {"name": "send_email", "args": {"to": "dana@example.com"}, "description": "Tells her."},
        {"name": "delete_file", "args": {"path": "/tmp/x"}},
        {"name": "pay", "args": {"cents": 120}},
    ],
    "review_configs": [
        {"action_name": "send_email", "allowed_decisions": ALL},
        {"action_name": "delete_file", "allowed_decisions": ["approve", "reject"]},
        {
            "action_name": "pay",
            "allowed_decisions": ["approve", "edit", "reject"],
            "args_schema": {
                "type": "object",
                "properties": {"cents": {"type": "integer", "maximum": 500}},
                "required": ["cents"],
            },
        },
    ],
}


def many(actions: int, *, args: int) -> dict[str, Any]:
    values = {f"key{n}": n for n in range(args)}
    names = [f"action{n}" for n in range(actions)]
    return {
        "action_requests": [{"name": name, "args": values} for name in names],
        "review_configs": [
            {"action_name": name, "allowed_decisions": ["approve", "edit", "reject"]}
            for name in names
        ],
    }


def ask(asked: Asked, payload: Any) -> Interrupt:
    return asked("plain", payload=payload)


def answer_of(item: Interrupt) -> Any:
    return Decision.objects.get(interrupt=item).value


class TestHumanInterrupt:
    def test_human_interrupt_page_shows_action_description_arguments_and_allowed_buttons(
        self, reviewer: Client, asked: Asked
    ) -> None:
        page = text_of(reviewer.get(page_of(ask(asked, [HUMAN]))))
        assert "Send email: dana@example.com, copies 2" in page
        assert "The customer has waited for a week." in page
        assert "dana@example.com" in page
        assert "allow_accept" not in page.partition("Raw data")[0]
        for words in (">Accept<", ">Ignore<", '"Approve with changes"', ">Send response<"):
            assert words in page
        assert "reply_is_json" not in page

    def test_human_interrupt_page_hides_edit_and_ignore_buttons_disallowed_by_config(
        self, reviewer: Client, asked: Asked
    ) -> None:
        config = {**HUMAN["config"], "allow_edit": False, "allow_ignore": False}
        page = text_of(reviewer.get(page_of(ask(asked, [{**HUMAN, "config": config}]))))
        assert 'value="edit"' not in page
        assert 'value="reject"' not in page
        assert 'value="approve"' in page

    @pytest.mark.parametrize(
        ("button", "typed", "answer"),
        [
            ("approve", {}, {"type": "accept", "args": None}),
            ("reject", {}, {"type": "ignore", "args": None}),
            ("respond", {"reply": "Not today."}, {"type": "response", "args": "Not today."}),
            (
                "edit",
                {"copies": "1"},
                {
                    "type": "edit",
                    "args": {
                        "action": "send_email",
                        "args": {"to": "dana@example.com", "copies": 1},
                    },
                },
            ),
        ],
    )
    def test_human_interrupt_decision_is_sent_as_accept_ignore_response_or_edit(
        self, reviewer: Client, asked: Asked, button: str, typed: Any, answer: Any
    ) -> None:
        item = ask(asked, [HUMAN])
        assert press(reviewer, item, button, **typed).status_code == 302
        assert answer_of(item) == [answer]

    def test_human_interrupt_approved_with_changed_fields_saves_an_edit_decision(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = ask(asked, [HUMAN])
        assert press(reviewer, item, "approve", to="sam@example.com").status_code == 302
        decision = Decision.objects.get()
        assert decision.type == "edit"
        assert "sam@example.com" in str(decision.value)


class TestToolCall:
    @pytest.mark.parametrize(
        ("button", "typed", "answer"),
        [
            ("approve", {}, ["continue", None]),
            ("edit", {"nights": "2"}, ["update", {"nights": 2}]),
            ("respond", {"reply": "Too dear."}, ["feedback", "Too dear."]),
        ],
    )
    def test_tool_call_decision_is_sent_as_continue_update_or_feedback(
        self, reviewer: Client, asked: Asked, button: str, typed: Any, answer: Any
    ) -> None:
        item = ask(asked, CALL)
        page = text_of(reviewer.get(page_of(item)))
        assert "book_hotel" in page
        assert "Is this right?" in page
        assert ">Send feedback<" in page
        press(reviewer, item, button, **typed)
        assert answer_of(item) == answer

    def test_tool_call_feedback_with_blank_text_shows_a_required_error(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = ask(asked, CALL)
        assert "Enter a response." in text_of(press(reviewer, item, "respond", reply=" "))


class TestApprovalRequest:
    def ask(self, asked: Asked) -> Interrupt:
        item = ask(asked, APPROVAL)
        item.response_schema = APPROVAL_SCHEMA
        item.allowed_decisions = ["approve", "edit", "reject"]
        item.save(update_fields=["response_schema", "allowed_decisions"])
        return item

    @pytest.mark.parametrize(
        ("button", "typed", "answer"),
        [
            ("approve", {}, {"type": "approve"}),
            ("reject", {"reason": "Too dear."}, {"type": "reject", "message": "Too dear."}),
            (
                "edit",
                {"nights": "2"},
                {"type": "edit", "edited_action": {"name": "book_hotel", "args": {"nights": 2}}},
            ),
        ],
    )
    def test_approval_request_decision_is_sent_as_approve_reject_or_edit(
        self, reviewer: Client, asked: Asked, button: str, typed: Any, answer: Any
    ) -> None:
        item = self.ask(asked)
        page = text_of(reviewer.get(page_of(item)))
        assert "Book hotel: nights 3" in page
        assert "She stays for the fair." in page
        assert "tool_call_id" not in page.partition("Raw data")[0]
        assert ">Send response<" not in page
        press(reviewer, item, button, **typed)
        assert answer_of(item) == answer

    def test_approval_request_edit_above_schema_maximum_shows_error_and_saves_no_decision(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = self.ask(asked)
        page = text_of(press(reviewer, item, "edit", nights="9"))
        assert "at most 5" in page
        assert not Decision.objects.exists()


class TestToolInterrupt:
    @pytest.mark.parametrize(
        ("button", "typed", "answer"),
        [
            ("approve", {}, {"action": "approve"}),
            ("reject", {}, {"action": "reject"}),
            ("edit", {"to": "sam"}, {"action": "approve", "to": "sam"}),
        ],
    )
    def test_tool_approval_decision_is_sent_with_its_action_name(
        self, reviewer: Client, asked: Asked, button: str, typed: Any, answer: Any
    ) -> None:
        item = ask(asked, {"action": "send_email", "message": "Send it?", "to": "dana"})
        Interrupt.objects.update(
            dialect="tool_approval", allowed_decisions=["approve", "edit", "reject"]
        )
        press(reviewer, item, button, **typed)
        assert answer_of(item) == answer


class TestSeveralActions:
    def send(
        self, client: Client, item: Interrupt, *choices: str, button: str = "each", **typed: str
    ) -> HttpResponse:
        posted = {**sheet_of(client, item), "decision": [button]}
        for number, choice in enumerate(choices):
            posted[f"action/{number}-decision"] = [choice]
        return client.post(page_of(item), {**posted, **typed})

    def test_request_with_three_actions_shows_allowed_decisions_per_action(
        self, reviewer: Client, asked: Asked
    ) -> None:
        page = text_of(reviewer.get(page_of(ask(asked, REQUEST))))
        blocks = page.split('class="hitl-call"')[1:]
        assert len(blocks) == 3
        offered = [[word for word in ALL if f'value="{word}"' in block] for block in blocks[:2]]
        assert offered == [ALL, ["approve", "reject"]]
        assert "Tells her." in blocks[0]
        assert "review_configs" not in page.partition("Raw data")[0]
        for words in (">Submit decisions", ">Approve all", ">Reject all<"):
            assert words in page

    def test_request_with_three_actions_sends_the_decision_chosen_for_each_action(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = ask(asked, REQUEST)
        response = self.send(
            reviewer,
            item,
            "respond",
            "reject",
            "edit",
            **{"action/0-message": "Call her.", "action/2/args/cents": "99"},
        )
        assert response.status_code == 302
        assert answer_of(item) == {
            "decisions": [
                {"type": "respond", "message": "Call her."},
                {"type": "reject"},
                {"type": "edit", "edited_action": {"name": "pay", "args": {"cents": 99}}},
            ]
        }

    @pytest.mark.parametrize(
        ("choices", "kind"),
        [(["approve"] * 3, "approve"), (["approve", "approve", "edit"], "edit")],
    )
    def test_decisions_on_several_actions_are_saved_as_edit_if_any_action_is_edited(
        self, reviewer: Client, asked: Asked, choices: list[str], kind: str
    ) -> None:
        item = ask(asked, REQUEST)
        typed = {"action/2/args/cents": "99"} if kind == "edit" else {}
        self.send(reviewer, item, *choices, **typed)
        assert Decision.objects.get().type == kind

    @pytest.mark.parametrize("button", ["approve", "reject"])
    def test_approve_all_and_reject_all_buttons_decide_every_action_of_a_request(
        self, reviewer: Client, asked: Asked, button: str
    ) -> None:
        item = ask(asked, REQUEST)
        self.send(reviewer, item, button=button)
        assert answer_of(item) == {"decisions": [{"type": button}] * 3}

    def test_request_with_several_actions_requires_a_decision_per_action_and_shows_typed_text(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = ask(asked, REQUEST)
        page = text_of(self.send(reviewer, item, "reject", **{"action/0-message": "Not now."}))
        assert page.count("Choose a decision for this action.") == 2
        assert "Not now." in page
        assert 'value="reject" id="' in page
        assert not Decision.objects.exists()

    def test_invalid_argument_of_an_action_shows_the_error_inside_the_action(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = ask(asked, REQUEST)
        page = text_of(
            self.send(
                reviewer, item, "approve", "approve", "edit", **{"action/2/args/cents": "501"}
            )
        )
        last = page.split('class="hitl-call"')[3]
        assert "errorlist" in last
        assert "errorlist" not in page.partition('class="hitl-call"')[0]
        assert not Decision.objects.exists()

    @pytest.mark.parametrize("button", ["approve", "each"])
    def test_approval_of_action_with_changed_arguments_saves_no_decision_and_shows_changes(
        self, reviewer: Client, asked: Asked, button: str
    ) -> None:
        item = ask(asked, REQUEST)
        changed = {"action/2/args/cents": "99"}
        page = text_of(self.send(reviewer, item, *["approve"] * 3, button=button, **changed))
        assert "You made changes" in page
        assert not Decision.objects.exists()

    @pytest.mark.parametrize("button", ["edit", "respond", "", "all"])
    def test_request_with_several_actions_rejects_unknown_decision_buttons(
        self, reviewer: Client, asked: Asked, button: str
    ) -> None:
        item = ask(asked, REQUEST)
        assert "Choose a decision to submit" in text_of(self.send(reviewer, item, button=button))

    def test_request_with_several_actions_shows_typed_message_after_conflict(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = ask(asked, REQUEST)
        posted = {**sheet_of(reviewer, item), "decision": ["each"]}
        press(reviewer, item, "reject")
        posted |= {"action/0-decision": ["respond"], "action/0-message": ["I would call her."]}
        response = reviewer.post(page_of(item), posted)
        assert response.status_code == 409
        assert "I would call her." in text_of(response)

    @pytest.mark.promise("P21")
    def test_request_with_60_actions_has_fewer_than_1000_form_fields_and_can_be_approved(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = ask(asked, many(60, args=20))
        posted = sheet_of(reviewer, item)
        assert len(posted) < 1000
        assert "action/0/args/key0" in posted
        assert "action/59/args/key0" not in posted
        assert self.send(reviewer, item, *["approve"] * 60).status_code == 302

    @pytest.mark.promise("P21")
    def test_request_with_600_actions_offers_only_one_decision_for_all_actions(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = ask(asked, many(600, args=1))
        page = text_of(reviewer.get(page_of(item)))
        assert "too many actions to decide individually" in page
        assert "550 more values not shown." in page
        assert "Choose a decision to submit" in text_of(self.send(reviewer, item))
        assert self.send(reviewer, item, button="approve").status_code == 302
        assert answer_of(item) == {"decisions": [{"type": "approve"}] * 600}

    @pytest.mark.promise("P21")
    def test_request_with_300_actions_of_two_names_is_decided_per_action_name(
        self, reviewer: Client, asked: Asked, advance: Callable[[], int]
    ) -> None:
        names = ["mail", "pay"] * 150
        allowed = {"mail": ["approve", "edit"], "pay": ["reject"]}
        requests = [{"name": name, "args": {"n": n}} for n, name in enumerate(names)]
        configs = [
            {"action_name": name, "allowed_decisions": words} for name, words in allowed.items()
        ]
        item = ask(asked, {"action_requests": requests, "review_configs": configs})
        assert item.title == "300 tool calls: Mail (150), Pay (150)"
        page = text_of(reviewer.get(page_of(item)))
        assert "applies to all actions with the same name" in page
        assert page.count('class="hitl-call"') == 2
        assert "× 150" in page
        assert "Choose a decision for this action." in text_of(self.send(reviewer, item))
        typed = {"action/1-message": "No more money."}
        response = self.send(reviewer, item, "approve", "reject", **typed)
        assert response.status_code == 302
        pair = [{"type": "approve"}, {"type": "reject", "message": "No more money."}]
        assert answer_of(item) == {"decisions": pair * 150}
        advance()
        assert Run.objects.get(pk=item.run_id).state == "succeeded"

    def test_decided_request_with_three_actions_lists_decision_and_arguments_per_action(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = ask(asked, REQUEST)
        typed = {"action/0-message": "Call <b>her</b>.", "action/2/args/cents": "90"}
        self.send(reviewer, item, "respond", "reject", "edit", **typed)
        page = text_of(reviewer.get(page_of(item)))
        told = page.split("Sent to the graph")[1].split("Request")[0]
        told = " ".join(re.sub(r"<[^>]*>", " ", told).split())
        assert told.startswith("1. Send email responded Call &lt;b&gt;her&lt;/b&gt;. 2. Dele")
        assert "2. Delete file rejected 3. Pay approved with changes Cents 90" in told

    def test_edit_of_request_with_single_action_sends_one_edited_action(
        self, reviewer: Client, asked: Asked, advance: Callable[[], int]
    ) -> None:
        one = {key: rows[:1] for key, rows in REQUEST.items()}
        item = ask(asked, one)
        press(reviewer, item, "edit", to="sam@example.com")
        edited = {"name": "send_email", "args": {"to": "sam@example.com"}}
        assert answer_of(item) == {"decisions": [{"type": "edit", "edited_action": edited}]}
        advance()
        assert Run.objects.get(pk=item.run_id).state == "succeeded"


def test_request_form_contains_fields_for_editable_arguments_only(
    reviewer: Client, asked: Asked
) -> None:
    item = ask(asked, {"title": "Pay?", "amount": 5, "to": {"name": "Dana", "iban": "x"}})
    Interrupt.objects.update(editable=["amount", "/to/name"])
    sheet = sheet_of(reviewer, item)
    assert [name for name in sheet if name.startswith("answer")] == [
        "answer/amount",
        "answer/to/name",
    ]
    press(reviewer, item, "edit", amount="4")
    assert answer_of(item) == {**item.payload, "amount": 4}
