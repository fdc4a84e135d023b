"""Links that enrol, which the database no longer knows well enough to use them."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Keep of each link what cannot be turned back."""
    execute(op.get_bind(), read("0011_enrolment"))
