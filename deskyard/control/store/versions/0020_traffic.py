"""The traffic that gateways counted of each desktop, day and name, and the rules of alerts that read it."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Add the table and the rules."""
    execute(op.get_bind(), read("0020_traffic"))
