"""Golden images: build, compare, list, make new ones, prune, publish, scan, show, sign, test, verify, warm."""

from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke import Collection, Exit

from deskyard.errors import ConfigError
from deskyard.host.places import tree
from deskyard.image import text as image_text
from deskyard.tasks.front import Changes, Unnoted, command, confirm, show

if TYPE_CHECKING:
    from deskyard.plan.warm import Template

LONG_LISTS = ("packages", "architectures", "licences", "inputs", "hygiene", "sources", "installed_kib", "npm")
WHICH = "NAME (the build of the current sources, else the newest), DIGEST or its beginning, or NAME@DIGEST"
TIER, SITE = "free", "local"
KEY = "file with the public key of whoever built it (default: your own); as minisign writes it"


@command(
    changes=Changes("image.build", shown=("name",), not_with=("explain", "dry_run")),
    positional=["name"],
    help={
        "name": "desktop, gateway or a custom image",
        "force": "build even if an image of these sources exists, from a base of today's packages",
        "explain": "only say whether it would be built and which inputs differ from those of the newest build",
        "dry_run": "only say what would be done",
        "keep": "leave the virtual machine running in which the build fails, and say how to get in and how to end it",
        "warm": "make its template for desktops of tier free on this machine, too, as image.warm does",
        "json": "print the manifest (without its long lists) as JSON; what is only said as JSON too",
    },
)
def build(
    _context: Any,
    name: str,
    force: bool = False,
    explain: bool = False,
    dry_run: bool = False,
    keep: bool = False,
    warm: bool = False,
    json: bool = False,
) -> None:
    """Build an image and test it, or find it unchanged."""
    from deskyard.image.build import build as image_build
    from deskyard.image.build.forecast import forecast

    if explain or dry_run:
        coming = forecast(name, force=force)
        show(asdict(coming), as_json=json, text=image_text.forecast(coming, changes=explain, steps=dry_run))
        return
    built = image_build.build(name, force=force, keep=keep)
    if warm:
        _make_template(name, TIER, SITE)
    summary = {key: value for key, value in built.manifest.items() if key not in LONG_LISTS}
    show({**summary, "disk": str(built.disk)}, as_json=json, text=str(built.disk))


@command(changes=Unnoted.LOOKS, name="list", help={"json": "print as JSON"})
def list_(_context: Any, json: bool = False) -> None:
    """Show every declared image, and whether it is built from the current sources."""
    from deskyard.plan.image.image import image_names

    rows = [_row(name) for name in image_names(tree())]
    lines = [
        f"{row['name']:<12}{row['version'] or '-':<10}{row['digest'] or 'not built':<20}{row['disk'] or ''}"
        + (f"  ({len(row['templates'])} templates)" if row["templates"] else "")
        for row in rows
    ]
    show(rows, as_json=json, text="\n".join([f"{'NAME':<12}{'VERSION':<10}{'DIGEST':<20}DISK", *lines]))


@command(
    changes=Unnoted.TREE,
    positional=["name"],
    help={"name": "name of the new image", "from": "the image that it starts from", "json": "print as JSON"},
)
def new(_context: Any, name: str, from_: str = "desktop", json: bool = False) -> None:
    """Make the folder of a custom image, images/NAME, with a declaration that builds as it is."""
    from deskyard.image.build import new as image_new

    folder = image_new.new(name, from_)
    show({"name": name, "folder": str(folder)}, as_json=json, text=f"{folder}/image.yaml; now ./inv image.build {name}")


@command(
    changes=Unnoted.LOOKS,
    positional=["first", "second"],
    help={
        "first": f"{WHICH}, or a folder with a build that was kept (a path with a `/`)",
        "second": "what it is compared with, named in the same way",
        "files": "compare every file on the disks, too, and say why it may differ",
        "json": "print as JSON",
    },
)
def diff(_context: Any, first: str, second: str, files: bool = False, json: bool = False) -> None:
    """Compare two built images: size, tools, Debian packages, inputs; with --files, every file."""
    from deskyard.image.store import files as image_files
    from deskyard.image.store import store
    from deskyard.plan.image import diff as image_diff
    from deskyard.plan.image.file_diff import file_changes

    builds = store.choose_or_open(first), store.choose_or_open(second)
    difference = image_diff.diff(builds[0].manifest, builds[1].manifest)
    if files:
        before, after = (image_files.list_files(built) for built in builds)
        difference = replace(difference, files=file_changes(before, after, difference.packages))
    show(asdict(difference), as_json=json, text=image_text.diff(difference))


