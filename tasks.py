"""Composes the collections of deskyard/tasks."""

from invoke import Collection

from deskyard.tasks import (
    access,
    agent,
    bench,
    check,
    control,
    desktop,
    docs,
    egress,
    entry,
    host,
    image,
    release,
    site,
    toolchain,
    workspace,
)
from deskyard.tasks.clients import e2b
from deskyard.tasks.life import backup, care, pool, snapshot

ns = Collection()
entry.add_to(ns)
for module in (
    access,
    agent,
    backup,
    bench,
    care,
    check,
    control,
    desktop,
    docs,
    e2b,
    egress,
    host,
    image,
    pool,
    release,
    site,
    snapshot,
    toolchain,
    workspace,
):
    ns.add_collection(module.ns)
