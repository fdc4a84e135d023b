"""An image: what a golden disk is made of."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from deskyard.model.base import Declaration, DnsLabel
from deskyard.model.image_base import Base, NamedBase

HYGIENE_ROLE = "image_hygiene"
VARIABLES = "Variables of its roles, as meta/argument_specs.yml documents them. No secrets."

RoleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", description="A folder of ansible/roles.")]
PackageName = Annotated[
    str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]+$", description="A package of the distribution, without a version.")
]
# A name is looked up where the file is read; for editors either form is right.
AnyBase = Annotated[Base, BeforeValidator(lambda value: value, json_schema_input_type=Base | NamedBase)]
FolderName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", description="A folder beside image.yaml.")]


class ReleaseFile(Declaration):
    """A file of a project's release."""

    url: str = Field(pattern=r"^https?://", description="Where it is.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="Its checksum.")


class SourceRelease(ReleaseFile):
    """A source tarball, for machines that cannot reach the release; built in a chroot of the image's suite."""

    packages: tuple[str, ...] = Field(description="Debian packages that the build needs.")
    recipe: str = Field(
        pattern=r"^[a-z0-9_.-]+$",
        description="Script beside image.yaml; runs in the unpacked source and leaves the program at $1.",
    )


class Artifact(Declaration):
    """A program that no package of the distribution holds."""

    name: DnsLabel = Field(description="Name of the program.")
    version: str = Field(description="Its version.")
    release: ReleaseFile = Field(description="The project's own binary.")
    source: SourceRelease | None = Field(
        None, description="What to build it from where the binary cannot be had; with a base that is bootstrapped."
    )


class Image(Declaration):
    """`images/<name>/image.yaml` of an image that starts from a distribution."""

    name: DnsLabel = Field(description="Name of the image: the name of its folder.")
    version: str = Field(pattern=r"^\d+\.\d+\.\d+$", description="Version, three numbers.")
    description: str = Field(description="What the image is, one sentence.")
    architecture: Literal["x86_64"] = Field("x86_64", description="CPU architecture.")
    disk_gib: int = Field(ge=3, le=40, description="Size of the disk, GiB; a desktop's disk grows to its tier's.")
    base: AnyBase = Field(description="What the build starts from: a base of images/bases by its name, or one's own.")
    roles: tuple[RoleName, ...] = Field(
        min_length=1, description=f"Ansible roles, in order; {HYGIENE_ROLE} is the last."
    )
    variables: dict[str, Any] = Field({}, description=VARIABLES)
    artifacts: tuple[Artifact, ...] = Field((), description="Programs that no package holds.")
    bundle: Literal["gateway", "computer"] | None = Field(
        None,
        description="What of Deskyard itself the roles are handed: gateway, the gateway's service and its viewer, "
        "or computer, the computer-use service of desktops.",
    )
    sources: tuple[str, ...] = Field((), description="Folders of the tree that the image also depends on.")
    carries_deskyard: bool = Field(
        False,
        description="Whether the roles are handed Deskyard itself: the sources, their Python environment, the pages.",
    )

    @model_validator(mode="after")
    def _ends_clean(self) -> Self:
        if self.roles[-1] != HYGIENE_ROLE:
            raise ValueError(f"the last role is not {HYGIENE_ROLE} -> add it at the end of roles")
        if len(set(self.roles)) != len(self.roles):
            raise ValueError("a role is named twice -> name each role once")
        return self


class CustomImage(Declaration):
    """`images/<name>/image.yaml` of an image that starts from another image and adds to it."""

    name: DnsLabel = Field(description="Name of the image: the name of its folder.")
    version: str = Field(pattern=r"^\d+\.\d+\.\d+$", description="Version, three numbers.")
    description: str = Field(description="What the image is, one sentence.")
    parent: DnsLabel = Field(
        alias="from", description="The image that this one starts from: desktop, or another custom image."
    )
    disk_gib: int | None = Field(
        None, ge=3, le=40, description="Size of the disk, GiB; that of the image it starts from, or larger."
    )
    packages: tuple[PackageName, ...] = Field((), description="Debian packages to install.")
    files: FolderName | None = Field(
        None, description="Folder beside image.yaml whose content is copied to /, owned by root."
    )
    roles: tuple[RoleName, ...] = Field(
        (),
        description="Ansible roles, in order, after packages and files: folders of roles/ beside image.yaml or of "
        f"ansible/roles. {HYGIENE_ROLE} runs at the end by itself.",
    )
    variables: dict[str, Any] = Field({}, description=VARIABLES)

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        if HYGIENE_ROLE in self.roles:
            raise ValueError(f"{HYGIENE_ROLE} runs at the end of every image by itself -> take it out of roles")
        for key, names in (("role", self.roles), ("package", self.packages)):
            if len(set(names)) != len(names):
                raise ValueError(f"a {key} is named twice -> name each {key} once")
        if self.parent == self.name:
            raise ValueError("the image starts from itself -> write from: desktop")
        return self


AnyImage = Image | CustomImage
