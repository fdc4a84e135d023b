"""The settings that `control.up` was given, kept for the supervisor."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from deskyard.control.ground.folder import Accounts, Folder

NAME = "mission"
PORT = 9443


@dataclass(frozen=True)
class Settings:
    """Where Mission Control is reached, and for which site."""

    site: str
    domain: str
    listen: str
    port: int
    # Where webhooks may be beside public addresses; the operator alone says so.
    webhook_networks: tuple[str, ...] = ()
    # The address of a database elsewhere, without any secret; none: the cluster of this machine.
    database: str | None = None

    @property
    def host(self) -> str:
        """Its name, beside those of the gateways."""
        return f"{NAME}.{self.domain}"

    @property
    def origin(self) -> str:
        """Its origin, as browsers write it."""
        return f"https://{self.host}" + ("" if self.port == 443 else f":{self.port}")

    def save(self, folder: Folder) -> None:
        """Keep them, with the accounts."""
        content = {"settings": asdict(self), "accounts": asdict(folder.accounts)}
        folder.settings.write_text(json.dumps(content))
        folder.settings.chmod(0o600)


def kept(folder: Folder) -> tuple[Settings, Folder] | None:
    """The settings that a folder keeps, and the folder with its accounts; None if Mission Control was never up."""
    try:
        content = json.loads(folder.settings.read_text())
    except FileNotFoundError:
        return None
    return parsed(content["settings"]), Folder(folder.root, Accounts(**content["accounts"]))


def parsed(values: dict[str, Any]) -> Settings:
    """Settings that were written as JSON."""
    return Settings(**{**values, "webhook_networks": tuple(values.get("webhook_networks", ()))})
