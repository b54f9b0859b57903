"""Response forms: fields for a schema or payload, and JSON from submitted values."""

from __future__ import annotations

import datetime
import enum
import json
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar, Literal

import pytest
from django.http import QueryDict
from django.utils import translation
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, NaiveDatetime

from hitl_django.engine.state.schema import build_json_schema
from hitl_django.forms import MISSING, AnswerForm, SchemaNode, infer_shape, read_shape
from hitl_django.forms.field_tree import Group, Leaf
from hitl_django.forms.json_input import escape_hidden, from_json, list_hidden
from hitl_django.json_text.json_schema import TOO_COMPLEX, find_faults
from tests.graphs import Order

from .browsing import post_of


class Mood(enum.Enum):
    CALM = "calm"
    CROSS = "cross"


class Address(BaseModel):
    street: str
    floor: int | None = None


class Answer(BaseModel):
    """What a reviewer is asked for."""

    amount: Decimal = Field(gt=0, description="In the order's currency.")
    count: int = 1
    ratio: float = 0.5
    urgent: bool = False
    sure: bool
    note: str = ""
    nickname: str | None = None
    mood: Mood = Mood.CALM
    level: Literal[1, 2, "max"] = 1
    kind: Literal["refund"] = "refund"
    day: datetime.date | None = None
    at: datetime.datetime | None = None
    tags: list[str] = []
    moods: set[Mood] = set()
    address: Address
    second: Address | None = None
    anything: dict[str, Any] = {}
    limit: Decimal | None = None


SCHEMA = Answer.model_json_schema()
ORIGINAL = {
    "amount": "120.00",
    "count": 3,
    "ratio": 2.0,
    "urgent": True,
    "sure": False,
    "note": "Line one\r\nline two",
    "nickname": None,
    "mood": "cross",
    "level": 2,
    "kind": "refund",
    "day": "2026-01-31",
    "at": "2026-01-31T14:30:00.125+02:00",
    "tags": ["a", "b c"],
    "moods": ["cross"],
    "address": {"street": "", "floor": 4, "door": "left"},
    "second": None,
    "anything": {"k": [1, None]},
    "limit": 12.5,
    "not in the schema": {"kept": True},
}


def asked(
    shape: SchemaNode, original: Any = MISSING, changes: dict[str, Any] | None = None
) -> AnswerForm:
    """Return the submitted form: the initial data with a person's changes."""
    data = QueryDict(mutable=True)
    for name, values in post_of(AnswerForm(shape, original).as_p()).items():
        data.setlist(name, values)
    for name, value in (changes or {}).items():
        data.setlist(f"answer{name}", value if isinstance(value, list) else [value])
    return AnswerForm(shape, original, data)


def answered(
    shape: SchemaNode, original: Any = MISSING, changes: dict[str, Any] | None = None
) -> Any:
    form = asked(shape, original, changes)
    assert form.is_valid(), form.errors
    return form.answer


