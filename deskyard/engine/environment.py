"""The environment that Pulumi's engine runs in."""

import os
import secrets
import sys
from pathlib import Path

from deskyard.engine.backend import backend_of
from deskyard.host.lock import alone
from deskyard.host.places import places, tree
from deskyard.host.secret_file import make_folder, write_secret
from deskyard.model.site import Site

PASSPHRASE_VARIABLES = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")


def environment(site: Site) -> dict[str, str]:
    """The variables that Pulumi needs: backend, passphrase, the provider on PATH; no questions, no updates."""
    set_up = {
        "PATH": f"{tree() / 'stacks' / 'provider'}{os.pathsep}{os.environ.get('PATH', '')}",
        # The provider runs with the Python that runs us, wherever the stacks folder lies.
        "DESKYARD_PYTHON": sys.executable,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        **backend_of(site).engine_environment(),
    }
    if not os.environ.get("PULUMI_BACKEND_URL"):
        backend = places().pulumi / "backend"
        make_folder(backend)
        set_up["PULUMI_BACKEND_URL"] = f"file://{backend}"
    if not any(variable in os.environ for variable in PASSPHRASE_VARIABLES):
        set_up["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(_passphrase_file())
    return set_up


def _passphrase_file() -> Path:
    path = places().state / "passphrase"
    with alone("passphrase"):
        if not path.exists():
            write_secret(path, secrets.token_urlsafe(32).encode())
    return path
