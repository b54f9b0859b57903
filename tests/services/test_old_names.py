"""Names of the services that have changed work for one more release."""

from __future__ import annotations

import pytest

from hitl_django import services


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Whereabouts", "Position"),
        ("links_of", "list_links"),
        ("refusals_of", "find_refusals"),
        ("taken_before", "find_taken"),
        ("whereabouts", "thread_position"),
    ],
)
def test_an_old_name_is_the_new_one_with_a_warning(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"services.{old} is now .*services.{new}"):
        assert getattr(services, old) is getattr(services, new)
    assert new in services.__all__
    assert old not in services.__all__


def test_what_has_never_been_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        services.absent  # noqa: B018
