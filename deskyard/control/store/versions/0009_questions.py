"""The questions that agents ask by themselves in a conversation, and the answers of persons."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make their column and table."""
    execute(op.get_bind(), read("0009_questions"))
