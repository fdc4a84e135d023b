"""The resource that every backend has, typed for programs."""

from collections.abc import Mapping
from typing import Any, TypedDict

import pulumi


class SettingsInputs(TypedDict):
    """The settings that every gateway is told, and whose it is."""

    site: str
    workspace: str
    domain_name: str
    settings: dict[str, Any]
    certificate: Mapping[str, str] | None


class GatewaySettings(pulumi.CustomResource):
    """The settings and certificate of a running gateway; a change of `machine` makes a new gateway get them again."""

    host_key: pulumi.Output[str]
    certificate_expires: pulumi.Output[str]
    link_key: pulumi.Output[str]

    def __init__(
        self,
        prefix: str,
        resource_name: str,
        machine: Mapping[str, pulumi.Input[Any]],
        inputs: SettingsInputs,
        opts: pulumi.ResourceOptions,
    ) -> None:
        outputs = {"host_key": None, "certificate_expires": None, "link_key": None}
        super().__init__(f"{prefix}GatewaySettings", resource_name, {**inputs, **machine, **outputs}, opts)
