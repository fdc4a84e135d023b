"""An image with what it starts from and what they are made of, read once and handed on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deskyard.model.image import AnyImage, Image
from deskyard.plan.image.image import BaseKind, ancestry
from deskyard.plan.image.inputs import digest_of, inputs


@dataclass(frozen=True)
class Lineage:
    """An image, the lineage of the one that it starts from, and its inputs: all as the tree had them at one moment."""

    image: AnyImage
    parent: "Lineage | None"
    inputs: dict[str, str]

    @property
    def root(self) -> Image:
        """The image in it that starts from a distribution."""
        if self.parent is not None:
            return self.parent.root
        assert isinstance(self.image, Image)
        return self.image

    def digest(self, kind: BaseKind) -> str:
        """Stand for everything in the tree that decides what is in the image: the same digest, the same sources.

        Two builds of one digest may differ in what the tree does not hold: the packages that a mirror has on that day
        (an image with a snapshot has those of a day), the accelerator and the processor's model, which depend on the
        machine, and the versions of QEMU and Packer. A manifest names them.
        """
        return digest_of(self.image.name, kind, self.inputs)


def read_lineage(tree: Path, name: str) -> Lineage:
    """The lineage of image `name`; raises `ConfigError` if there is none, or it or what it starts from is wrong."""
    return _lineage(ancestry(tree, name), tree)


def _lineage(images: Sequence[AnyImage], tree: Path) -> Lineage:
    parent = _lineage(images[1:], tree) if len(images) > 1 else None
    return Lineage(images[0], parent, inputs(images[0], tree, parent.inputs if parent else {}))
