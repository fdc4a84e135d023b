"""Since when a desktop's agent stands still."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the column, which a machine that boots empties."""
    execute(op.get_bind(), read("0017_halted"))
