"""Texts about images for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deskyard.image.build.forecast import Forecast
    from deskyard.image.prune import Pruned
    from deskyard.image.publish.publish import Publication
    from deskyard.image.store.scan import Scan
    from deskyard.image.store.seal import Verification
    from deskyard.plan.image.diff import ImageDiff, InputChange
    from deskyard.plan.image.difference import Difference
    from deskyard.plan.image.facts import ImageFacts
    from deskyard.plan.image.file_diff import FileChange

# A person reads no more; whoever does takes JSON.
MOST_FILES = 60


def pruned(done: Pruned, word: str) -> str:
    """A line for each build and template, and what they take together; `word` says whether they are gone."""
    lines = [
        f"{build['name']}@{build['digest']}  built {build['built_at']}, {build['bytes'] >> 20} MiB: {word}"
        for build in done.builds
    ]
    lines += [f"template {name}: {word}" for name in done.templates]
    return "\n".join([*lines, f"{done.size >> 20} MiB"]) if lines else "nothing to remove"


def forecast(coming: Forecast, *, changes: bool, steps: bool) -> str:
    """Whether an image would be built and why; what changed, what would be done."""
    lines = [f"image {coming.name} would {'' if coming.rebuild else 'not '}be built: {coming.reason}"]
    if changes:
        lines += _changes(coming.changes)
    if steps:
        lines += [f"  would {step}" for step in coming.steps]
    return "\n".join(lines)


def diff(difference: ImageDiff) -> str:
    """How two builds differ, one section for each kind of thing."""
    lines = [f"{difference.first} -> {difference.second}", _size(difference)]
    lines += _section("facts", difference.facts)
    lines += _section("tools", difference.tools)
    lines += _section("packages", difference.packages)
    if difference.inputs is None:
        lines.append("inputs: not recorded by both builds")
    else:
        lines += [f"inputs: {len(difference.inputs) or 'none'} differ", *_changes(difference.inputs)]
    return "\n".join([*lines, *_files(difference.files)])


def _files(files: tuple[FileChange, ...] | None) -> list[str]:
    """Each file that differs for no known reason, then how many do for each of those that are known."""
    if files is None:
        return []
    unknown = [file for file in files if not file.reason]
    reasons = f"{len(unknown)} of them for no known reason" if unknown else "each for a known reason"
    lines = [f"files: {len(files)} differ, {reasons}" if files else "files: none differ"]
    lines += [f"  {file.change:<12}{file.path}  {_bytes(file)}" for file in unknown[:MOST_FILES]]
    if len(unknown) > MOST_FILES:
        lines.append(f"  and {len(unknown) - MOST_FILES} more: --json tells all")
    counted = Counter(file.reason for file in files if file.reason)
    return lines + [f"  {count:>6}  {reason}" for reason, count in counted.most_common()]


def _bytes(change: FileChange) -> str:
    before, after = change.size_bytes
    return f"{before} bytes" if before == after else f"{before} -> {after} bytes"


def _size(difference: ImageDiff) -> str:
    if difference.same_disk:
        return "disk: the same, byte for byte"
    before, after = (size / (1 << 20) for size in difference.size_bytes)
    return f"disk: {before:.1f} MiB -> {after:.1f} MiB ({after - before:+.1f} MiB)"


def _section(title: str, difference: Difference) -> list[str]:
    lines = [f"{title}: {len(difference) or 'none'} differ"]
    lines += [f"  added       {name} {value}" for name, value in difference.added.items()]
    lines += [f"  removed     {name} {value}" for name, value in difference.removed.items()]
    lines += [f"  changed     {name} {old} -> {new}" for name, (old, new) in difference.changed.items()]
    return lines


def _changes(changes: tuple[InputChange, ...]) -> list[str]:
    return [f"  {change.change:<12}{change.kind:<24}{change.path}" for change in changes]


def publication(done: Publication) -> str:
    """Write what publishing did, or would do."""
    would = "would be " if done.dry_run else ""
    lines = [f"{done.image} {done.digest}"]
    lines += [f"  {node}: template {vmid}" for node, vmid in done.templates.items()]
    lines += [f"  {would}made on {node}" for node in done.made]
    lines += [f"  {would}removed: {what}" for what in done.removed]
    lines += [f"  kept, since clones need it: {what}" for what in done.kept_in_use]
    return "\n".join(lines if done.changed else [*lines, "  nothing to do"])


def facts(found: ImageFacts) -> str:
    """Write what an image costs; what was not recorded when it was built is called so."""
    lines = [
        f"{found.name}@{found.digest} {found.version}, built {found.built_at} on a {found.base} base"
        f" with {found.accelerator}, commit {found.git_commit or 'unknown'}",
        f"  disk      {found.size_bytes / (1 << 20):.1f} MiB, compressed",
        f"  packages  {found.packages}, {_mib(found.installed_kib)} installed",
        *_boot(found),
    ]
    lines += ["  largest packages:"] if found.largest_packages else []
    for package, kib in (found.largest_packages or {}).items():
        lines.append(f"    {kib / 1024:8.1f} MiB  {package}")
    if found.unknown:
        lines.append(f"  not recorded when it was built: {', '.join(found.unknown)}")
    return "\n".join(lines)


def _mib(kib: int | None) -> str:
    return "unknown MiB" if kib is None else f"{kib / 1024:.1f} MiB"


def _boot(found: ImageFacts) -> list[str]:
    ssh = "unknown" if found.ssh_seconds is None else f"{found.ssh_seconds:.1f} s"
    if not found.boot:
        return [f"  boot      SSH after {ssh}"]
    boot = found.boot
    phases = " + ".join(f"{name} {seconds:.1f} s" for name, seconds in boot["phases"].items())
    memory, frame = boot["idle_memory_mib"], boot.get("first_frame_seconds")
    shown = "" if frame is None else f"first frame {frame:.1f} s after the kernel's start; "
    return [
        f"  boot      SSH after {ssh}; {shown}{phases or 'phases unknown'}; systemd says {boot['state']}",
        f"  memory    {'unknown' if memory is None else memory} MiB used when idle",
        "  critical chain:",
        *(f"    {line}" for line in boot["critical_chain"]),
        "  slowest units:",
        *(f"    {seconds:8.1f} s    {unit}" for unit, seconds in boot["slowest_units"].items()),
    ]


def scan(found: Scan) -> str:
    """Write what is known of an image's vulnerabilities, and by what; nothing known is not nothing there."""
    from deskyard.plan.vulnerability.findings import SEVERITIES

    counts = Counter(finding.severity for finding in found.findings)
    tally = ", ".join(f"{counts[severity]} {severity}" for severity in (*reversed(SEVERITIES), "unknown"))
    lines = [
        f"{found.name}@{found.digest}: {len(found.findings)} known vulnerabilities in {found.components} packages",
        f"  data      {found.data}",
        f"  of        {found.data_date}",
        f"  severity  {tally}",
        *(f"  note      {remark}" for remark in found.remarks),
    ]
    rows = [
        (str(finding.severity), finding.id, finding.package, finding.version, finding.fixed or "-", finding.summary)
        for finding in found.findings
    ]
    if rows:
        rows.insert(0, ("SEVERITY", "ID", "PACKAGE", "VERSION", "FIXED IN", "SUMMARY"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)] if rows else []
    for *cells, summary in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{line}  {summary[:60]}".rstrip())
    return "\n".join(lines)


def hygiene(name: str, checks: list[dict[str, Any]] | None) -> str:
    """Write what was looked for in a disk before its first boot, and that nothing of it was there."""
    if checks is None:
        return f"{name}: not known, it was built before hygiene was recorded; ./inv image.test {name} checks it"
    lines = [f"{name}, before its first boot:"]
    for check in checks:
        verdict = f"FOUND {', '.join(check['found'])}" if check["found"] else "none"
        lines.append(f"  {check['what']:<30}{verdict:<6}{', '.join(check['places'])}")
    lines.append("  What role image_hygiene removed before is not recorded: it removes without looking.")
    return "\n".join(lines)


def verification(found: Verification) -> str:
    """Write what was checked, part by part."""
    from deskyard.image.store.seal import PARTS

    verdict = "is what was signed" if found.passed else "is NOT what was signed"
    lines = [f"{found.name}@{found.digest} {verdict} with key {found.key}"]
    lines += [f"  {part:<12}{found.faults.get(part, 'ok')}" for part in PARTS]
    if not found.passed:
        lines.append(f"  -> do not use it: run ./inv image.build {found.name} --force, or get it anew from its builder")
    return "\n".join(lines)
