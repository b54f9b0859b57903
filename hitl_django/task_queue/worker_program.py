"""Program that calls the function with which the task queue runs workers.

``hitl worker`` starts this program if it can't call the function in a fork.
"""

from __future__ import annotations

import django


def main() -> None:
    """Set up Django, and run workers until SIGTERM."""
    django.setup()
    # The module imports models, which need the setup.
    from . import dispatcher

    function = dispatcher.get_dispatcher().worker_function()
    assert function is not None
    function()


if __name__ == "__main__":
    main()
