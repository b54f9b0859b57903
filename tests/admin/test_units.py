"""Amounts of money, percentages, durations and dates in forms, differences and decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django import forms
from django.conf.locale.en import formats
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.test import Client
from django.utils import translation
from django.utils.formats import reset_format_cache
from pydantic import BaseModel, Field

from hitl_django import START, StateGraph
from hitl_django.forms import MISSING, AnswerForm, infer_shape, read_shape
from hitl_django.forms.units import Duration, Money, Percent, Unit
from hitl_django.graph_registry.display_hints import Hint, parse_hints
from hitl_django.graph_registry.registry import register, unregister
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.json_text.json_schema import find_faults
from hitl_django.models import Decision, Run
from tests.graphs import plain

from .browsing import post_of, press, text_of
from .conftest import make_interrupt, page_of
from .test_start import Advance, form_of, opened, starter, stored

__all__ = ["starter"]

EUR, JPY, KWD = Money("EUR"), Money("JPY"), Money("KWD")


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def money(**limits: Any) -> dict[str, Any]:
    return {"type": "integer", "display": "money EUR", **limits}


def read(unit: Unit, text: str, language: str = "en", like: Any = MISSING) -> Any:
    kind = "text" if isinstance(like, str) else "number"
    with translation.override(language):
        return unit.read(text, like=like, kind=kind)


def filled(form: AnswerForm, changes: dict[str, str]) -> QueryDict:
    data = QueryDict(mutable=True)
    for name, values in post_of(form.as_p()).items():
        data.setlist(name, values)
    for name, value in changes.items():
        data[f"answer/{name}"] = value
    return data


def submitted(schema: Any, original: Any, changes: dict[str, str], **options: Any) -> AnswerForm:
    shape = infer_shape(original) if schema is None else read_shape(schema)
    data = filled(AnswerForm(shape, original, **options), changes)
    return AnswerForm(shape, original, data, **options)


def page_text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page).replace("\xa0", " ").split())


class Payment(BaseModel):
    amount: int = Field(gt=0, json_schema_extra={"display": "money /currency"})
    currency: str = Field(pattern="^[A-Z]{3}$")


class PlainForm(forms.Form):
    amount = forms.IntegerField()


@contextmanager
def displayed(form: type[forms.Form] | None = None, **display: str) -> Iterator[str]:
    own = {} if form is None else {"ask": form}
    register("priced", review=ReviewPolicy(display=display, forms=own))(plain)
    try:
        yield "priced"
    finally:
        unregister("priced")


class TestParsing:
    @pytest.mark.parametrize(
        ("unit", "text", "english", "german"),
        [
            (EUR, "123.52", 12352, 12352),
            (EUR, "123,52", 12352, 12352),
            (EUR, "1,234.50", 123450, 123450),
            (EUR, "1.234,50", 123450, 123450),
            (EUR, "1.234.567,8", 123456780, 123456780),
            (EUR, "1.234.567", 123456700, 123456700),
            (EUR, "1 234,50", 123450, 123450),
            (EUR, "1'234.50", 123450, 123450),
            (EUR, "1\u202f234,50 EUR", 123450, 123450),
            (EUR, "eur 12", 1200, 1200),
            (EUR, "-0.05", -5, -5),
            (EUR, "\u22125", -500, -500),
            (EUR, "+.5", 50, 50),
            (EUR, "7", 700, 700),
            (EUR, "0.50000", 50, 50),
            (EUR, "1,234", 123400, None),
            (EUR, "1.234", None, 123400),
            (EUR, "1.500", None, 150000),
            (EUR, "0,123", None, None),
            (EUR, "12.345", None, 1234500),
            (EUR, "1234.567", None, None),
            (JPY, "1250", 1250, 1250),
            (JPY, "1250.00", 1250, 1250),
            (JPY, "1,250", 1250, None),
            (JPY, "12.5", None, None),
            (KWD, "24.5", 24500, 24500),
            (KWD, "0.125", 125, 125),
            (KWD, "1.234", 1234, None),
            (KWD, "1,234", None, 1234),
            (KWD, "1,234.5", 1234500, 1234500),
            (Money(), "1.05", 105, 105),
        ],
    )
    def test_typed_amount_is_read_in_the_smallest_unit_or_raises_error_if_ambiguous(
        self, unit: Unit, text: str, english: int | None, german: int | None
    ) -> None:
        for language, expected in (("en", english), ("de", german)):
            if expected is None:
                with pytest.raises((ValueError, ValidationError)):
                    read(unit, text, language)
            else:
                assert read(unit, text, language) == expected

    @pytest.mark.parametrize(
        "text",
        [
            "", "  ", "many", "NaN", "inf", "1e5", "0x10", "1_000", "1,23,4", "1,2345,678",
            "1.2.3", "1.234,5.6", "1,234,.5", ",", "-", "--5", "١٢٣", "１２", "²", "12 USD", "EUR",
            "5 EUR EUR", "1\n2", "9" * 101, "9" * 10_000, "1," * 5_000,
            "1.234" * 2_000, "\x00", "\u202e12",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("language", ["en", "de", "fr", "hi", "ar"])
    def test_typed_text_that_is_not_an_amount_raises_value_error(
        self, text: str, language: str
    ) -> None:
        for unit in (EUR, Percent()):
            with pytest.raises((ValueError, ValidationError)):
                read(unit, text, language)

    def test_typed_amount_with_more_digits_than_an_api_integer_raises_validation_error(
        self,
    ) -> None:
        assert read(EUR, "9" * 98 + ".99") == 10**100 - 1
        with pytest.raises(ValidationError):
            read(EUR, "9" * 99 + ".99")

    def test_typed_amount_with_groups_of_two_digits_is_accepted_only_in_languages_with_such_groups(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(ValueError):
            read(EUR, "12,34,567.50")
        monkeypatch.setattr(formats, "NUMBER_GROUPING", (3, 2, 0))
        reset_format_cache()
        try:
            assert read(EUR, "12,34,567.50") == 123456750
        finally:
            reset_format_cache()

    @pytest.mark.parametrize("digits", [1, 17, 40, 97])
    @pytest.mark.parametrize("unit", [EUR, JPY, KWD])
    def test_large_amount_is_formatted_and_parsed_without_rounding(
        self, unit: Money, digits: int
    ) -> None:
        value = int("1234567890" * 10)
        value = int(str(value)[:digits])
        for language in ("en", "de", "fr", "hi"):
            with translation.override(language):
                assert unit.read(unit.to_input(value), like=value, kind="integer") == value
                assert unit.read(unit.show(-value), like=value, kind="integer") == -value

    @pytest.mark.parametrize(
        ("hint", "value", "english", "german", "typed"),
        [
            ("percent", 0.125, "12.5%", "12,5 %", "12.5"),
            ("percent", 1, "100%", "100 %", "100"),
            ("percent", 1e-7, "0.00001%", "0,00001 %", "0.00001"),
            ("percent 100", 19, "19%", "19 %", "19"),
            ("percent 100", 7.5, "7.5%", "7,5 %", "7.5"),
            ("percent 10000", 25, "0.25%", "0,25 %", "0.25"),
            ("duration", 90, "1 minute, 30 seconds", "1 Minute, 30 Sekunden", "1 min 30 s"),
            ("duration", 0.5, "0.5 seconds", "0,5 Sekunden", "0.5 s"),
            ("duration", 0, "0 seconds", "0 Sekunden", "0 s"),
            ("duration", -3600, "-1 hour", "-1 Stunde", "-1 h"),
            ("duration", "P3DT4H", "3 days, 4 hours", "3 Tage, 4 Stunden", "3 d 4 h"),
            ("duration", "P1Y2M", "1 year, 2 months", "1 Jahr, 2 Monate", "1 y 2 mo"),
            ("duration", "PT0S", "0 seconds", "0 Sekunden", "0 s"),
        ],
    )
    def test_percentage_and_duration_are_formatted_and_parsed_in_english_and_german(
        self, hint: str, value: Any, english: str, german: str, typed: str
    ) -> None:
        found = parse_hints({"it": hint})["it",]
        unit = Percent(max(len(found.argument) - 1, 0)) if "percent" in hint else Duration()
        for language, expected in (("en", english), ("de", german)):
            with translation.override(language):
                assert unit.show(value).replace("\xa0", " ") == expected
                kind = "text" if isinstance(value, str) else "number"
                again = unit.read(unit.to_input(value), like=value, kind=kind)
                assert (again, type(again)) == (value, type(value))
                assert unit.read(unit.show(value), like=value, kind=kind) == value
        assert unit.to_input(value) == typed

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("90 min", 5400), ("1:30", 5400), ("0:01:30", 90), ("1.5 h", 5400),
            ("2 weeks", 1209600), ("1 day, 2 hours", 93600), ("1d2h", 93600), ("PT36H", 129600),
            ("pt5m", 300), ("-5 min", -300), ("3 hrs.", 10800),
        ],
    )  # fmt: skip
    def test_typed_duration_is_read_from_common_spellings(self, text: str, seconds: int) -> None:
        assert read(Duration(), text) == seconds
        iso = read(Duration(), text, like="PT1S")
        assert read(Duration(), iso) == seconds

    @pytest.mark.parametrize(
        "text",
        ["", "90", "1 mile", "1 h 2 h", "1 month", "P", "PT", "h", "1 h x", "-", "9" * 50 + " d",
         "1 h " * 3000, "١ h", "1:99", "1 d!", "NaN s"],
    )  # fmt: skip
    def test_typed_text_that_is_not_a_duration_raises_value_error(self, text: str) -> None:
        with pytest.raises(ValueError):
            read(Duration(), text)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), True, None, "1", [], 10**13])
    def test_accepts_method_of_unit_returns_false_for_values_of_unsupported_types(
        self, value: Any
    ) -> None:
        assert not Duration().accepts(value)
        if value != 10**13:
            assert not Money("EUR").accepts(value)
            assert not Percent().accepts(value)


class TestForm:
    def test_amount_input_shows_the_currency_and_the_help_text_shows_limits_in_this_currency(
        self,
    ) -> None:
        cents = schema(cents=money(minimum=0, maximum=250000, multipleOf=5))
        form = AnswerForm(read_shape(cents), {"cents": 12352})
        shown = str(form["answer/cents"])
        assert 'value="123.52"' in shown
        assert '<span class="hitl-unit" id="id_answer/cents_unit">EUR</span></span>' in shown
        assert 'aria-describedby="id_answer/cents_unit id_answer/cents_helptext"' in shown
        help_text = form["answer/cents"].help_text.replace("\xa0", " ")
        assert help_text == "Between 0.00 EUR and 2,500.00 EUR. In increments of 0.05 EUR."

    @pytest.mark.parametrize(
        ("typed", "cents"), [("123.52", 12352), ("123.5200", 12352), ("95", 9500)]
    )
    def test_submitted_amount_is_an_integer_in_the_smallest_unit(
        self, typed: str, cents: int
    ) -> None:
        form = submitted(schema(cents=money()), {"cents": 12352}, {"cents": typed})
        assert form.is_valid(), form.errors
        assert form.answer == {"cents": cents}
        assert type(form.answer["cents"]) is int
        assert form.is_edited() is (cents != 12352)
        assert form.rows()[0].changed is (cents != 12352)
        assert form.rows()[0].original == "123.52\xa0EUR"

    def test_form_errors_of_invalid_amount_and_violated_limits_contain_the_currency(self) -> None:
        limited = schema(cents=money(maximum=12000))
        form = submitted(limited, {"cents": 12000}, {"cents": "12.345"})
        assert form.errors["answer/cents"] == ["Enter an amount, for example 12.50\xa0EUR."]
        form = submitted(limited, {"cents": 12000}, {"cents": "130"})
        assert form.is_valid()
        assert form.typed_texts() == [("Cents", "130.00\xa0EUR", [])]
        form.add_faults(find_faults(limited, form.answer))
        assert form.errors["answer/cents"] == ["Must be at most 120.00\xa0EUR."]

    def test_display_hints_of_review_policy_apply_to_payload_values_and_list_lines(self) -> None:
        payload = {
            "lines": [{"cents": 1250, "currency": "JPY"}, {"cents": 5, "currency": "EUR"}],
            "share": 0.15,
            "wait": "PT90M",
            "day": "2026-01-31",
            "steps": [100, 250],
        }
        hints = parse_hints(
            {
                "/lines/cents": "money /lines/currency",
                "share": "percent",
                "wait": "duration",
                "day": "date",
                "steps": "money EUR",
            }
        )
        options: dict[str, Any] = {"hints": hints, "payload": payload}
        form = submitted(None, payload, {}, **options)
        assert form.is_valid(), form.errors
        assert form.answer == payload
        assert not form.is_edited()
        shown = {name: form[name].value() for name in form.fields if "?" not in name}
        assert shown["answer/lines/0/cents"] == "1250"
        assert shown["answer/lines/1/cents"] == "0.05"
        assert shown["answer/share"] == "15"
        assert shown["answer/wait"] == "1 h 30 min"
        assert shown["answer/steps"].splitlines() == ["1.00", "2.50"]
        assert 'type="date"' in str(form["answer/day"])
        changes = {
            "lines/1/cents": "7.50", "share": "17.5 %", "wait": "2 h", "day": "2026-02-01",
            "steps": "1.00\n3", "lines/2/cents": "8", "lines/2/currency": "KWD",
        }  # fmt: skip
        form = submitted(None, payload, changes, **options)
        assert form.is_valid(), form.errors
        assert form.answer == {
            "lines": [
                {"cents": 1250, "currency": "JPY"},
                {"cents": 750, "currency": "EUR"},
                {"cents": 8000, "currency": "KWD"},
            ],
            "share": 0.175,
            "wait": "PT2H",
            "day": "2026-02-01",
            "steps": [100, 300],
        }

    def test_amount_is_read_in_the_currency_entered_in_the_same_form(self) -> None:
        hints = parse_hints({"amount": "money /currency"})
        payload = {"amount": 12000, "currency": "EUR"}
        for currency, typed, expected in [
            ("JPY", "120.00", 120),
            ("KWD", "120.00", 120000),
            ("EUR", "120.00", 12000),
        ]:
            changes = {"currency": currency, "amount": typed}
            form = submitted(None, payload, changes, hints=hints)
            assert form.is_valid(), form.errors
            assert form.answer == {"amount": expected, "currency": currency}
        form = submitted(None, payload, {"currency": "JPY", "amount": "120.50"}, hints=hints)
        assert "answer/amount" in form.errors
        form = submitted(None, payload, {"currency": "euros"}, hints=hints)
        assert form.errors["answer/amount"] == [
            "Enter the currency of this amount, for example EUR."
        ]

    @pytest.mark.parametrize("currency", [None, "", "eur", "E\u202eR", 978, {"a": 1}, "X" * 10_000])
    def test_amount_with_invalid_currency_is_shown_as_unformatted_integer(
        self, currency: Any
    ) -> None:
        hints = {("amount",): Hint("money", "/currency")}
        payload = {"amount": 12352, "currency": currency}
        shape = infer_shape({"amount": 12352})
        form = AnswerForm(shape, {"amount": 12352}, hints=hints, payload=payload)
        assert form["answer/amount"].value() == "12352"

    def test_form_choice_of_amounts_shows_options_in_the_currency(self) -> None:
        form = AnswerForm(read_shape(schema(cents={"enum": [500, 1000], "display": "money EUR"})))
        assert ">5.00\xa0EUR<" in str(form["answer/cents"])


class TestPages:
    AMOUNT = schema(approved={"type": "boolean"}, amount={"type": "integer", "maximum": 20000})

    def test_request_page_shows_editable_amount_once_with_its_currency(
        self, reviewer: Client
    ) -> None:
        with displayed(amount="money /currency") as graph:
            payload = {"order": "A-7", "amount": 12352, "currency": "EUR"}
            item = make_interrupt(payload, self.AMOUNT, graph=graph)
            page = text_of(reviewer.get(page_of(item)))
            facts = re.findall(r"<dt[^>]*>.*?</dd>", page, re.S)
            assert page_text(facts[0]) == "Order A-7"
            assert not any("123.52" in fact or "12352" in fact for fact in facts)
            assert 'value="123.52"' in page
            assert "At most 200.00\xa0EUR." in page
            assert ">12352<" not in page

            page = text_of(press(reviewer, item, "approve", amount="1,234.50"))
            assert "Must be at most 200.00\xa0EUR." in page
            assert not Decision.objects.exists()

            press(reviewer, item, "approve", amount="95.00")
            decision = Decision.objects.get()
            assert decision.value == {"approved": True, "amount": 9500}
            page = page_text(text_of(reviewer.get(page_of(item))))
            assert "123.52 EUR" in page
            assert "95.00 EUR" in page
            assert "9500" not in page.partition("{")[0]

    def test_request_page_shows_currency_of_amount_edited_in_a_custom_form(
        self, reviewer: Client
    ) -> None:
        with displayed(PlainForm, amount="money /currency") as graph:
            payload = {"amount": 12352, "currency": "EUR"}
            item = make_interrupt(payload, self.AMOUNT, graph=graph)
            page = text_of(reviewer.get(page_of(item)))
        facts = [page_text(fact) for fact in re.findall(r"<dt[^>]*>.*?</dd>", page, re.S)]
        assert "Currency EUR" in facts
        assert 'value="12352"' in page

    def test_edited_amount_in_action_arguments_is_sent_in_the_smallest_unit(
        self, reviewer: Client
    ) -> None:
        args = {"order": "A-7", "cents": 4990}
        with displayed(cents="money EUR") as graph:
            payload = {
                "action_requests": [{"name": "refund", "args": args}],
                "review_configs": [
                    {"action_name": "refund", "allowed_decisions": ["approve", "edit"]}
                ],
            }
            item = make_interrupt(payload, graph=graph)
            assert "49.90\xa0EUR" in text_of(reviewer.get(page_of(item)))
            press(reviewer, item, "edit", cents="39.90")
            [decision] = Decision.objects.get().value["decisions"]
            assert decision["edited_action"]["args"] == {**args, "cents": 3990}
            page = page_text(text_of(reviewer.get(page_of(item))))
            assert "49.90 EUR" in page
            assert "39.90 EUR" in page

    def test_start_form_converts_the_amount_with_the_typed_currency(
        self, starter: Client, advance: Advance
    ) -> None:
        graph = StateGraph(Payment)
        graph.add_node("pay", lambda state: {}).add_edge(START, "pay")
        register("typed_payment")(lambda: graph)
        try:
            page = text_of(starter.get(form_of("typed_payment")))
            assert "An amount in the currency of this form, for example 12.50." in page
            sheet = opened(starter, "typed_payment")
            for currency, amount in (("EUR", 1250), ("KWD", 12500)):
                typed = {"input/amount": "12.50", "input/currency": currency, "key": currency}
                starter.post(form_of("typed_payment"), {**sheet, **typed})
                advance()
                expected = {"amount": amount, "currency": currency}
                assert stored(Run.objects.get(key=currency)) == expected
            typed = {"input/amount": "12.50", "input/currency": "", "key": "none"}
            page = text_of(starter.post(form_of("typed_payment"), {**sheet, **typed}))
            assert "Enter the currency of this amount, for example EUR." in page
        finally:
            unregister("typed_payment")


def test_review_policy_with_invalid_percentage_or_duration_unit_raises_value_error() -> None:
    for wrong in ("percent 12", "percent x", "percent 10000000000", "duration s"):
        with pytest.raises(ValueError):
            ReviewPolicy(display={"it": wrong})
