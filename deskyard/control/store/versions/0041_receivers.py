"""The rule that tells of a receiver of alerts that takes nothing, and the index by which old events are found."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    """Add both."""
    execute(op.get_bind(), read("0041_receivers"))
