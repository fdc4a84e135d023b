"""Tasks that changed something at the host, taken in from the host's lines, and up to which line."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    """Add the tables, which the worker's account alone writes."""
    execute(op.get_bind(), read("0042_changes"))
