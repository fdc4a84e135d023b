"""The names that gateways refused to each desktop, and the rules of alerts that count names that are new."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    """Add the table with what is known already, and the rule; the number of the other is of names from now on."""
    execute(op.get_bind(), read("0037_refused_names"))
