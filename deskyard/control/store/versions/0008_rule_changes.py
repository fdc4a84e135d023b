"""Changes of approval rules that wait for another admin."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make their table."""
    execute(op.get_bind(), read("0008_rule_changes"))
