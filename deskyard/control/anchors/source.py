"""The name under which gateways hold lines of this Mission Control's audit."""

import secrets

from deskyard.control.ground.folder import Folder
from deskyard.host.secret_file import write_secret


def source(folder: Folder) -> str:
    """The chain's name, made once and kept beside the database: who owns that alone cannot begin another."""
    if not folder.source.exists():
        write_secret(folder.source, f"mission.{secrets.token_hex(8)}\n".encode())
    return folder.source.read_text().strip()
