"""What agents ask by themselves in a conversation, and what persons answer."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make their column and table."""
    execute(op.get_bind(), read("0008_questions"))
