"""Known vulnerabilities of an image as a CycloneDX document of its own that refers to the bill of materials."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.impact_analysis import ImpactAnalysisState
from cyclonedx.model.tool import ToolRepository
from cyclonedx.model.vulnerability import (
    BomTarget,
    Vulnerability,
    VulnerabilityAnalysis,
    VulnerabilityRating,
    VulnerabilitySeverity,
)
from cyclonedx.output.json import JsonV1Dot6

from deskyard.plan.vulnerability import Finding


def vex(bom: Mapping[str, Any], findings: Iterable[Finding], scanned_at: datetime) -> str:
    """The findings as CycloneDX 1.6; whether one of them can be exploited in the image was looked into by nobody."""
    by_id = groupby(sorted(findings, key=lambda one: (one.id, one.ref)), key=lambda one: one.id)
    document = Bom(
        serial_number=uuid5(NAMESPACE_URL, f"{bom['serialNumber']}#{scanned_at.isoformat()}"),
        vulnerabilities=[_vulnerability(bom, identity, list(group)) for identity, group in by_id],
        metadata=BomMetaData(
            timestamp=scanned_at,
            tools=ToolRepository(components=[Component(type=ComponentType.APPLICATION, name="deskyard")]),
        ),
    )
    return JsonV1Dot6(document).output_as_string(indent=2) + "\n"


def _vulnerability(bom: Mapping[str, Any], identity: str, found: list[Finding]) -> Vulnerability:
    serial = str(bom["serialNumber"]).removeprefix("urn:uuid:")
    fixed = sorted({f"{one.package} {one.fixed}" for one in found if one.fixed})
    return Vulnerability(
        bom_ref=BomRef(identity),
        id=identity,
        description=found[0].summary or None,
        recommendation=f"Update to {', '.join(fixed)}" if fixed else None,
        ratings=[VulnerabilityRating(severity=VulnerabilitySeverity(found[0].severity))],
        analysis=VulnerabilityAnalysis(state=ImpactAnalysisState.IN_TRIAGE),
        affects=[BomTarget(ref=f"urn:cdx:{serial}/{bom.get('version', 1)}#{one.ref}") for one in found],
    )
