"""Which operations take slots from each other, and how many a worker has."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Make the function, and the column."""
    execute(op.get_bind(), read("0029_shares"))