@command(changes=Unnoted.LOOKS, positional=["name"], help={"name": WHICH, "json": "print as JSON"})
def hygiene(_context: Any, name: str, json: bool = False) -> None:
    """Show what was looked for in an image's disk before its first boot; a finding fails a build."""
    from deskyard.image.store import store

    built = store.choose(name)
    checks = built.manifest.get("hygiene")
    state = {"name": built.name, "digest": built.digest, "recorded": checks is not None, "checks": checks or []}
    show(state, as_json=json, text=image_text.hygiene(built.name, checks))


@command(changes=Unnoted.LOOKS, positional=["name"], help={"name": WHICH})
def sbom(_context: Any, name: str) -> None:
    """Print an image's bill of materials: CycloneDX 1.6, in JSON; each Debian package with its version and licences."""
    from deskyard.image.store import seal, store

    print(seal.bill_of_materials(store.choose(name)), end="")


@command(
    changes=Unnoted.LOOKS,
    positional=["name"],
    help={
        "name": WHICH,
        "data": "file of the OSV format (JSON, or a zip of it) or of Debian's security tracker; none is fetched",
        "command": "scanner that reads CycloneDX and prints it: grype, trivy, or a command line",
        "fail_on": "end with code 1 if a finding is of this severity or above: none, low, medium, high, critical",
        "vex": "write the findings to this file as CycloneDX 1.6",
        "json": "print as JSON",
    },
)
def scan(
    _context: Any, name: str, data: str = "", command: str = "", fail_on: str = "", vex: str = "", json: bool = False
) -> None:
    """Match an image's bill of materials with known vulnerabilities."""
    from deskyard.image.store import scan as image_scan
    from deskyard.image.store import store
    from deskyard.plan.vulnerability.findings import SEVERITIES, at_least
    from deskyard.plan.vulnerability.vex import vex as vex_document

    if fail_on and fail_on not in SEVERITIES:
        raise ConfigError("fail-on", fail_on, "is no severity", f"choose one of: {', '.join(SEVERITIES)}")
    found = image_scan.scan(store.choose(name), Path(data) if data else None, command or None)
    if vex:
        Path(vex).write_text(vex_document(found.bom, found.findings, datetime.fromisoformat(found.scanned_at)))
    state = {key: value for key, value in asdict(found).items() if key != "bom"}
    show(state, as_json=json, text=image_text.scan(found))
    if fail_on and at_least(found.findings, fail_on):
        raise Exit(code=1)


@command(changes=Unnoted.LOOKS, name="show", positional=["name"], help={"name": WHICH, "json": "print as JSON"})
def show_(_context: Any, name: str, json: bool = False) -> None:
    """Show what a built image costs: its size and that of its packages, its boot, its memory when idle."""
    from deskyard.image.store import store
    from deskyard.plan.image import facts

    found = facts.facts(store.choose(name).manifest)
    show(asdict(found), as_json=json, text=image_text.facts(found))


@command(
    changes=Changes("image.sign", shown=("name",)), positional=["name"], help={"name": WHICH, "json": "print as JSON"}
)
def sign(_context: Any, name: str, json: bool = False) -> None:
    """Sign an image that was built before images were signed, or with another key; it gets its bill of materials."""
    from deskyard.image.store import seal, signature

    built = seal.seal_again(name)
    public = signature.public_key_file()
    state = {"name": built.name, "digest": built.digest, "public_key": str(public)}
    show(state, as_json=json, text=f"{built.name}@{built.digest} is signed; whoever is given it needs {public}")


@command(
    changes=Unnoted.LOOKS,
    positional=["name"],
    help={
        "name": WHICH,
        "key": KEY,
        "json": "print as JSON",
    },
)
def verify(_context: Any, name: str, key: str = "", json: bool = False) -> None:
    """Check an image's signature, manifest, disk and bill of materials against each other; code 1 if one is wrong."""
    from deskyard.image.store import seal

    found = seal.verify(name, Path(key) if key else None)
    show({**asdict(found), "passed": found.passed}, as_json=json, text=image_text.verification(found))
    if not found.passed:
        raise Exit(code=1)


