"""Whether a person is asked in a workspace at all, by its declaration."""

import contextlib

from deskyard.declaration import declaration
from deskyard.errors import DeskyardError


def asks(name: str) -> bool:
    """Whether a person is asked about names in a workspace; not where its declaration cannot be read."""
    with contextlib.suppress(DeskyardError):
        return name in declaration.stack_names() and bool(declaration.read(name).workspace.egress_ask)
    return False
