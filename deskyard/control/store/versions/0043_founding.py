"""Making and destroying whole workspaces is of the share of what drives the engine."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    """Add the kinds to their shares."""
    execute(op.get_bind(), read("0043_founding"))
