"""Thousands of simulated worlds with different failures and the same final result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import testing
from hitl_django.engine.savers.checkpoint import Outcome
from hitl_django.graph_registry.registry import DURABILITIES
from hitl_django.models import Thread

from . import invariants, recovery
from .graphs import SIMULATED, end_of
from .simulation import Simulation
from .worlds import Claim, DatabaseWorld, MemoryWorld

pytestmark = [
    pytest.mark.long,
    pytest.mark.promise("P6"),
    pytest.mark.promise("P10"),
    pytest.mark.promise("P17"),
]

SHAPE_NAMES = list(SIMULATED)


def simulated(world_of: Callable[[str], Any], seed: int, durability: str = "sync") -> Any:
    """Return a world at the end of its simulation. A failure shows the seed and the events."""
    shape = SHAPE_NAMES[seed % len(SHAPE_NAMES)]
    world = world_of(shape)
    simulation = Simulation(world, seed, durability)
    try:
        simulation.run()
        values = world.values()
        assert (values["total"], values["answers"]) == end_of(shape)
        assert len(set(values["tasks"])) == values["total"]
    except BaseException as error:
        error.add_note(f"seed {seed} of {shape!r} {durability}: {' '.join(simulation.story)}")
        raise
    return world


def test_engine_simulation_under_random_faults_loses_and_repeats_no_writes(
    seed: int, amount: Callable[[int, int], int], figures: Callable[[str], None]
) -> None:
    count = amount(6_000, 60_000)
    for number in range(count):
        simulated(MemoryWorld, seed + number, DURABILITIES[number % 3])
    figures(f"{count:,} seeds from {seed} on, in memory: no faults")


@pytest.mark.django_db
@pytest.mark.promise("P7")
@pytest.mark.promise("P8")
def test_database_simulation_under_random_faults_violates_no_invariant(
    seed: int, amount: Callable[[int, int], int], settings: Any, figures: Callable[[str], None]
) -> None:
    settings.HITL = {**recovery.IMPATIENT, "LEASE_SECONDS": 3600, "MAX_ATTEMPTS": 1000}
    with testing.inline():
        count = amount(60, 1_200)
        for number in range(count):
            world = simulated(DatabaseWorld, seed + number, DURABILITIES[number % 3])
            assert invariants.faults([world.thread]) == []
            Thread.objects.filter(pk=world.thread).delete()
    figures(f"{count:,} seeds from {seed} on, in the database: no faults")


def test_simulation_repeated_with_equal_seed_performs_equal_operations() -> None:
    stories = []
    for _ in range(2):
        simulation = Simulation(MemoryWorld("chaos fan"), 7)
        simulation.run()
        stories.append(simulation.story)
    assert stories[0] == stories[1]


# If a rule were missing, at least one seed would fail.


class WithoutEpochs(MemoryWorld):
    def claim(self) -> Claim | None:
        claim = super().claim()
        self.epoch = 1
        return claim and Claim(1)


class WithoutSweep(MemoryWorld):
    def sweep(self) -> None:
        pass


class WithoutLeases(MemoryWorld):
    """World without leases, which are only an optimization. The epoch keeps the order."""

    def claim(self) -> Claim | None:
        self.leased = False
        return super().claim()


class WithoutALookAtThePause(MemoryWorld):
    def settle(self, outcome: Outcome) -> None:
        super().settle(outcome)
        if outcome.status == "interrupted":
            self.state = "interrupted"


@pytest.mark.parametrize(
    "world",
    [WithoutEpochs, WithoutSweep, WithoutALookAtThePause],
)
def test_simulation_with_lease_epochs_or_sweep_disabled_reports_a_fault(
    world: type[MemoryWorld],
) -> None:
    with pytest.raises((AssertionError, LookupError)):
        simulate(world, 2_000)


def test_simulation_with_leases_disabled_reports_no_fault() -> None:
    simulate(WithoutLeases, 500)


def simulate(world: type[MemoryWorld], count: int) -> None:
    for number in range(count):
        simulated(world, number)
