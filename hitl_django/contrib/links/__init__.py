"""Review links, with which a person without an account decides one request, once.

models.py        ``ReviewLink``
services.py      create, list and revoke links; decide with a link
pages/           the public page of a link
panels.py        the panel of the request page
admin.py         the list of links
api/             routes below ``interrupts/{id}/links/``
"""

from __future__ import annotations
