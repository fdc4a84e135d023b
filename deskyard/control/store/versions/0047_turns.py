"""An operation says when it was claimed last, by which workspaces take turns."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0047"
down_revision = "0046"


def upgrade() -> None:
    """Add the column and its index."""
    execute(op.get_bind(), read("0047_turns"))
