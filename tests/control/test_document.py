"""The OpenAPI documents as others read them: spectral with OWASP's rules, and two generators of clients."""

import copy
import json
import subprocess
from pathlib import Path

import pytest

from deskyard.lab import api_changes
from tests.support.npm import install
from tests.support.requirements import need_programs

RULES = Path(__file__).parent / "spectral"
CLIENTS = Path(__file__).parent / "clients"
SDK = Path(__file__).resolve().parents[2] / "sdk"


@pytest.mark.deep
def test_spectral_finds_nothing_and_would_find_what_is_not_bounded(tmp_path: Path) -> None:
    need_programs("npm", "node")
    install(RULES, tmp_path)
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


@pytest.mark.deep
def test_clients_of_two_generators_compile_and_refuse_what_is_wrong(tmp_path: Path) -> None:
    need_programs("npm", "node")
    install(CLIENTS, tmp_path)

    def run(*argv: str) -> "subprocess.CompletedProcess[str]":
        argv = (f"node_modules/.bin/{argv[0]}", *argv[1:])
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    for name in ("mission", "openapi"):
        document = str(SDK / f"{name}.json")
        # What has a default may be left out of a request.
        types = run("openapi-typescript", document, "--default-non-nullable", "false", "-o", f"types/{name}.d.ts")
        assert types.returncode == 0, types.stderr
        client = run("openapi-ts", "-i", document, "-o", f"client/{name}", "-c", "@hey-api/client-fetch")
        assert client.returncode == 0, client.stdout + client.stderr
    assert (compiled := run("tsc", "-p", ".")).returncode == 0, compiled.stdout
    # A document without what programs use makes clients that do not compile.
    weaker = json.loads((SDK / "mission.json").read_text())
    del weaker["paths"]["/api/desktops"]["post"]
    (tmp_path / "weaker.json").write_text(json.dumps(weaker))
    assert run("openapi-typescript", "weaker.json", "-o", "types/mission.d.ts").returncode == 0
    assert "use.ts" in run("tsc", "-p", ".").stdout