def exactly(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def test_response_form_submitted_unchanged_preserves_payload_values_and_types() -> None:
    form = asked(read_shape(SCHEMA), ORIGINAL)
    assert form.is_valid(), form.errors
    assert exactly(form.answer) == exactly(ORIGINAL)
    assert list(form.answer) == list(ORIGINAL)
    assert not form.is_edited()


@pytest.mark.parametrize("present", [0, 1, False, True, 1.0])
def test_response_form_choice_distinguishes_true_from_one_and_false_from_zero(present: Any) -> None:
    offered = [0, 1, False, True]
    one = {"type": "object", "properties": {"level": {"enum": offered}}, "required": ["level"]}
    original = {"level": present}
    assert exactly(answered(read_shape(one), original)) == exactly(original)
    for number, value in enumerate(offered):
        given = answered(read_shape(one), original, {"/level": str(number)})
        assert exactly(given) == exactly({"level": value})

    several = {"type": "array", "items": {"enum": offered}, "uniqueItems": True}
    many = {"type": "object", "properties": {"levels": several}, "required": ["levels"]}
    kept = {"levels": [True, 1]}
    assert exactly(answered(read_shape(many), kept)) == exactly(kept)
    assert exactly(answered(read_shape(many), kept, {"/levels": ["2"]})) == '{"levels": [false]}'


@pytest.mark.parametrize(
    ("field", "typed", "expected"),
    [
        ("/amount", "99.50", "99.50"),
        ("/limit", "13", 13.0),
        ("/limit", "0.1", 0.1),
        ("/count", " 12 ", 12),
        ("/count", "-4", -4),
        ("/ratio", "3", 3.0),
        ("/urgent", [], False),
        ("/note", "new\r\ntext", "new\r\ntext"),
        ("/note", "", ""),
        ("/nickname", "Sam", "Sam"),
        ("/mood", "0", "calm"),
        ("/level", "2", "max"),
        ("/day", "2027-02-28", "2027-02-28"),
        ("/day", "", None),
        ("/tags", "b c\r\n\r\nnew\r\n", ["b c", "new"]),
        ("/moods", ["0", "1"], ["cross", "calm"]),
        ("/moods", [], []),
        ("/anything", '{"a": 1.0}', {"a": 1.0}),
        ("/kind", "something different", "refund"),
    ],
)
def test_response_form_edited_field_keeps_the_json_type_of_the_payload(
    field: str, typed: Any, expected: Any
) -> None:
    form = asked(read_shape(SCHEMA), ORIGINAL, {field: typed})
    assert form.is_valid(), form.errors
    name = field[1:]
    assert exactly(form.answer) == exactly({**ORIGINAL, name: expected})
    assert form.is_edited() is (exactly(expected) != exactly(ORIGINAL[name]))


def test_response_form_edited_nested_object_keeps_keys_without_schema() -> None:
    answer = answered(read_shape(SCHEMA), ORIGINAL, {"/address/street": "Elm Street 1"})
    assert answer["address"] == {"street": "Elm Street 1", "floor": 4, "door": "left"}


def test_response_form_edited_datetime_has_a_utc_offset() -> None:
    answer = answered(read_shape(SCHEMA), ORIGINAL, {"/at": "2026-02-01T08:00"})
    assert datetime.datetime.fromisoformat(answer["at"]).utcoffset() is not None


@pytest.mark.parametrize("typed", ["2026-03-08T02:30", "2026-11-01T01:30"])
def test_response_form_rejects_datetime_skipped_or_repeated_by_clock_change(
    settings: Any, typed: str
) -> None:
    settings.TIME_ZONE = "America/New_York"
    form = asked(read_shape(SCHEMA), ORIGINAL, {"/at": typed})
    [[message]] = form.errors.values()
    assert "couldn’t be interpreted in time zone America/New_York" in message


class Visit(BaseModel):
    at: NaiveDatetime
    end: NaiveDatetime | None = None


@pytest.mark.parametrize("typed", ["2026-02-01T08:00", "2026-03-08T02:30", "2026-11-01T01:30"])
def test_response_form_returns_naive_datetime_for_pydantic_naive_datetime_fields(
    settings: Any, typed: str
) -> None:
    settings.TIME_ZONE = "America/New_York"
    schema = build_json_schema(Visit)
    assert not find_faults(schema, {"at": f"{typed}:00"})
    assert find_faults(schema, {"at": f"{typed}:00Z"})
    for original in (MISSING, {"at": "2026-01-01T00:00:00"}):
        answer = answered(read_shape(schema), original, {"/at": typed, "/end": typed})
        visit = Visit.model_validate(answer)
        assert visit.at == visit.end == datetime.datetime.fromisoformat(typed)


def test_response_form_optional_object_can_be_filled_and_set_to_null() -> None:
    shape = read_shape(SCHEMA)
    filled = answered(shape, ORIGINAL, {"/second/street": "High Street"})
    assert filled["second"] == {"street": "High Street"}
    again = answered(shape, filled, {"/second?absent": "on"})
    assert again["second"] is None
    assert asked(shape, filled, {"/second?absent": "on"}).is_valid()


def test_response_form_reports_required_fields_without_value() -> None:
    form = asked(read_shape(SCHEMA), {})
    assert not form.is_valid()
    assert set(form.errors) == {"answer/amount", "answer/sure"}


@pytest.mark.parametrize("limit", [{"minLength": 1}, {"pattern": "^[A-Z]{3}$"}])
def test_response_form_requires_text_that_the_schema_forbids_to_be_empty(
    limit: dict[str, Any],
) -> None:
    text = {"type": "string", **limit}
    schema: dict[str, Any] = {"type": "object", "properties": {"it": text}, "required": ["it"]}
    tree = AnswerForm(read_shape(schema), {}).tree
    assert isinstance(tree, Group)
    field = tree.members["it"]
    assert isinstance(field, Leaf)
    assert field.field.is_needed
    for original in ({}, {"it": "EUR"}):
        form = asked(read_shape(schema), original, {"/it": ""})
        assert form.errors == {"answer/it": ["This field is required."]}
    del schema["required"]
    assert answered(read_shape(schema), {"it": "EUR"}, {"/it": ""}) == {}


def test_response_form_without_payload_returns_filled_and_required_fields_only() -> None:
    answer = answered(read_shape(SCHEMA), {}, {"/amount": "1", "/sure": "0"})
    assert answer == {"amount": "1", "sure": True, "address": {"street": ""}}


def test_response_form_distinguishes_null_from_empty_text() -> None:
    shape = read_shape({"type": "object", "properties": {"a": {"type": ["string", "null"]}}})
    for value in (None, "", "x"):
        assert exactly(answered(shape, {"a": value})) == exactly({"a": value})
    assert answered(shape, {}) == {}
    assert answered(shape, {"a": "x"}, {"/a": ""}) == {"a": None}


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("/count", "1.5"),
        ("/count", "١٢"),
        ("/count", "9" * 5000),
        ("/count", ""),
        ("/ratio", "1e999"),
        ("/ratio", "NaN"),
        ("/ratio", "1,5"),
        ("/amount", "twelve"),
        ("/amount", "Infinity"),
        ("/mood", "7"),
        ("/mood", "-1"),
        ("/moods", ["0", "x"]),
        ("/day", "31.01.2026"),
        ("/day", "2026-02-30"),
        ("/at", "2026-02-30T10:00"),
        ("/anything", "{"),
        ("/anything", '{"a": 1, "a": 2}'),
        ("/anything", "NaN"),
        ("/anything", "1e999"),
        ("/anything", "[" * 100_000),
    ],
)
def test_response_form_reports_unreadable_value_at_its_field(field: str, typed: Any) -> None:
    original = {k: v for k, v in ORIGINAL.items() if k != "count"} if not typed else ORIGINAL
    schema = {**SCHEMA, "required": [*SCHEMA["required"], "count"]}
    form = asked(read_shape(schema), original, {field: typed})
    assert not form.is_valid()
    assert list(form.errors) == [f"answer{field}"]


