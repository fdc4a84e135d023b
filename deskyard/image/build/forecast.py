"""Says whether an image would be built anew, why, and what a build would do; touches nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deskyard.host.places import tree
from deskyard.image.base.base_disk import VARIABLE, base_choice
from deskyard.image.store.signature import secret_key_file
from deskyard.image.store.store import BuiltImage, all_built, find_of, image_folder
from deskyard.model.image import HYGIENE_ROLE, CustomImage, Image
from deskyard.model.image_base import Base
from deskyard.plan.image.diff import InputChange, input_changes
from deskyard.plan.image.image import BaseChoice, base_kinds, kinds_of
from deskyard.plan.image.lineage import Lineage, read_lineage
from deskyard.plan.image.suites import suite_folders

VENDOR, BOOTSTRAP = "get the vendor's cloud image", "bootstrap the base disk from packages"


@dataclass(frozen=True)
class Forecast:
    """The forecast of `image.build`: `steps` if it builds, and the `changes` since the build it is compared with."""

    name: str
    rebuild: bool
    reason: str
    compared_with: str | None
    changes: tuple[InputChange, ...]
    steps: tuple[str, ...]


def forecast(name: str, *, force: bool = False) -> Forecast:
    """Forecast what a build of `name` would do now, and why."""
    return _forecast(read_lineage(tree(), name), force=force)


def _forecast(lineage: Lineage, *, force: bool = False) -> Forecast:
    name, now, built = lineage.image.name, lineage.inputs, find_of(lineage)
    if built is not None and not force:
        reason = f"build {built.digest} is made from these very sources"
        return Forecast(name, False, reason, built.digest, (), ())
    suite_folders(lineage.image, tree())
    steps = tuple(_steps(lineage))
    if built is not None:
        reason = f"build {built.digest} is made from these very sources, but a new one is asked for"
        return Forecast(name, True, reason, built.digest, (), steps)
    newest = next(iter(all_built(name)), None)
    if newest is None:
        return Forecast(name, True, "it was never built here", None, (), steps)
    changes = input_changes(newest.manifest["inputs"], now) if "inputs" in newest.manifest else ()
    return Forecast(name, True, _reason(newest, now, changes), newest.digest, changes, steps)


def _reason(built: BuiltImage, now: Mapping[str, str], changes: tuple[InputChange, ...]) -> str:
    build = f"build {built.digest} of {built.manifest['built_at']}"
    reasons = []
    base = built.manifest["base"]["kind"]
    if base not in base_kinds(base_choice()):
        reasons.append(f"{VARIABLE} asks for the base disk {base_choice()}, {build} has {base}")
    if "inputs" not in built.manifest:
        reasons.append(f"{build} was built before inputs were recorded, so what differs is not known")
    elif changes:
        reasons.append(f"{len(changes)} of {len(now)} inputs differ from those of {build}")
    return "; ".join(reasons) or f"the way digests are made is another than that of {build}"


def _steps(lineage: Lineage) -> Iterator[str]:
    image, parent = lineage.image, lineage.parent
    if isinstance(image, Image):
        yield from _own_steps(image)
    else:
        assert parent is not None
        yield from _custom_steps(image, _forecast(parent))
    yield "boot the image and run its tests"
    yield "compress the disk"
    yield f"write its bill of materials and its manifest, and sign them with {secret_key_file()}"
    kinds = kinds_of(lineage.root.base, base_choice())
    folders = [image_folder(image.name, lineage.digest(kind)) for kind in kinds]
    yield f"keep it as {' or '.join(map(str, folders))}"


def _own_steps(image: Image) -> Iterator[str]:
    yield from _base_steps(image.base, base_choice())
    for artifact in image.artifacts:
        yield f"get {artifact.name} {artifact.version}"
    if image.bundle == "gateway":
        yield "make the gateway's bundle"
    yield f"build with Packer: {', '.join(image.roles)}"


def _base_steps(base: Base, choice: BaseChoice) -> Iterator[str]:
    kinds = kinds_of(base, choice)
    vendor = f"{VENDOR} {base.vendor.url}"
    if len(kinds) == 1:
        yield BOOTSTRAP if kinds == ("bootstrap",) else vendor
    else:
        yield f"{vendor} if its server answers, else {BOOTSTRAP}"
    if base.snapshot:
        yield f"take packages as they were on {base.snapshot}; the image's own sources are today's"


def _custom_steps(image: CustomImage, parent: Forecast) -> Iterator[str]:
    if parent.rebuild:
        yield f"build image {parent.name} first: {parent.reason}"
        yield from (f"(image {parent.name}) {step}" for step in parent.steps)
    yield f"start from the disk of image {image.parent}" + ("" if parent.rebuild else f" {parent.compared_with}")
    packages = f"packages {', '.join(image.packages)}" if image.packages else ""
    files = f"files of images/{image.name}/{image.files}" if image.files else ""
    roles = ", ".join((*image.roles, HYGIENE_ROLE))
    yield f"build with Packer: {', then '.join(part for part in (packages, files, roles) if part)}"
