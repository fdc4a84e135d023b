"""Composes the collections of deskyard/tasks."""

from invoke import Collection

from deskyard.tasks import toolchain

ns = Collection()
for module in (toolchain,):
    ns.add_collection(module.ns)