def test_response_form_shows_schema_errors_at_the_field_of_their_path() -> None:
    form = asked(read_shape(SCHEMA), ORIGINAL)
    assert form.is_valid()
    form.add_faults(
        [
            ("/amount", "must be more than 0"),
            ("/address/street", "is too short"),
            ("/tags/1", "is too long"),
            ("/address", "is odd"),
            ("/unknown~1key", "is not allowed"),
            ("", "is not right"),
        ]
    )
    assert form.errors["answer/amount"] == ["must be more than 0"]
    assert form.errors["answer/address/street"] == ["is too short"]
    assert form.errors["answer/tags"] == ["Entry 2: is too long"]
    assert form.non_field_errors() == [
        "is odd",
        "unknown/key: is not allowed",
        "is not right",
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"type": "object"},
        {"type": "array"},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#/$defs/gone"},
        {"$ref": "#"},
        {"$defs": {"n": {"$ref": "#/$defs/n"}}, "$ref": "#/$defs/n"},
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"allOf": [{"type": "string"}, {"minLength": 1}]},
        {"type": ["string", "integer"]},
        {"enum": [{"a": 1}, [2]]},
        {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}},
        {"type": "object", "properties": ["not", "a", "dict"]},
        {"type": "string", "pattern": 7, "format": [], "maxLength": "long"},
        {"type": "object", "properties": {str(n): {"type": "string"} for n in range(300)}},
    ],
)
def test_response_form_for_unusual_or_broken_schema_round_trips_a_value(schema: Any) -> None:
    shape = read_shape(schema)
    value = "text" if shape.kind == "text" else {"a": [1, None, "ü"]}
    assert exactly(answered(shape, value)) == exactly(value)


def test_response_form_for_recursive_schema_shows_the_recursion_as_json_field() -> None:
    class Tree(BaseModel):
        name: str
        child: Tree | None = None

    Tree.model_rebuild(_types_namespace={"Tree": Tree})
    shape = read_shape(Tree.model_json_schema())
    assert [prop.shape.kind for prop in shape.properties] == ["text", "json"]
    value = {"name": "a", "child": {"name": "b", "child": None}}
    assert answered(shape, value) == value


