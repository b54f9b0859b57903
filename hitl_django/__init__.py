"""Durable graph engine with people in the loop, for Django.

The package exports the names used in the guides. ``hitl_django.langgraph`` contains LangGraph's
names in LangGraph's module structure. ``hitl_django.errors`` contains all errors, and
``hitl_django.services`` contains all services. Importing this package loads neither Django nor the
engine: each name is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .lazy_names import make_getattr

__version__ = "1.0.0rc1"

#: Maps each exported name to the module that defines it.
LAZY_MODULES = {
    "END": "engine.constants",
    "START": "engine.constants",
    "VALUE": "decision_types",
    "Command": "engine.types",
    "Expiry": "engine.types",
    "ReviewPolicy": "graph_registry.review_policy",
    "StateGraph": "engine.graph.state_graph",
    "ask": "services",
    "cancel": "services",
    "decide": "services",
    "entrypoint": "engine.graph.functional",
    "follow": "services",
    "interrupt": "engine.task.node_api",
    "once": "engine.task.node_api",
    "register": "graph_registry.registry",
    "register_model": "engine.serde",
    "retry": "services",
    "review": "review_options",
    "start": "services",
    "start_and_wait": "services",
    "task": "engine.graph.functional",
    "transact": "engine.task.node_api",
}

if TYPE_CHECKING:
    from hitl_django.decision_types import VALUE as VALUE
    from hitl_django.engine.constants import END as END
    from hitl_django.engine.constants import START as START
    from hitl_django.engine.graph.functional import entrypoint as entrypoint
    from hitl_django.engine.graph.functional import task as task
    from hitl_django.engine.graph.state_graph import StateGraph as StateGraph
    from hitl_django.engine.serde import register_model as register_model
    from hitl_django.engine.task.node_api import interrupt as interrupt
    from hitl_django.engine.task.node_api import once as once
    from hitl_django.engine.task.node_api import transact as transact
    from hitl_django.engine.types import Command as Command
    from hitl_django.engine.types import Expiry as Expiry
    from hitl_django.graph_registry.registry import register as register
    from hitl_django.graph_registry.review_policy import ReviewPolicy as ReviewPolicy
    from hitl_django.review_options import review as review
    from hitl_django.services import ask as ask
    from hitl_django.services import cancel as cancel
    from hitl_django.services import decide as decide
    from hitl_django.services import follow as follow
    from hitl_django.services import retry as retry
    from hitl_django.services import start as start
    from hitl_django.services import start_and_wait as start_and_wait
else:
    _load = make_getattr(__name__, LAZY_MODULES)

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return [public for public, module in LAZY_MODULES.items() if _is_loadable(module)]
        return _load(name)


def _is_loadable(module: str) -> bool:
    """Return whether a module of this package can already be imported.

    Modules with models can't be imported until Django's app registry is ready.
    """
    if module.startswith("engine."):
        return True
    from django.apps import apps

    return module in ("decision_types", "review_options") or apps.apps_ready


def __dir__() -> list[str]:
    return [*globals(), *LAZY_MODULES]
