"""The config that langchain finds by itself: a model called in a node belongs to the node's run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config


def enter_config(config: Any) -> Callable[[], None]:
    """Has langchain find a config from here on; returns what ends that."""
    token = var_child_runnable_config.set(config)
    return lambda: var_child_runnable_config.reset(token)