def test_response_form_for_integer_enum_or_boolean_schema_has_one_field() -> None:
    assert answered(read_shape({"type": "integer"}), MISSING, {"": "7"}) == 7
    assert answered(read_shape({"enum": ["a", "b"]}), MISSING, {"": "1"}) == "b"
    assert answered(read_shape({"type": "boolean"}), MISSING, {"": "1"}) is False


def test_response_form_uses_text_area_for_long_or_multiline_text() -> None:
    shape = infer_shape({"short": "a", "long": "word " * 100, "lines": "a\nb"})
    html = AnswerForm(shape, {"short": "a", "long": "word " * 100, "lines": "a\nb"}).as_p()
    assert html.count("<textarea") == 2


json_texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | json_texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_texts, inner, max_size=5),
    max_leaves=15,
)


@settings(deadline=None)
@given(json_values)
def test_response_form_round_trips_arbitrary_payload(payload: Any) -> None:
    assert exactly(answered(infer_shape(payload), payload)) == exactly(payload)


CONTACT = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": kind}, "of": schema},
            "required": ["of"],
        }
        for kind, schema in (("mail", {"type": "string"}), ("phone", {"type": "integer"}))
    ]
}


@cache
def schemas(*, required: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Generate schemas in the form that pydantic writes."""
    plain = st.sampled_from(
        [
            {"type": "string"},
            {"type": "string", "maxLength": 5000},
            {"type": "integer"},
            {"type": "number"},
            {"type": "boolean"},
            {"anyOf": [{"type": "number"}, {"type": "string"}]},
            {"enum": ["a", 1, None]},
            {"const": "x"},
            {"type": "string", "format": "date"},
            {"type": "string", "format": "date-time"},
            {"type": "string", "format": "time"},
            {"type": "array", "items": {"type": "string"}},
            {"type": "array", "items": {"type": "number"}},
            {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "boolean"}]},
            {"oneOf": [{"const": "a", "title": "A"}, {"const": 1, "title": "One"}]},
            CONTACT,
            {"anyOf": [CONTACT, {"type": "array", "items": {"type": "integer"}}]},
            {"type": "array", "items": CONTACT},
        ]
    )
    nullable = plain.map(lambda schema: {"anyOf": [schema, {"type": "null"}]})
    return st.recursive(
        plain | nullable,
        lambda inner: (
            _objects(inner, required=required)
            | _objects(inner, required=required).map(
                lambda schema: {"type": "array", "items": schema}
            )
        ),
        max_leaves=8,
    )


def _objects(
    inner: st.SearchStrategy[dict[str, Any]], *, required: bool
) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda properties, wanted: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in wanted],
        },
        st.dictionaries(st.sampled_from("abcdef/~%ü "), inner, min_size=1, max_size=5),
        st.sets(st.sampled_from("abcdef")) if required else st.just(set()),
    )


@settings(max_examples=2 * settings().max_examples)
@given(schemas(required=False), json_values)
def test_response_form_round_trips_arbitrary_value_with_arbitrary_schema(
    schema: dict[str, Any], value: Any
) -> None:
    assert exactly(answered(read_shape(schema), value)) == exactly(value)


@settings(max_examples=2 * settings().max_examples)
@given(st.data())
def test_response_form_round_trips_value_valid_for_its_schema(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(fitting(schema))
    assert exactly(answered(read_shape(schema), value)) == exactly(value)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Generate values that match a schema of ``schemas``."""
    if "properties" in schema:
        required = {k: fitting(v) for k, v in schema["properties"].items()}
        optional = {k: required.pop(k) for k in list(required) if k not in schema["required"]}
        return st.fixed_dictionaries(required, optional=optional)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return st.one_of([fitting(part) for part in schema[key]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    if "items" in schema:
        unique = (exactly,) if schema.get("uniqueItems") else None
        return st.lists(fitting(schema["items"]), max_size=5, unique_by=unique)
    return MOMENTS[schema["format"]] if "format" in schema else SIMPLE[schema["type"]]


#: Values of a format or a type. Creating these strategies takes longer than drawing from them.
MOMENTS: dict[str, st.SearchStrategy[Any]] = {
    "date": st.dates().map(str),
    "time": st.times().map(str),
    "date-time": st.datetimes(timezones=st.none() | st.timezones()).map(
        lambda moment: moment.isoformat()
    ),
}
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "string": json_texts,
    "integer": st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "null": st.none(),
    "object": st.dictionaries(json_texts, st.integers(), max_size=3),
}


class TestObjectList:
    SHAPE = read_shape(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string"},
                    "count": {"type": "integer"},
                    "gift": {"type": "boolean"},
                },
                "required": ["sku", "count"],
            },
        }
    )
    LINES: ClassVar = [
        {"sku": "A-1", "count": 2, "gift": True, "more": [1]},
        {"sku": "B-2", "count": 1},
    ]

    def test_object_list_form_has_one_row_per_object_and_one_blank_row(self) -> None:
        [row] = AnswerForm(self.SHAPE, self.LINES).rows()
        assert [entry.is_new for entry in row.entries] == [False, False, True]

    def test_object_list_form_submitted_unchanged_returns_the_payload_list(self) -> None:
        form = asked(self.SHAPE, self.LINES)
        assert form.is_valid()
        assert exactly(form.answer) == exactly(self.LINES)
        assert not form.is_edited()

    def test_object_list_form_changed_row_keeps_keys_without_schema(self) -> None:
        answer = answered(self.SHAPE, self.LINES, {"/0/count": "3"})
        assert answer == [{**self.LINES[0], "count": 3}, self.LINES[1]]

    def test_object_list_form_removed_row_is_ignored_even_with_invalid_values(self) -> None:
        form = asked(self.SHAPE, self.LINES, {"/0?absent": "on", "/0/count": "not a number"})
        assert form.is_valid(), form.errors
        assert form.answer == self.LINES[1:]
        assert form.is_edited()

    def test_object_list_form_filled_blank_row_is_appended(self) -> None:
        form = asked(self.SHAPE, self.LINES, {"/2/sku": "C-3", "/2/count": "7"})
        assert form.is_valid(), form.errors
        assert form.answer == [*self.LINES, {"sku": "C-3", "count": 7}]
        assert form.is_edited()

    def test_object_list_form_partly_filled_blank_row_reports_missing_field(self) -> None:
        form = asked(self.SHAPE, self.LINES, {"/2/sku": "C-3"})
        assert not form.is_valid()
        assert list(form.errors) == ["answer/2/count"]

    def test_object_list_form_returns_empty_list_when_all_rows_are_removed(self) -> None:
        assert answered(self.SHAPE, []) == []
        assert answered(self.SHAPE) == []
        assert answered(self.SHAPE, [self.LINES[1]], {"/0?absent": "on"}) == []

    def test_adding_rows_to_object_list_form_keeps_values_and_shows_no_errors(self) -> None:
        data = {"answer/0/sku": "A", "answer/0/count": "x", "answer?rows": "1"}
        form = AnswerForm(self.SHAPE, [], data, more="answer")
        [row] = form.rows()
        assert len(row.entries) == 4
        assert row.group is not None
        assert row.group.blank == 4
        assert row.entries[0].rows[0].bound.value() == "A"
        assert not form.errors

    @pytest.mark.parametrize("posted", ["9999999999", "-1", "x", "999", "²"])
    def test_object_list_form_with_hostile_row_count_shows_at_most_50_rows(
        self, posted: str
    ) -> None:
        [row] = AnswerForm(self.SHAPE, [], {"answer?rows": posted}).rows()
        assert 1 <= len(row.entries) <= 50

    def test_object_list_form_shows_schema_error_at_its_form_row_after_removal_of_an_earlier_row(
        self,
    ) -> None:
        form = asked(self.SHAPE, self.LINES, {"/0?absent": "on", "/1/count": "5"})
        assert form.is_valid()
        form.add_faults([("/0/count", "is too much")])
        assert form.errors == {"answer/1/count": ["is too much"]}

    def test_form_of_list_with_200_objects_or_mixed_types_is_a_json_field(self) -> None:
        for lines in ([self.LINES[1]] * 200, [self.LINES[1], 7]):
            assert answered(self.SHAPE, lines) == lines
            [row] = AnswerForm(self.SHAPE, lines).rows()
            assert row.bound is not None

    def test_payload_list_of_objects_has_form_rows_only_if_keys_of_all_objects_match(self) -> None:
        shape = infer_shape({"lines": [{"sku": "A", "n": 1}, {"sku": "B", "n": 2}]})
        assert shape.properties[0].shape.kind == "rows"
        shape = infer_shape({"lines": [{"sku": "A", "n": 1}, {"sku": "B"}]})
        assert shape.properties[0].shape.kind == "json"


