"""Brings the tables of Mission Control to what this tree needs; a database of a newer tree is refused."""

from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from deskyard.errors import HostError

FOLDER = Path(__file__).parent


def migrate(url: str) -> str:
    """Take every step that the database lacks, in one transaction; the version it has then."""
    settings = Config()
    settings.set_main_option("script_location", str(FOLDER))
    settings.attributes["url"] = url.replace("postgresql:", "postgresql+psycopg:", 1)
    scripts = ScriptDirectory.from_config(settings)
    head = scripts.get_current_head()
    assert head is not None
    now = version(url)
    if now is not None and now not in {script.revision for script in scripts.walk_revisions()}:
        remedy = "use the tree that made it, or a newer one; control.restore brings a backup of before"
        raise HostError("database", now, "was made by a newer Deskyard", remedy)
    if now != head:
        command.upgrade(settings, "head")
    return head


def version(url: str) -> str | None:
    """The version that a database has; None if it is empty."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    try:
        with engine.connect() as link:
            return MigrationContext.configure(link).get_current_revision()
    finally:
        engine.dispose()


def read(name: str) -> str:
    """The statements of a step."""
    return (FOLDER / "versions" / f"{name}.sql").read_text()


def execute(link: object, statements: str) -> None:
    """Send a whole step as it is written; nothing in it is a parameter."""
    raw = getattr(link, "connection").driver_connection  # noqa: B009
    assert isinstance(raw, psycopg.Connection)
    raw.execute(statements.encode(), prepare=False)
