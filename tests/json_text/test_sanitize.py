"""Invisible characters in titles: joiners within a sign stay, and all others are escaped."""

from __future__ import annotations

import pytest

from hitl_django.forms.json_input import escape_hidden
from hitl_django.json_text.sanitize import escape_invisible, make_title


@pytest.mark.parametrize("text", ["A 👩\u200d🚀 asks", "می\u200cخواهم", "🏳️\u200d🌈"])
def test_zero_width_joiner_inside_emoji_or_word_is_not_escaped(text: str) -> None:
    assert escape_invisible(text) == text
    assert escape_hidden(text) == text
    assert make_title({"title": text}, "node") == text


@pytest.mark.parametrize(
    "text", ["re\u200dject", "\u200d👩", "👩\u200d", "a\u200c", "ap\u202eprove"]
)
def test_stray_zero_width_or_direction_character_is_shown_as_code_point(text: str) -> None:
    assert "\\u20" in escape_invisible(text)
    assert "U+20" in escape_hidden(text)
