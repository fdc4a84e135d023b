"""Which image each desktop runs and which there is for it; what pauses and upgrades machines is of their share."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    """Add the columns, and the kinds to their share."""
    execute(op.get_bind(), read("0040_machines"))
