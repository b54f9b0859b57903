"""Views of the API, one class per path.

Each view parses the request, calls a service and renders the result.
"""

from __future__ import annotations
