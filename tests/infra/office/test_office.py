"""The office: each part turns a document into a PDF, without a screen."""

import pytest
from testinfra.host import Host

CONVERT = """
set -eu
cd "$(mktemp -d)"
profile="-env:UserInstallation=file://$PWD/profile"
convert() { soffice --headless --norestore "$profile" --convert-to "$2" "document.$1" >&2; }
printf '%s\\n' "$1" >"document.$2"
convert "$2" "$3"
convert "$3" pdf
head -c 5 document.pdf
rm -rf "$PWD"
"""
SLIDE = (
    '<?xml version="1.0" encoding="UTF-8"?><office:document office:version="1.3"'
    ' xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    ' office:mimetype="application/vnd.oasis.opendocument.presentation">'
    '<office:body><office:presentation><draw:page draw:name="one"/></office:presentation></office:body>'
    "</office:document>"
)


@pytest.mark.parametrize(
    ("text", "kind", "by_way_of"),
    [("A letter.", "txt", "odt"), ("a,b\n1,2", "csv", "ods"), (SLIDE, "fodp", "odp")],
    ids=["Writer", "Calc", "Impress"],
)
def test_document_becomes_a_pdf(host: Host, text: str, kind: str, by_way_of: str) -> None:
    made = host.run("sudo -H -u agent sh -c %s sh %s %s %s", CONVERT, text, kind, by_way_of)
    assert made.stdout == "%PDF-", made.stderr


@pytest.mark.parametrize("part", ["writer", "calc", "impress"])
def test_part_is_in_the_menu(host: Host, part: str) -> None:
    assert host.file(f"/usr/share/applications/libreoffice-{part}.desktop").exists


def test_first_start_asks_and_tells_nothing(host: Host) -> None:
    settings = host.file("/usr/lib/libreoffice/share/registry/deskyard.xcd").content_string
    assert 'oor:name="FirstRun"><value>false' in settings
    assert 'oor:name="ShowTipOfTheDay"><value>false' in settings
