"""Networks and network filters."""

from collections.abc import Mapping
from typing import Any, ClassVar
from xml.etree import ElementTree

from deskyard.site.libvirt import documents
from deskyard.site.libvirt.kinds.inputs import FilterInputs, NetworkInputs
from deskyard.site.libvirt.link import gone_is_fine
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values


class NetworkKind(Kind[NetworkInputs]):
    """`deskyard:libvirt:Network`: a bridge, with NAT if the host has an address on it."""

    replaces: ClassVar[frozenset[str]] = frozenset({"name", "bridge", "cidr", "host_address"})
    desired: ClassVar[Values] = {"active": True}
    computed: ClassVar[tuple[str, ...]] = ("active",)

    def create(self, link: Any, inputs: NetworkInputs) -> tuple[str, Values]:
        """Define and start it; one that an interrupted run left is defined anew."""
        for network in link.listAllNetworks():
            if network.name() == inputs["name"]:
                _remove(network)
        xml = documents.network(inputs["name"], inputs["bridge"], inputs["cidr"], inputs.get("host_address") or None)
        network = link.networkDefineXML(xml)
        network.setAutostart(True)
        network.create()
        return inputs["name"], {"active": True}

    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """Whether it is there and active, its bridge, and the host's address on it."""
        found = None
        with gone_is_fine():
            found = link.networkLookupByName(identity)
        if found is None:
            return None
        root = ElementTree.fromstring(found.XMLDesc(0))
        bridge, ip = root.find("bridge"), root.find("ip")
        return {
            **state,
            "bridge": bridge.get("name") if bridge is not None else None,
            "host_address": ip.get("address") if ip is not None else None,
            "active": bool(found.isActive()),
        }

    def update(self, link: Any, identity: str, state: Values, inputs: NetworkInputs) -> Values:
        """Start it again."""
        network = link.networkLookupByName(identity)
        if not network.isActive():
            network.create()
        return {"active": True}

    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Stop and forget it."""
        with gone_is_fine():
            _remove(link.networkLookupByName(identity))


class FilterKind(Kind[FilterInputs]):
    """`deskyard:libvirt:Filter`: what a NIC may send, enforced by the host."""

    replaces: ClassVar[frozenset[str]] = frozenset({"name"})

    def create(self, link: Any, inputs: FilterInputs) -> tuple[str, Values]:
        """Define it; rules that an interrupted run left are written anew."""
        if self.read(link, inputs["name"], dict(inputs)) is None:
            link.nwfilterDefineXML(_document(inputs["kind"], inputs))
        else:
            self.update(link, inputs["name"], dict(inputs), inputs)
        return inputs["name"], {}

    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """Whether it is there, and which kind its rules make it."""
        found = None
        with gone_is_fine():
            found = link.nwfilterLookupByName(identity)
        if found is None:
            return None
        return {**state, "kind": _kind_of(found.XMLDesc(0), state)}

    def update(self, link: Any, identity: str, state: Values, inputs: FilterInputs) -> Values:
        """Write the rules anew; libvirt applies them to running machines at once."""
        uuid = link.nwfilterLookupByName(identity).UUIDString()
        link.nwfilterDefineXML(_document(inputs["kind"], inputs, uuid))
        return {}

    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Forget it."""
        with gone_is_fine():
            link.nwfilterLookupByName(identity).undefine()


KINDS = ("desktop", "desktop-peers", "gateway")


def _document(kind: str, values: Mapping[str, Any], uuid: str | None = None) -> str:
    """The XML of a filter; a state of before a filter knew its gateway makes rules that no running one has."""
    if kind == "gateway":
        return documents.gateway_filter(values["name"], uuid)
    return documents.desktop_filter(
        values["name"],
        values.get("gateway_mac") or "",
        values.get("gateway_address") or "",
        peers=kind == "desktop-peers",
        uuid=uuid,
    )


def _remove(network: Any) -> None:
    if network.isActive():
        network.destroy()
    network.undefine()


def _kind_of(xml: str, state: Values) -> str:
    """The kind whose rules these are; `altered` if somebody changed them."""
    found = _rules(xml)
    for kind in KINDS:
        if _rules(_document(kind, state)) == found:
            return kind
    return "altered"


def _rules(xml: str) -> list[str]:
    """Rules and references in one form, whatever libvirt adds when it writes them."""
    rules = []
    for element in ElementTree.fromstring(xml):
        if element.tag == "filterref":
            rules.append(f"filterref {element.get('filter')}")
        elif element.tag == "rule":
            inner = " ".join(f"{child.tag} {sorted(child.attrib.items())}" for child in element)
            rules.append(f"rule {element.get('action')} {element.get('direction')} {element.get('priority')} {inner}")
    return sorted(rules)
