"""Pulumi without an engine: every resource is noted, outputs are made up."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pulumi.runtime import mocks, stack


@dataclass
class Recorder(mocks.Mocks):
    """Notes type, name and inputs of every resource."""

    graph: list[dict[str, Any]] = field(default_factory=list)

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        """Note it; outputs get values that name where they come from."""
        inputs = {key: value for key, value in args.inputs.items() if value is not None}
        self.graph.append({"type": args.typ, "name": args.name, "inputs": inputs})
        made_up = {key: f"<{args.name}.{key}>" for key in ("path", "uuid", "console_log", "host_key")}
        return f"{args.name}-id", {**made_up, **inputs}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        """No component calls a function."""
        raise AssertionError(f"unexpected call of {args.token}")

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """Inputs by name of all resources of `deskyard:libvirt:<kind>`."""
        return {
            resource["name"]: resource["inputs"]
            for resource in self.graph
            if resource["type"] == f"deskyard:libvirt:{kind}"
        }


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Fresh mocks and a fresh event loop per test."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    recorder = Recorder()
    mocks.set_mocks(recorder, project="deskyard", stack="lab", preview=False)
    yield recorder
    loop.close()


def run(program: Callable[[], object]) -> None:
    """Run a program to its end, all outputs resolved."""

    async def started() -> None:
        program()

    asyncio.get_event_loop().run_until_complete(stack.run_pulumi_func(started))