class TestUnion:
    SHAPE = read_shape(Order.model_json_schema()).without("approved")
    ASKED: ClassVar = {
        "contact": {"kind": "phone", "number": "123456", "note": "after six"},
        "wait": "a week",
        "site": None,
        "lines": [{"sku": "A", "count": 2, "price": 1.5}],
        "unknown": [1],
    }

    def test_union_form_has_a_radio_choice_and_fields_per_alternative(self) -> None:
        contact, wait, *_ = AnswerForm(self.SHAPE, self.ASKED).rows()
        assert [kind.radio.choice_label for kind in contact.kinds] == ["Email", "Phone"]
        assert [[row.bound.name for row in kind.rows] for kind in contact.kinds] == [
            ["answer/contact?0/address"],
            ["answer/contact?1/number", "answer/contact?1/loud"],
        ]
        labels = [str(kind.radio.choice_label) for kind in wait.kinds]
        assert labels == ["No value", "Integer", "Text"]

    def test_union_form_submitted_unchanged_returns_the_payload_value(self) -> None:
        form = asked(self.SHAPE, self.ASKED)
        assert form.is_valid(), form.errors
        assert exactly(form.answer) == exactly(self.ASKED)
        assert not form.is_edited()

    def test_union_form_with_changed_choice_returns_fields_of_the_chosen_alternative_only(
        self,
    ) -> None:
        form = asked(
            self.SHAPE, self.ASKED, {"/contact?kind": "0", "/contact?0/address": "d@example.com"}
        )
        assert form.is_valid(), form.errors
        assert form.answer["contact"] == {"kind": "email", "address": "d@example.com"}
        assert form.is_edited()
        assert ("Contact", "Email", ()) in form.typed_texts()

    def test_union_form_ignores_invalid_values_of_alternatives_not_chosen(self) -> None:
        changes = {"/wait?kind": "1", "/wait?0": "many", "/wait?1": "soon"}
        assert answered(self.SHAPE, self.ASKED, changes)["wait"] == "soon"
        form = asked(self.SHAPE, self.ASKED, {**changes, "/wait?kind": "0"})
        assert list(form.errors) == ["answer/wait?0"]

    def test_union_form_without_choice_returns_null_or_requires_a_choice(self) -> None:
        form = asked(self.SHAPE, self.ASKED, {"/wait?kind": "", "/contact?kind": ""})
        assert form.errors == {"answer/contact?kind": ["Choose one."]}
        assert answered(self.SHAPE, self.ASKED, {"/wait?kind": ""})["wait"] is None

    def test_union_form_shows_schema_errors_at_fields_of_the_chosen_alternative(self) -> None:
        form = asked(self.SHAPE, self.ASKED)
        assert form.is_valid()
        faults = find_faults(
            Order.model_json_schema(),
            {**self.ASKED, "approved": True, "contact": {"kind": "phone", "number": "1"}},
        )
        form.add_faults(faults)
        assert form.errors == {
            "answer/contact?1/number": ["Must have between 5 and 20 characters, but has 1."],
            "__all__": ["Must have at least 2 items, but has 1."],
        }

    def test_union_form_with_value_outside_its_alternatives_round_trips_the_value(self) -> None:
        odd = {**self.ASKED, "contact": {"kind": "pigeon"}}
        assert exactly(answered(self.SHAPE, odd)) == exactly(odd)

    def test_union_of_constants_is_one_select_field_with_titles(self) -> None:
        parts = [{"const": 1, "title": "Low"}, {"const": 2, "title": "High"}]
        form = AnswerForm(read_shape({"oneOf": parts}))
        [row] = form.rows()
        assert row.bound is not None
        assert [label for _, label in row.bound.field.widget.choices[1:]] == ["Low", "High"]
        assert answered(read_shape({"oneOf": parts}), MISSING, {"": "1"}) == 2

    def test_union_inside_list_rows_round_trips_and_accepts_a_new_row(self) -> None:
        contact = Order.model_json_schema()["properties"]["contact"]
        whole = {"type": "array", "items": contact, "$defs": Order.model_json_schema()["$defs"]}
        there = [{"kind": "phone", "number": "123456"}, {"kind": "email", "address": "a@b.de"}]
        shape = read_shape(whole)
        assert exactly(answered(shape, there)) == exactly(there)
        more = answered(shape, there, {"/2?kind": "1", "/2?1/number": "99999"})
        assert more[2] == {"kind": "phone", "number": "99999"}

    def test_union_of_list_and_null_distinguishes_null_from_empty_list(self) -> None:
        listed = {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True}
        shape = read_shape({"anyOf": [listed, {"type": "null"}]})
        for value in (None, [], ["b"]):
            assert exactly(answered(shape, value)) == exactly(value)
        assert answered(shape, None, {"?kind": "0", "?0": ["1"]}) == ["b"]


