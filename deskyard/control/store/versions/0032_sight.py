"""Whether a workspace's machines are seen, which agent a desktop has, and answers that are given again."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Add the columns, and the rule of the alert."""
    execute(op.get_bind(), read("0032_sight"))
