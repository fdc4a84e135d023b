"""Gets programs that no package holds: the pinned release, else built from source in a chroot of the image's suite."""

import hashlib
import json
import shlex
import tempfile
from pathlib import Path

from deskyard.host.download import fetch, is_reachable
from deskyard.host.places import places, tree
from deskyard.host.progress import Timings, say, step
from deskyard.image.base.bootstrap import install_packages
from deskyard.model.image import Artifact, Image, SourceRelease
from deskyard.plan.image.package_snapshot import snapshot_sources


def get_artifacts(image: Image, timings: Timings) -> Path:
    """The folder that holds the image's artifacts, each under its name."""
    past = snapshot_sources(image.base, signed=False)
    key = json.dumps([image.base.suite, *(artifact.model_dump() for artifact in image.artifacts), *past])
    state = hashlib.sha256(key.encode())
    for artifact in image.artifacts:
        if artifact.source:
            state.update(_recipe(image, artifact.source).read_bytes())
    folder = places().cache / "artifacts" / state.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    for artifact in image.artifacts:
        destination = folder / artifact.name
        if not destination.is_file():
            with step(f"get {artifact.name} {artifact.version}", timings):
                _get(image, artifact, destination)
    return folder


def _recipe(image: Image, source: SourceRelease) -> Path:
    return tree() / "images" / image.name / source.recipe


def _get(image: Image, artifact: Artifact, destination: Path) -> None:
    if artifact.source is None or is_reachable(artifact.release.url):
        fetch(artifact.release.url, destination, algorithm="sha256", checksum=artifact.release.sha256)
    else:
        say(f"    {artifact.release.url} cannot be reached: building {artifact.name} from source")
        _build(image, artifact.source, destination)
    destination.chmod(0o755)


def _build(image: Image, release: SourceRelease, destination: Path) -> None:
    """Build in a chroot, so that the program fits the image's libraries and the compiler stays out of the image."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=destination.parent) as folder:
        scratch = Path(folder)
        source = scratch / "source.tar"
        fetch(release.url, source, algorithm="sha256", checksum=release.sha256)
        script = scratch / "build.sh"
        script.write_text(
            "set -eu\nmkdir /tmp/source\n"
            "tar -x --strip-components=1 -C /tmp/source -f /tmp/source.tar\ncd /tmp/source\n"
            "sh -eu /tmp/recipe.sh /tmp/program\n"
        )
        hooks = [
            f'cp {shlex.quote(str(source))} "$1/tmp/source.tar"',
            f'cp {shlex.quote(str(_recipe(image, release)))} "$1/tmp/recipe.sh"',
            f'chroot "$1" sh -s < {shlex.quote(str(script))}',
            f"download /tmp/program {shlex.quote(str(scratch / 'program'))}",
        ]
        past = snapshot_sources(image.base, signed=False)
        install_packages(image.base.bootstrap, release.packages, Path("-"), hooks=hooks, past=past)
        (scratch / "program").replace(destination)