@pytest.mark.parametrize(
    ("schema", "typed", "expected"),
    [
        ({}, "hello", "hello"),
        (True, "hello there", "hello there"),
        ({}, "12", 12),
        ({}, '"12"', "12"),
        ({"type": ["string", "object"], "maxLength": 9}, "hello", "hello"),
    ],
)
def test_json_field_reads_unquoted_text_as_text_if_schema_allows_text(
    schema: Any, typed: str, expected: Any
) -> None:
    assert exactly(answered(read_shape(schema), MISSING, {"": typed})) == exactly(expected)


@pytest.mark.parametrize(
    ("schema", "typed"),
    [
        ({"type": "object"}, "hello"),
        ({}, "{a}"),
        ({}, '"hello'),
        ({}, "[1"),
        (SchemaNode("json"), "a"),
    ],
)
def test_json_field_rejects_typed_text_that_is_neither_valid_json_nor_allowed_text(
    schema: Any, typed: str
) -> None:
    shape = schema if isinstance(schema, SchemaNode) else read_shape(schema)
    assert not asked(shape, MISSING, {"": typed}).is_valid()


class TestGermanNumbers:
    SHAPE = read_shape(
        {
            "type": "object",
            "properties": {
                "ratio": {"type": "number"},
                "price": {"anyOf": [{"type": "number"}, {"type": "string"}]},
                "rates": {"type": "array", "items": {"type": "number"}},
            },
        }
    )
    ASKED: ClassVar = {"ratio": 1.234, "price": "12.50", "rates": [1.5, 2, 1e-07]}

    @pytest.fixture(autouse=True)
    def german(self) -> Iterator[None]:
        with translation.override("de"):
            yield

    def test_german_form_shows_numbers_with_comma_and_round_trips_them(self) -> None:
        form = asked(self.SHAPE, self.ASKED)
        assert [row.bound.value() for row in form.rows()] == ["1,234", "12,50", "1,5\r\n2\r\n1e-07"]
        assert form.is_valid()
        assert exactly(form.answer) == exactly(self.ASKED)

    @pytest.mark.parametrize(
        ("field", "typed", "expected"),
        [
            ("ratio", "12,50", 12.5),
            ("ratio", "12.5", 12.5),
            ("ratio", "0.125", 0.125),
            ("ratio", "-1,5e3", -1500.0),
            ("price", "1234,50", "1234.50"),
            ("rates", "1,5\n2,25", [1.5, 2.25]),
        ],
    )
    def test_german_form_accepts_comma_and_unambiguous_point_as_decimal_separator(
        self, field: str, typed: str, expected: Any
    ) -> None:
        answer = answered(self.SHAPE, self.ASKED, {f"/{field}": typed})
        assert exactly(answer[field]) == exactly(expected)

    @pytest.mark.parametrize("field", ["ratio", "price", "rates"])
    def test_german_form_rejects_number_with_ambiguous_point(self, field: str) -> None:
        form = asked(self.SHAPE, self.ASKED, {f"/{field}": "1.234"})
        assert "1234 oder 1,234" in str(form.errors)

    @pytest.mark.parametrize("typed", ["1.234,50", "1.234.567", "1,2,3", "zwölf"])
    def test_german_form_rejects_unreadable_number_with_an_example(self, typed: str) -> None:
        form = asked(self.SHAPE, self.ASKED, {"/ratio": typed})
        assert "12,50" in str(form.errors)


