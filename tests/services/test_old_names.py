"""Names of the services and of the registry that have changed work for one more release."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django import services
from hitl_django.graph_registry import registry


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (services, "Whereabouts", "Position"),
        (services, "links_of", "list_links"),
        (services, "refusals_of", "find_refusals"),
        (services, "taken_before", "find_taken"),
        (services, "whereabouts", "thread_position"),
        (registry, "get", "get_graph"),
        (registry, "names", "list_names"),
    ],
)
def test_an_old_name_is_the_new_one_with_a_warning(module: Any, old: str, new: str) -> None:
    name = module.__name__
    with pytest.warns(DeprecationWarning, match=f"{name}.{old} is now {name}.{new}"):
        assert getattr(module, old) is getattr(module, new)


def test_old_names_of_services_are_not_public() -> None:
    public = set(services.__all__)
    assert public >= {"Position", "find_refusals", "find_taken", "list_links", "thread_position"}
    assert not public & {"Whereabouts", "links_of", "refusals_of", "taken_before", "whereabouts"}


@pytest.mark.parametrize("module", [services, registry])
def test_what_has_never_been_there_is_an_error(module: Any) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        module.absent  # noqa: B018
