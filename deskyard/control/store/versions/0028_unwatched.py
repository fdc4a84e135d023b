"""Machine time that ended since nobody looked, told from time that ended with its machine."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Add the column; of what ended before it is not known."""
    execute(op.get_bind(), read("0028_unwatched"))