def test_response_form_shows_schema_limits_as_help_text() -> None:
    schema = {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 99},
            "note": {"type": "string", "minLength": 1, "maxLength": 200},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
            "price": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]},
            "site": {"type": "string", "format": "uri", "description": "Of the shop."},
        },
    }
    shown = [row.bound.help_text for row in AnswerForm(read_shape(schema)).rows()]
    assert shown == [
        "Between 1 and 99.",
        "At most 200 characters.",
        "One per line. At least 2 items.",
        "More than 0.",
        "Of the shop. For example https://example.com/page.",
    ]
    with translation.override("de"):
        shown = [row.bound.help_text for row in AnswerForm(read_shape(schema)).rows()]
    assert shown[:2] == ["Zwischen 1 und 99.", "Höchstens 200 Zeichen."]


def test_response_form_row_has_original_value_and_tells_whether_the_value_was_changed() -> None:
    shape = infer_shape({"amount": 12.5, "sure": True, "text": "x" * 300})
    form = asked(shape, {"amount": 12.5, "sure": True, "text": "x" * 300}, {"/amount": "13"})
    assert [(row.original, row.changed) for row in form.rows()] == [
        ("12.5", True),
        ("Yes", False),
        ("", False),
    ]


@settings(deadline=None)
@given(st.integers())
def test_integer_field_round_trips_any_integer_text(number: int) -> None:
    answer = answered(read_shape({"type": "integer"}), MISSING, {"": str(number)})
    assert exactly(answer) == exactly(number)


