"""A base: the disk that an image starts from, and what its distribution has otherwise than others."""

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from deskyard.errors import ConfigError
from deskyard.model.base import Declaration

Distribution = Literal["debian-13", "ubuntu-22.04", "ubuntu-24.04"]
SUITES: dict[Distribution, str] = {"debian-13": "trixie", "ubuntu-22.04": "jammy", "ubuntu-24.04": "noble"}
MOVING = re.compile(r"/(latest|current|release)/")
DATED = re.compile(r"(?<!\d)(20\d{2})(\d{2})(\d{2})(?!\d)")

BaseName = Annotated[
    str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", description="A file of images/bases, without `.yaml`.")
]
Snapshot = Annotated[
    date,
    Field(
        description="Build from the distribution's packages as they were on this day (UTC, at 00:00); today's if left "
        "out. The image's own package sources stay the ordinary ones."
    ),
]


class VendorBase(Declaration):
    """A cloud image of the distribution."""

    url: str = Field(pattern=r"^https://", description="Where the qcow2 is; a dated build, never `latest`.")
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$", description="Its checksum, as Ubuntu publishes it.")
    sha512: str | None = Field(None, pattern=r"^[0-9a-f]{128}$", description="Its checksum, as Debian publishes it.")

    @model_validator(mode="after")
    def _is_pinned(self) -> Self:
        if MOVING.search(self.url):
            raise ValueError("the vendor image is not pinned -> write the URL of a dated build")
        if (self.sha256 is None) == (self.sha512 is None):
            raise ValueError(
                "the vendor image has no checksum, or two -> write sha256 or sha512 as the vendor's signed "
                "SHA256SUMS or SHA512SUMS tells it (docs/images.md)"
            )
        return self

    @property
    def algorithm(self) -> str:
        """How its checksum is made."""
        return "sha256" if self.sha256 else "sha512"

    @property
    def checksum(self) -> str:
        """The checksum of the vendor's image."""
        return self.sha256 or self.sha512 or ""

    def made_on(self) -> date | None:
        """The day of the build, as its URL tells."""
        try:
            found = DATED.search(self.url)
            return date(*map(int, found.groups())) if found else None
        except ValueError:
            return None


class BootstrapBase(Declaration):
    """A disk bootstrapped from the distribution's packages, where vendor images cannot be had."""

    suite: str = Field(pattern=r"^[a-z]+$", description="Debian suite.")
    mirror: str = Field(pattern=r"^https?://", description="Debian mirror.")
    packages: tuple[str, ...] = Field(min_length=1, description="What makes it a bootable cloud guest.")


class DistributionBase(Declaration):
    """`images/bases/<name>.yaml`: a release of a distribution, as far as images start from it."""

    distribution: Distribution = Field("debian-13", description="The distribution and its release.")
    vendor: VendorBase = Field(description="The vendor's cloud image.")
    from_packages: BootstrapBase | None = Field(
        None, alias="bootstrap", description="What to make it from where the vendor's cannot be had; Debian's alone."
    )
    variables: dict[str, Any] = Field(
        {}, description="What roles need otherwise on this distribution; an image's own variables count more."
    )
    refused: dict[str, dict[str, str]] = Field(
        {}, description="Choices of roles that this distribution has not: variable, value, and why."
    )

    @model_validator(mode="after")
    def _can_be_bootstrapped(self) -> Self:
        if self.from_packages and not self.distribution.startswith("debian"):
            raise ValueError("only Debian is bootstrapped -> leave bootstrap out")
        return self

    @property
    def bootstrap(self) -> BootstrapBase:
        """The source of a bootstrap; raises `ConfigError` if it cannot be."""
        if self.from_packages is None:
            raise self.without_bootstrap()
        return self.from_packages

    def without_bootstrap(self) -> ConfigError:
        """The refusal of what only a bootstrapped base could do."""
        reason = f"cannot be bootstrapped: its base has the vendor's image alone, {self.vendor.url}"
        remedy = "build where the vendor's server can be reached, with DESKYARD_BASE=auto or vendor"
        return ConfigError("base", self.distribution, reason, remedy)

    @property
    def suite(self) -> str:
        """The code name of the release."""
        return self.from_packages.suite if self.from_packages else SUITES[self.distribution]


class NamedBase(Declaration):
    """A base of images/bases, by its name."""

    name: BaseName
    snapshot: Snapshot | None = None


class Base(DistributionBase):
    """The disk a build starts from: the vendor's, else a bootstrapped one."""

    name: BaseName | None = None
    snapshot: Snapshot | None = None

    @model_validator(mode="after")
    def _snapshot_can_be(self) -> Self:
        if self.snapshot is None:
            return self
        if self.snapshot > datetime.now(UTC).date():
            raise ValueError(f"snapshot {self.snapshot} lies in the future -> write a day that is over")
        day = self.vendor.made_on()
        if day and self.snapshot < day:
            raise ValueError(
                f"snapshot {self.snapshot} is older than the vendor's image, which has packages of {day} -> "
                f"write {day} or later, or name an older vendor image"
            )
        return self
