"""The software bill of materials of a built image: CycloneDX, made from its manifest alone.

The same manifest makes the same text. It names every Debian package, the programs that are in none of them, and the npm
packages that the gateway's viewer was bundled from, unless the image was built before those were recorded.
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseAcknowledgement
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.spdx import is_supported_id
from packageurl import PackageURL

# Every image that was built before its manifest named the distribution.
FIRST_DISTRIBUTION = {"id": "debian", "version": "13"}


def sbom(manifest: Mapping[str, Any]) -> str:
    """The bill of materials of the image that `manifest` describes, CycloneDX 1.6 in JSON."""
    image = _image(manifest)
    components = [*_packages(manifest), *_artifacts(manifest), *_npm_packages(manifest)]
    identity = f"deskyard:{manifest['name']}@{manifest['digest']}#{manifest['sha256']}"
    bom = Bom(
        serial_number=uuid5(NAMESPACE_URL, identity),
        components=components,
        metadata=BomMetaData(
            timestamp=datetime.fromisoformat(manifest["built_at"]),
            component=image,
            tools=ToolRepository(components=[_tool(manifest)]),
        ),
    )
    bom.register_dependency(image, components)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _image(manifest: Mapping[str, Any]) -> Component:
    return Component(
        type=ComponentType.OPERATING_SYSTEM,
        bom_ref=f"{manifest['name']}@{manifest['digest']}",
        name=manifest["name"],
        version=manifest["version"],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=manifest["sha256"])],
        properties=[Property(name="deskyard:digest", value=manifest["digest"])],
    )


def _tool(manifest: Mapping[str, Any]) -> Component:
    return Component(
        type=ComponentType.APPLICATION, name="deskyard", version=manifest["git_commit"], bom_ref="deskyard"
    )


def _packages(manifest: Mapping[str, Any]) -> Iterator[Component]:
    distribution = manifest.get("distribution", FIRST_DISTRIBUTION)
    architectures, licences = manifest.get("architectures", {}), manifest.get("licences", {})
    sources = manifest.get("sources", {})
    for name, version in manifest["packages"].items():
        qualifiers = {"distro": f"{distribution['id']}-{distribution['version']}"}
        if name in architectures:
            qualifiers["arch"] = architectures[name]
        if name in sources:
            qualifiers["upstream"] = _upstream(version, **sources[name])
        purl = PackageURL("deb", distribution["id"], name, version, qualifiers)
        yield Component(
            bom_ref=purl.to_string(),
            name=name,
            version=version,
            purl=purl,
            licenses=[_licence(licence) for licence in licences.get(name, ())],
        )


def _upstream(package_version: str, name: str, version: str) -> str:
    """The source of a package as scanners read it: vulnerabilities of Debian are those of sources."""
    return name if version == package_version else f"{name}@{version}"


def _licence(name: str) -> DisjunctiveLicense:
    """Read what a package's copyright file names; its words are SPDX identifiers by chance only."""
    is_listed = is_supported_id(name)
    return DisjunctiveLicense(
        id=name if is_listed else None,
        name=None if is_listed else name,
        acknowledgement=LicenseAcknowledgement.DECLARED,
    )


def _artifacts(manifest: Mapping[str, Any]) -> Iterator[Component]:
    for name, version in manifest.get("artifacts", {}).items():
        purl = PackageURL("generic", None, name, version)
        yield Component(type=ComponentType.APPLICATION, bom_ref=purl.to_string(), name=name, version=version, purl=purl)


def _npm_packages(manifest: Mapping[str, Any]) -> Iterator[Component]:
    for package in manifest.get("npm", {}).values():
        namespace, _, name = package["name"].rpartition("/")
        purl = PackageURL("npm", namespace or None, name, package["version"])
        yield Component(
            bom_ref=purl.to_string(),
            group=namespace or None,
            name=name,
            version=package["version"],
            purl=purl,
            licenses=[_licence(package["license"])] if "license" in package else [],
            hashes=list(_integrity(package.get("integrity", ""))),
        )


def _integrity(text: str) -> Iterator[HashType]:
    """npm's checksum: an algorithm and a sum in base64."""
    algorithm, _, encoded = text.partition("-")
    if algorithm == "sha512":
        yield HashType(alg=HashAlgorithm.SHA_512, content=b64decode(encoded).hex())
