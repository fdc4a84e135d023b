"""The role of the process that asks gateways: it writes what they say, and claims nothing."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Give its grants, and take from the worker what is its work from now on."""
    execute(op.get_bind(), read("0015_link"))
