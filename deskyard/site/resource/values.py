"""Plain Python values to and from Pulumi's property values."""

from collections.abc import Mapping
from typing import Any

from pulumi.provider.experimental.property_value import Computed, PropertyValue
from pulumi.runtime.rpc import UNKNOWN

Values = dict[str, Any]


class Unknown:
    """A value that is known only after another resource is made; equal to nothing, not even to itself."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return False


def to_python(properties: Mapping[str, PropertyValue]) -> Values:
    """Turn what Pulumi sent into plain values; whole numbers become `int`."""
    return {key: _plain(value) for key, value in properties.items()}


def to_pulumi(values: Values) -> dict[str, PropertyValue]:
    """Plain values for Pulumi."""
    return {key: _property(value) for key, value in values.items()}


def _plain(value: PropertyValue) -> Any:
    inner = value.value
    # The engine sends this text for what is not known yet; the SDK's class for it cannot be sent back.
    if isinstance(inner, Computed) or inner == UNKNOWN:
        return Unknown()
    if isinstance(inner, float) and not isinstance(inner, bool):
        return int(inner) if inner.is_integer() else inner
    if isinstance(inner, Mapping):
        return {key: _plain(item) for key, item in inner.items()}
    if isinstance(inner, tuple):
        return [_plain(item) for item in inner]
    return inner


def _property(value: Any) -> PropertyValue:
    if isinstance(value, Unknown):
        return PropertyValue(UNKNOWN)
    if isinstance(value, int) and not isinstance(value, bool):
        return PropertyValue(float(value))
    if isinstance(value, Mapping):
        return PropertyValue({key: _property(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return PropertyValue([_property(item) for item in value])
    return PropertyValue(value)
