"""Gets programs that no package holds: the pinned release, else built from source in a chroot of the image's suite."""

import hashlib
import json
import shlex
import tempfile
from pathlib import Path

from deskyard.model.image import Artifact, Image
from deskyard.run.bootstrap import install_packages
from deskyard.run.download import fetch, is_reachable
from deskyard.run.places import places, tree
from deskyard.run.progress import Timings, say, step


def get_artifacts(image: Image, timings: Timings) -> Path:
    """The folder that holds the image's artifacts, each under its name."""
    recipes = [(tree() / "images" / image.name / artifact.source.recipe) for artifact in image.artifacts]
    key = json.dumps([image.base.bootstrap.suite, *(artifact.model_dump() for artifact in image.artifacts)])
    state = hashlib.sha256(key.encode())
    for recipe in recipes:
        state.update(recipe.read_bytes())
    folder = places().cache / "artifacts" / state.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    for artifact, recipe in zip(image.artifacts, recipes, strict=True):
        destination = folder / artifact.name
        if not destination.is_file():
            with step(f"get {artifact.name} {artifact.version}", timings):
                _get(image, artifact, recipe, destination)
    return folder


def _get(image: Image, artifact: Artifact, recipe: Path, destination: Path) -> None:
    if is_reachable(artifact.release.url):
        fetch(artifact.release.url, destination, algorithm="sha256", checksum=artifact.release.sha256)
    else:
        say(f"    {artifact.release.url} cannot be reached: building {artifact.name} from source")
        _build(image, artifact, recipe, destination)
    destination.chmod(0o755)


def _build(image: Image, artifact: Artifact, recipe: Path, destination: Path) -> None:
    """Build in a chroot, so that the program fits the image's libraries and the compiler stays out of the image."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=destination.parent) as made:
        scratch = Path(made)
        source = scratch / "source.tar"
        fetch(artifact.source.url, source, algorithm="sha256", checksum=artifact.source.sha256)
        script = scratch / "build.sh"
        script.write_text(
            "set -eu\nmkdir /tmp/source\n"
            "tar -x --strip-components=1 -C /tmp/source -f /tmp/source.tar\ncd /tmp/source\n"
            "sh -eu /tmp/recipe.sh /tmp/program\n"
        )
        hooks = [
            f'cp {shlex.quote(str(source))} "$1/tmp/source.tar"',
            f'cp {shlex.quote(str(recipe))} "$1/tmp/recipe.sh"',
            f'chroot "$1" sh -s < {shlex.quote(str(script))}',
            f"download /tmp/program {shlex.quote(str(scratch / 'program'))}",
        ]
        install_packages(image.base.bootstrap, artifact.source.packages, Path("-"), hooks=hooks)
        (scratch / "program").replace(destination)
