"""The provider: hands each request of Pulumi's engine to the kind of resource that it names."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar

from pulumi.provider.experimental import provider as protocol

from deskyard.errors import DeskyardError
from deskyard.site.resource.cancellation import CANCELLATION
from deskyard.site.resource.kind import Backend, Kind
from deskyard.site.resource.values import Unknown, Values, to_pulumi, to_python

T = TypeVar("T")
VERSION = "0.1.0"


class DeskyardProvider(protocol.Provider):
    """Resources of hypervisors: `deskyard:<backend>:<kind>`."""

    def __init__(self) -> None:
        self._backends: dict[str, Backend] = {}

    async def get_schema(self, request: protocol.GetSchemaRequest) -> protocol.GetSchemaResponse:
        """The least Pulumi accepts: the typed classes are in stacks.<backend>.resources."""
        return protocol.GetSchemaResponse(json.dumps({"name": "deskyard", "version": VERSION}))

    async def check(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        """Refuse what cannot be had before anything is touched."""
        old, new = to_python(request.old_inputs), to_python(request.new_inputs)
        failures = [protocol.CheckFailure(*failure) for failure in self._kind(request.type).check(old, new)]
        return protocol.CheckResponse(inputs=request.new_inputs, failures=failures)

    async def diff(self, request: protocol.DiffRequest) -> protocol.DiffResponse:
        """Compare what was last seen with what is wanted."""
        kind = self._kind(request.type)
        state, inputs = to_python(request.old_state), to_python(request.new_inputs)
        changed = changes(kind, state, inputs, request.ignore_changes)
        replaces = kind.needs_replacement(state, inputs, changed)
        return protocol.DiffResponse(
            changes=bool(changed),
            replaces=replaces,
            # A name belongs to one thing at a time.
            delete_before_replace=True,
            diffs=changed,
            detailed_diff={key: _difference(key in replaces, key in inputs) for key in changed},
        )

    async def create(self, request: protocol.CreateRequest) -> protocol.CreateResponse:
        """Make it."""
        (backend, kind), inputs = self._find(request.type), to_python(request.properties)
        if request.preview:
            unknown = {key: Unknown() for key in kind.computed}
            return protocol.CreateResponse(properties=to_pulumi({**inputs, **unknown}))
        identity, outputs = await self._do(backend, lambda: kind.create(backend.open(), inputs))
        return protocol.CreateResponse(identity, to_pulumi({**inputs, **outputs}))

    async def read(self, request: protocol.ReadRequest) -> protocol.ReadResponse:
        """Look what is there."""
        (backend, kind), state = self._find(request.type), to_python(request.properties)
        found = await self._do(backend, lambda: kind.read(backend.open(), request.resource_id, state))
        if found is None:
            return protocol.ReadResponse(resource_id="")
        return protocol.ReadResponse(request.resource_id, to_pulumi(found), request.inputs)

    async def update(self, request: protocol.UpdateRequest) -> protocol.UpdateResponse:
        """Change it in place."""
        backend, kind = self._find(request.type)
        state, inputs = to_python(request.olds), to_python(request.news)
        if request.preview:
            known = {key: state.get(key) for key in kind.computed}
            return protocol.UpdateResponse(to_pulumi({**inputs, **known}))
        outputs = await self._do(backend, lambda: kind.update(backend.open(), request.resource_id, state, inputs))
        return protocol.UpdateResponse(to_pulumi({**inputs, **outputs}))

    async def delete(self, request: protocol.DeleteRequest) -> None:
        """Remove it."""
        (backend, kind), state = self._find(request.type), to_python(request.properties)
        await self._do(backend, lambda: kind.delete(backend.open(), request.resource_id, state))

    async def cancel(self) -> None:
        """End what waits."""
        CANCELLATION.cancel()

    def _kind(self, token: str) -> Kind[Any]:
        return self._find(token)[1]

    def _find(self, token: str) -> tuple[Backend, Kind[Any]]:
        # A resource inside a component has the component's type before its own: a$b$deskyard:libvirt:Domain.
        _, name, kind = token.rpartition("$")[2].split(":")
        if name not in self._backends:
            self._backends[name] = BACKENDS[name]()
        backend = self._backends[name]
        return backend, backend.kinds[kind]

    async def _do(self, backend: Backend, work: Callable[[], T]) -> T:
        expected: tuple[type[Exception], ...] = (DeskyardError, OSError, *backend.errors)
        try:
            return await asyncio.to_thread(work)
        except expected as error:
            raise RuntimeError(str(error)) from None


def _libvirt() -> Backend:
    from deskyard.site.libvirt.kinds.backend import LibvirtBackend

    return LibvirtBackend()


def _proxmox() -> Backend:
    from deskyard.site.proxmox.kinds.backend import ClusterBackend

    return ClusterBackend()


# Imported late: a workspace is on one of them, and the engine starts us for each of its steps.
BACKENDS = {"libvirt": _libvirt, "proxmox": _proxmox}


def changes(kind: Kind[Any], state: Values, inputs: Values, ignore: list[str]) -> list[str]:
    """Names of the properties that differ, drift of outputs included."""
    keys = [key for key in kind_inputs(kind, state, inputs) if key not in ignore and key not in kind.ignored]
    changed = [key for key in keys if state.get(key) != inputs.get(key)]
    return changed + [key for key in kind.stale(state) if key not in changed]


def kind_inputs(kind: Kind[Any], state: Values, inputs: Values) -> list[str]:
    """All inputs, of before and of now."""
    names = {key for key in {*state, *inputs} if key not in kind.computed and not key.startswith("__")}
    return sorted(names)


def _difference(replace: bool, is_input: bool) -> protocol.PropertyDiff:
    kind = protocol.PropertyDiffKind.UPDATE_REPLACE if replace else protocol.PropertyDiffKind.UPDATE
    return protocol.PropertyDiff(kind, is_input)
