"""The variables that the roles of an image are built with."""

from pathlib import Path
from typing import Any

from deskyard.host.places import tree
from deskyard.host.progress import Timings, step
from deskyard.image.base.artifact import get_artifacts
from deskyard.image.build import gateway_bundle, npm_packages, program
from deskyard.model.image import HYGIENE_ROLE, Image
from deskyard.plan.image.image import BaseKind, image_variables
from deskyard.plan.image.package_snapshot import snapshot_variables


def ansible_variables(image: Image, kind: BaseKind, scratch: Path, timings: Timings) -> dict[str, Any]:
    """The variables by name; what they name is fetched or made first, below `scratch`."""
    variables: dict[str, Any] = {
        "image_name": image.name,
        "image_roles": [role for role in image.roles if role != HYGIENE_ROLE],
        # A bootstrapped base holds every package already, in the versions of the day it was made.
        "guest_base_refresh_packages": kind == "vendor",
        "guest_base_upgrade_packages": kind == "vendor",
        **snapshot_variables(image.base),
        **image_variables(image, tree()),
        **npm_packages.archives(image, image.base, timings),
    }
    if image.artifacts:
        variables["image_artifacts_dir"] = str(get_artifacts(image, timings))
    if image.bundle is not None:
        bundle = scratch / "bundle"
        bundle.mkdir()
        with step(f"make the {image.bundle}'s bundle", timings):
            if image.bundle == "gateway":
                gateway_bundle.build(bundle)
            else:
                program.lay_out(image.bundle, bundle)
        variables[f"{image.bundle}_bundle_dir"] = str(bundle)
    return variables
