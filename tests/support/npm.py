"""Programs of Node with the packages that a lock names."""

import json
import shutil
import subprocess
from pathlib import Path


def install(source: Path, folder: Path) -> None:
    """Copy a folder, and install what its lock names; no install script runs."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    subprocess.run(npm, cwd=folder, check=True, capture_output=True, timeout=600)


def run(folder: Path, program: str, said: object, environment: dict[str, str] | None = None) -> str:
    """What a program in such a folder printed, which must end well and hears `said` on its standard input as JSON."""
    done = subprocess.run(
        ["node", program],
        cwd=folder,
        env=environment,
        input=json.dumps(said),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{program}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()
