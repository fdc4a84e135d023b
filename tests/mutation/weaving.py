"""Puts a mutant between the gateway and its templates, and keeps what is rendered.

`deskyard.gateway.config.render` is what every laboratory renders through; there, and nowhere in the product, the
mutant is put in.
"""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deskyard.gateway.config import render
from tests.mutation.mutants import Mutant, mutated

INJECTION = Path(__file__).with_name("injection")


def specify(folder: Path, mutant: Mutant | None) -> dict[str, str]:
    """Write down what is to be done in `folder`; the variables that every process of a laboratory is to have."""
    folder.mkdir(parents=True)
    (folder / "mutant.json").write_text(json.dumps(asdict(mutant) if mutant else None))
    # Laboratories give processes accounts of their own.
    folder.chmod(0o777)
    path = os.pathsep.join(filter(None, (str(INJECTION), os.environ.get("PYTHONPATH"))))
    return {"DESKYARD_MUTATION": str(folder), "PYTHONPATH": path}


def weave(specification: str) -> None:
    """Let this process render as `specify` wrote it down."""
    folder = Path(specification)
    fields = json.loads((folder / "mutant.json").read_text())
    mutant = Mutant(**fields) if fields else None
    original = render._render

    def rendered(template: str, **values: Any) -> str:
        text: str = original(template, **values)
        _keep(folder, template, text)
        return mutated(mutant, template, text) if mutant else text

    render._render = rendered


def rendered_texts(folder: Path) -> dict[str, set[str]]:
    """What was rendered since: template -> texts."""
    found: dict[str, set[str]] = {}
    for path in folder.glob("*.text"):
        document = json.loads(path.read_text())
        found.setdefault(document["template"], set()).add(document["text"])
    return found


def _keep(folder: Path, template: str, text: str) -> None:
    document = json.dumps({"template": template, "text": text})
    name = hashlib.sha256(document.encode()).hexdigest()[:20]
    # Whoever may not write here renders what another process has rendered.
    with suppress(PermissionError):
        fresh = folder / f"{name}.{os.getpid()}"
        fresh.write_text(document)
        fresh.replace(folder / f"{name}.text")
