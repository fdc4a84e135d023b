"""The version of each rule of alerts, so that nobody overwrites what they have not read."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Add the column."""
    execute(op.get_bind(), read("0026_rule_versions"))
