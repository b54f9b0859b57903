"""Decision types and payload formats, each declared in one place."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

from hitl_django.decision_types import DECISION_TYPES
from hitl_django.dialects import DIALECTS

from .source import ROOT, modules, nodes

TABLE = "hitl_django/decision_types.py"
#: Modules that map decision types to the values of a payload format.
DIALECT_MODULES = "hitl_django/dialects/"


def word_of(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return str(name).lower() if str(name).isupper() else ""


def test_decision_types_are_listed_only_in_their_table() -> None:
    found = []
    for path, tree in modules().items():
        if path == TABLE or path.startswith(DIALECT_MODULES) or "/migrations/" in path:
            continue
        for node in nodes(tree):
            if isinstance(node, ast.Dict):
                words = {word_of(key) for key in node.keys}
            elif isinstance(node, ast.List | ast.Tuple | ast.Set):
                words = {word_of(element) for element in node.elts}
            else:
                continue
            if words >= DECISION_TYPES.keys():
                found.append(f"{path}:{node.lineno}")
    assert found == []


def test_dialect_names_are_compared_only_in_dialect_modules() -> None:
    names = {*DIALECTS, "RAW"} - {"raw", "tool_call"}  # which also have other meanings
    found = []
    for path, tree in modules().items():
        if path.startswith(DIALECT_MODULES) or "/migrations/" in path:
            continue
        for node in nodes(tree):
            if not isinstance(node, ast.Compare | ast.Dict):
                continue
            inner = [part for part in ast.walk(node) if isinstance(part, ast.Constant | ast.Name)]
            words = {part.value if isinstance(part, ast.Constant) else part.id for part in inner}
            if words & names:
                found.append(f"{path}:{node.lineno}")
    assert found == []


def test_dialect_registry_key_equals_the_dialect_name() -> None:
    assert [dialect.name for dialect in DIALECTS.values()] == list(DIALECTS)


FIFTH = """
import django
from hitl_django import decision_types
from hitl_django.decision_types import APPROVE, DECISION_TYPES, DecisionEffects

texts = {
    name: f"defer: {name}"
    for name in (
        "label", "button", "action_choice", "participle", "done_by_you", "done_by_other", "thanks",
        "recorded", "recorded_as_approval",
    )
}
consequences = DecisionEffects(plain="defer: plain", action="defer: action", joint="defer: joint")
DECISION_TYPES["defer"] = decision_types.DecisionType(
    name="defer", consequences=consequences, **texts
)
django.setup()

from hitl_django import answers
from hitl_django.forms.interrupt_forms import InterruptForms
from hitl_django.dialects.plain_json import PlainJsonDialect
from hitl_django.api.serializers.interrupts import DecisionBody
from hitl_django.review_options import ReviewOptions
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Decision, Interrupt

taken = PlainJsonDialect.decisions
PlainJsonDialect.decisions = lambda self, question: (*taken(self, question), "defer")

ReviewOptions(decisions=["defer"])
policy = ReviewPolicy(answers={"defer": "later"})
assert ("defer", "defer: label") in Decision.Type.choices
assert "defer" in DecisionBody().fields["type"].choices

options = answers.AnswerOptions(payload={"a": 1}, policy_answers=policy.answers)
assert answers.choose_decisions(options, ["defer"]) == ("defer",)
assert answers.make_resume_value(options, "defer") == "later"
assert answers.infer_decision(options, "later").type == "defer"

question = Interrupt(payload={"a": 1}, graph="g", allowed_decisions=["approve", "defer", "reject"])
buttons = {one.value: one for one in InterruptForms(question).buttons()}
assert list(buttons) == ["approve", "defer", "reject"]
assert (buttons["defer"].label, buttons["defer"].consequence) == ("defer: button", "defer: plain")
"""


def test_decision_type_added_to_table_and_dialect_has_choice_resume_value_and_button() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIFTH],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
