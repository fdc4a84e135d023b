"""What looks by the hour ask for: a function that writes one down, and the rules that read them."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add the function and the rules."""
    execute(op.get_bind(), read("0018_looks"))
