"""A built image, as the components of a stack are told of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ImageSource:
    """A built image: its name, the digest of all it is made from, and where its qcow2 lies."""

    name: str
    digest: str
    disk: str