@settings(deadline=None)
@given(json_values)
def test_json_field_round_trips_any_json_text(value: Any) -> None:
    answer = answered(SchemaNode("json"), MISSING, {"": json.dumps(value)})
    assert exactly(answer) == exactly(value)


def test_escape_hidden_shows_invisible_characters_as_code_points() -> None:
    assert escape_hidden("a\u202eb\x1bc\r\nd\te\u2066") == "a⟨U+202E⟩b⟨U+001B⟩c\nd\te⟨U+2066⟩"
    assert escape_hidden("می‌خواهم 👩‍👧") == "می‌خواهم 👩‍👧"
    assert escape_hidden("ap\u200dprove") == "ap⟨U+200D⟩prove"
    assert list_hidden("a\u200bb\u200bc\u00ad") == ["U+200B", "U+00AD"]
    assert list_hidden("plain\ttext\n") == []


def test_from_json_rejects_trailing_commas_single_quotes_infinity_and_leading_zeros() -> None:
    assert from_json("\ufeff[1, 2.5]") == [1, 2.5]
    for text in ("[1,]", "{'a': 1}", "“a”", "-Infinity", "01", ""):
        with pytest.raises(ValueError):
            from_json(text)


def test_response_form_shows_too_complex_error_in_german() -> None:
    form = asked(read_shape(SCHEMA), ORIGINAL)
    assert form.is_valid()
    with translation.override("de"):
        form.add_faults([("", TOO_COMPLEX)])
        [said] = form.non_field_errors()
    assert "verschachtelt" in said


def test_response_form_for_payload_with_empty_key_round_trips_edited_value() -> None:
    payload = {"": "top", "packages": {"": {"name": "shop"}, "x": {"v": "1"}}}
    form = AnswerForm(infer_shape(payload), payload)
    shown: list[str] = []
    labels: list[str] = []
    rows = form.rows()
    while rows:
        row = rows.pop()
        rows.extend(row.rows)
        labels.append(str(row.bound.label if row.bound else row.group and row.group.label))
        if row.bound:
            shown.append(row.bound.name)
    assert sorted(shown) == sorted(form.fields)
    assert all(labels)
    data = {name: form[name].value() for name in shown} | {"answer/packages/x/v": "2"}
    answered = AnswerForm(infer_shape(payload), payload, data)
    assert answered.is_valid(), answered.errors
    assert answered.answer == {**payload, "packages": {"": {"name": "shop"}, "x": {"v": "2"}}}


def test_union_form_with_empty_discriminator_key_shows_fields_per_alternative() -> None:
    kinds = [{"properties": {"": {"const": kind}, kind: {}}} for kind in ("a", "b")]
    shape = read_shape({"anyOf": [{"type": "object", **each} for each in kinds]})
    assert shape.discriminator == ""
    form = AnswerForm(shape, {"": "b", "b": 1})
    [row] = form.rows()
    names = [[each.bound.name for each in kind.rows if each.bound] for kind in row.kinds]
    assert names == [["answer?0/a"], ["answer?1/b"]]
