"""The OpenAPI document as spectral reads it, with OWASP's rules; its ruleset says what is left out, and why."""

import copy
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from deskyard.lab import api_changes
from tests.support.requirements import need_programs

RULES = Path(__file__).parent / "spectral"


@pytest.mark.deep
def test_spectral_finds_nothing_and_would_find_what_is_not_bounded(tmp_path: Path) -> None:
    need_programs("npm", "node")
    for name in ("package.json", "package-lock.json", "ruleset.yaml"):
        shutil.copy(RULES / name, tmp_path / name)
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    subprocess.run(npm, cwd=tmp_path, check=True, capture_output=True, timeout=600)
    document = api_changes.document()

    def found(changed: object) -> str:
        (tmp_path / "document.json").write_text(json.dumps(changed))
        argv = ["node_modules/.bin/spectral", "lint", "--quiet", "--fail-severity=warn", "-r", "ruleset.yaml"]
        done = subprocess.run(
            [*argv, "document.json"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode == 0) == (not done.stdout), done.stderr
        return done.stdout

    assert found(document) == ""
    weaker = copy.deepcopy(document)
    del weaker["components"]["schemas"]["Said"]["properties"]["message"]["maxLength"]
    del weaker["paths"]["/api/desktops"]["post"]["security"]
    said = found(weaker)
    assert "taken-text-is-bounded" in said and "write-restricted" in said