@command(
    changes=Unnoted.LOOKS,
    positional=["name"],
    help={
        "name": "desktop, gateway or a custom image",
        "keep": "leave the virtual machine running if the image fails, and say how to get in and how to end it",
        "json": "print as JSON",
    },
)
def test(_context: Any, name: str, keep: bool = False, json: bool = False) -> None:
    """Boot a built image in a throw-away virtual machine and run the tests of its roles."""
    from deskyard.image.build import build as image_build

    verdict = image_build.test(name, keep=keep)
    state = {"name": name, "passed": True, "boot_seconds": round(verdict.boot_seconds, 1)}
    show(state, as_json=json, text=f"image {name} passes its tests")


@command(
    changes=Changes("image.publish", shown=("name", "site")),
    positional=["name"],
    help={
        "name": "desktop, gateway or a custom image",
        "site": "a site with backend proxmox",
        "key": KEY,
        "dry_run": "only say what would be made and removed",
        "json": "print JSON",
    },
)
def publish(_context: Any, name: str, site: str, key: str = "", dry_run: bool = False, json: bool = False) -> None:
    """Bring a built, signed image into a Proxmox VE cluster as a template; what is there already is left alone."""
    from deskyard.image.publish import publish as image_publish
    from deskyard.site.files import read_site

    key_file = Path(key) if key else None
    done = image_publish.publish(name, read_site(site), key_file=key_file, dry_run=dry_run)
    show({**asdict(done), "changed": done.changed}, as_json=json, text=image_text.publication(done))


@command(
    changes=Changes("image.warm", shown=("name", "tier", "site")),
    positional=["name"],
    help={
        "name": "image of desktops: desktop or a custom one, built from the current sources",
        "tier": "the size of the desktops that are to start from it",
        "site": "a site with backend libvirt",
        "remove": "delete the image's templates instead, of every size; desktops stay as they are",
        "json": "print JSON",
    },
)
def warm(
    _context: Any, name: str, tier: str = TIER, site: str = SITE, remove: bool = False, json: bool = False
) -> None:
    """Make the template of an image: a desktop, booted once and kept with its memory, from which new ones start."""
    from deskyard.image import warm as image_warm

    if remove:
        gone = [template.name for template in image_warm.remove(name)]
        show({"removed": gone}, as_json=json, text="\n".join(f"removed {name}" for name in gone) or "nothing to remove")
        return
    ready = _make_template(name, tier, site)
    show(image_warm.row(ready), as_json=json, text=image_warm.text(ready))


@command(
    changes=Changes("image.prune", shown=("image",)),
    help={
        "image": "this image alone; all images without it",
        "keep": "so many builds of each image stay, the newest; that of the current sources always does",
        "dry_run": "only say what would go",
        "yes": "do not ask",
        "json": "print JSON",
    },
)
def prune(
    _context: Any, image: str = "", keep: int = 2, dry_run: bool = False, yes: bool = False, json: bool = False
) -> None:
    """Remove builds of images that newer ones took the place of, and their templates; desktops stay as they are."""
    from deskyard.image.prune import prune as image_prune

    going = image_prune(image or None, keep, dry_run=True)
    if not dry_run and (going.builds or going.templates):
        if not yes:
            question = f"{image_text.pruned(going, 'goes')}\nType yes to go on: "
            confirm("image.prune", image, "yes", question, "add --yes")
        going = image_prune(image or None, keep, dry_run=False)
    show({**asdict(going), "bytes": going.size}, as_json=json, text=image_text.pruned(going, _fate(dry_run)))


def _fate(dry_run: bool) -> str:
    return "would go" if dry_run else "is gone"


def _make_template(name: str, tier: str, site: str) -> "Template":
    from deskyard.image import warm as image_warm
    from deskyard.site.files import read_site

    return image_warm.make(name, read_site(site), tier)


def _row(name: str) -> dict[str, Any]:
    from deskyard.image import warm as image_warm
    from deskyard.image.store import store

    built = store.find(name)
    templates = [image_warm.row(template) for template in image_warm.listed(name)]
    return {
        "name": name,
        "version": built.manifest["version"] if built else None,
        "digest": built.digest if built else None,
        "disk": str(built.disk) if built else None,
        "built_at": built.manifest["built_at"] if built else None,
        "kept_builds": len(store.all_built(name)),
        "templates": templates,
    }


ns = Collection("image")
ns.add_task(build)
ns.add_task(diff)
ns.add_task(hygiene)
ns.add_task(list_, name="list")
ns.add_task(new)
ns.add_task(prune)
ns.add_task(publish)
ns.add_task(sbom)
ns.add_task(scan)
ns.add_task(show_, name="show")
ns.add_task(sign)
ns.add_task(test)
ns.add_task(verify)
ns.add_task(warm)
