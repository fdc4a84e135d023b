"""What the service writes is read by the SDK as it was seen, and becomes a page or a video."""

import io
import json
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deskyard_sdk import DesktopError
from deskyard_sdk.replay import load, write_page, write_video
from deskyard_sdk.replay.video import pictures
from PIL import Image, ImageChops, ImageDraw, ImageStat

from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.recording import fbs
from deskyard.computer.recording.recorder import FORM
from deskyard.computer.recording.segment import Segment
from deskyard.computer.streaming import rfb
from deskyard.computer.streaming.encodings import QUALITIES, Form, encoded, rectangle

EXACT = Form(FORM.encoding, "BGRX", None)
SIZE = (96, 64)
RED, BLUE, GREEN = (200, 30, 30), (30, 30, 200), (20, 160, 60)
# The screen at some places after each frame.
COLOURS: list[dict[tuple[int, int], tuple[int, int, int]]] = [
    {(2, 2): RED, (90, 60): RED},
    {(2, 2): RED, (90, 60): BLUE},
    {(2, 2): GREEN, (90, 60): GREEN},
    {(2, 2): GREEN, (90, 60): RED},
]
STAND_IN = """#!{python}
import sys
frames = sys.stdin.buffer.read()
open(sys.argv[-1], "w").write(f"{{len(frames)}} {{' '.join(sys.argv)}}")
"""


def update(*parts: tuple[Rectangle, Image.Image], form: Form = FORM) -> bytes:
    """An update as the recorder writes it."""
    cuts = [cut for place, image in parts for cut in encoded(image, place, form)]
    pieces = [rectangle(part, form.encoding, data) for part, data in cuts]
    return rfb.updates(len(pieces)) + b"".join(pieces)


def packed(picture: Image.Image, form: Form = FORM) -> int:
    """How many bytes a picture takes."""
    return len(update((Rectangle(0, 0, *picture.size), picture), form=form))


def record(folder: Path) -> None:
    """Two segments of two frames each: at 0 and 1 s, at 10 and 11 s; with three actions, at just these times."""
    whole, corner = Rectangle(0, 0, *SIZE), Rectangle(64, 32, 32, 32)
    click = {"actor": "agent", "kind": "click", "ok": True, "at": [[5, 6, "screen"]], "class": "Term"}
    failed = {"actor": "agent", "kind": "<b>agent", "ok": False, "error": "</script>"}
    took = {"actor": "person", "kind": "person.took", "ok": True}
    # One of a single colour, two as JPEG, and one as pixels.
    segments = {
        0: [(whole, RED, FORM), (corner, BLUE, FORM)],
        10: [(whole, GREEN, EXACT), (corner, RED, FORM)],
    }
    for begin, frames in segments.items():
        content = fbs.beginning(*SIZE)
        for second, (part, colour, form) in enumerate(frames):
            picture = Image.new("RGB", (part.width, part.height), colour)
            if begin + second:
                picture.putpixel((part.width // 2, part.height // 2), (255, 255, 255))
            content += fbs.block(update((part, picture), form=form), second * 1000)
        id = str(1_700_000_000_000 + begin * 1000)
        (folder / f"{id}.fbs").write_bytes(content)
        lines = [{"offset_ms": 1000, **action} for action in ((took,) if begin else (click, failed))]
        (folder / f"{id}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    record(tmp_path)
    return tmp_path


def test_segments_are_read_as_they_were_written(recording: Path) -> None:
    first, second = load(recording)
    assert [round(second.begin - first.begin), first.size] == [10, SIZE]
    assert [round(frame.at) for frame in (*first.frames, *second.frames)] == [0, 1, 0, 1]
    assert [action["kind"] for action in first.actions] == ["click", "<b>agent"]


@pytest.mark.parametrize("form", [FORM, EXACT], ids=["jpeg", "exact"])
@pytest.mark.parametrize("size", [(96, 64), (1, 1), (3, 1), (64, 64), (17, 200)], ids=str)
def test_any_picture_comes_out_as_it_went_in(tmp_path: Path, form: Form, size: tuple[int, int]) -> None:
    picture = Image.effect_mandelbrot(size, (-2, -1, 1, 1), 50).convert("RGB")
    segment = Segment(tmp_path, "1", size, time.time())
    segment.frame(update((Rectangle(0, 0, *size), picture), form=form))
    segment.close()
    (content,) = pictures(load(tmp_path), size, 5, None)
    found = Image.frombytes("RGB", size, content)
    worst = max(ImageStat.Stat(ImageChops.difference(found, picture)).mean)
    assert worst == 0 if form.level is None else worst < 4


# Where red, green and blue alone tell no two of them apart, a palette may be off by so much, or is not used.
FEW = {
    "two": [(255, 255, 255), (250, 255, 255)],
    "shades": [(shade, 7, 255 - shade) for shade in range(0, 250, 3)],
    "mixed": [(red, green, blue) for red in (0, 9, 200) for green in (0, 9) for blue in (0, 90)],
}


@pytest.mark.parametrize("form", [FORM, EXACT], ids=["nearly", "exact"])
@pytest.mark.parametrize("colours", list(FEW))
@pytest.mark.parametrize("size", [(17, 200), (64, 64), (3, 5), (8, 1)], ids=str)
def test_few_colours_come_out_as_they_went_in_and_take_few_bytes(
    tmp_path: Path, form: Form, colours: str, size: tuple[int, int]
) -> None:
    random = Random(repr((colours, size)))
    picture = Image.new("RGB", size)
    picture.putdata([random.choice(FEW[colours]) for _ in range(size[0] * size[1])])
    segment = Segment(tmp_path, "1", size, time.time())
    segment.frame(update((Rectangle(0, 0, *size), picture), form=form))
    segment.close()
    (content,) = pictures(load(tmp_path), size, 5, None)
    differs = ImageChops.difference(Image.frombytes("RGB", size, content), picture).getextrema()
    exactly = colours != "mixed" or form is EXACT
    assert all(worst <= (0 if exactly else 4) for _, worst in differs)  # type: ignore[misc]
    if size[0] * size[1] > 1000:
        assert packed(picture, form) < size[0] * size[1] * (
            0.3 if colours == "two" else 1.2 if exactly and colours != "mixed" else 3
        )


def written(size: tuple[int, int]) -> Image.Image:
    """Text on white."""
    text = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(text)
    for line in range(0, size[1], 13):
        pen.text((0, line), "The quick brown fox jumps over the lazy dog. " * 4, fill="black")
    return text


def jpeg(picture: Image.Image) -> int:
    """How many bytes a picture takes as JPEG."""
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=QUALITIES[6])
    return out.tell()


def test_text_takes_less_as_a_palette_than_as_jpeg() -> None:
    text = written((320, 200))
    assert packed(text) * 3 < jpeg(text)


@pytest.mark.parametrize("form", [FORM, EXACT], ids=["jpeg", "exact"])
@pytest.mark.parametrize("place", [(0, 0), (500, 330), (610, 7)], ids=str)
def test_photograph_leaves_the_text_around_it_sharp(tmp_path: Path, form: Form, place: tuple[int, int]) -> None:
    picture = written((640, 400))
    grey = Image.linear_gradient("L").resize((30, 60))
    picture.paste(Image.merge("RGB", (grey, grey.rotate(90), grey.rotate(180))), place)
    segment = Segment(tmp_path, "1", picture.size, time.time())
    segment.frame(update((Rectangle(0, 0, *picture.size), picture), form=form))
    segment.close()
    (content,) = pictures(load(tmp_path), picture.size, 5, None)
    found = Image.frombytes("RGB", picture.size, content)
    differs = ImageChops.difference(found, picture)
    # Only in the squares that the photograph touches, but for what a palette may be off by.
    for top in range(0, picture.height, 64):
        for left in range(0, picture.width, 64):
            beside = left + 64 <= place[0] or left >= place[0] + 30 or top + 64 <= place[1] or top >= place[1] + 60
            square = differs.crop((left, top, left + 64, top + 64))
            worst = max(most for _, most in square.getextrema())  # type: ignore[misc]
            assert worst <= (0 if form is EXACT else 4 if beside else 255), (left, top)
    assert packed(picture) * 5 < jpeg(picture)


def test_photograph_stays_whole() -> None:
    shades = [Image.linear_gradient("L").resize((640, 400)).rotate(turn) for turn in (0, 90, 180)]
    picture = Image.merge("RGB", [ImageChops.add(shade, Image.effect_noise((640, 400), 60)) for shade in shades])
    assert packed(picture) < jpeg(picture) + 50


def test_video_has_each_state_and_no_long_stillness(recording: Path) -> None:
    shown = list(pictures(load(recording), SIZE, 5, 2.0))
    # 1 s, then 2 of the 9 s that stood still, then 1 s, and the last one.
    assert len(shown) == 5 + 10 + 5 + 1
    for number, frame in ((0, 0), (5, 1), (15, 2), (20, 3)):
        picture = Image.frombytes("RGB", SIZE, shown[number])
        for at, colour in COLOURS[frame].items():
            assert all(abs(a - b) <= 6 for a, b in zip(picture.getpixel(at), colour, strict=True))  # type: ignore[arg-type]
    assert len(list(pictures(load(recording), SIZE, 5, None))) == 56


def test_video_is_made_by_the_ffmpeg_that_is_named(recording: Path, tmp_path: Path) -> None:
    program = tmp_path / "stand-in"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    made = write_video(recording, tmp_path / "out.webm", str(program))
    length, *command = made.read_text().split()
    assert int(length) == 21 * SIZE[0] * SIZE[1] * 3
    assert {"-s", "96x64", "libvpx", "webm"} <= set(command)
    program.write_text("#!/bin/sh\necho no such codec >&2\nexit 3\n")
    with pytest.raises(DesktopError, match="ended with 3: no such codec"):
        write_video(recording, tmp_path / "other.webm", str(program))
    assert sorted(path.name for path in tmp_path.glob("*.webm*")) == ["out.webm"]


def test_missing_ffmpeg_is_named_with_what_to_do(recording: Path) -> None:
    with pytest.raises(DesktopError, match="is no program of this machine\n  -> install it"):
        write_video(recording, recording / "out.webm", "no-such-ffmpeg")


def test_page_runs_its_own_script_alone_and_holds_what_a_desktop_says_as_text(recording: Path) -> None:
    text = write_page(recording, recording / "page.html").read_text()
    assert "\\u003c/script>" in text and text.count("</script>") == 2
    assert "http://" not in text and "https://" not in text
    assert "script-src 'sha256-" in text


def test_what_is_half_there_is_left_out_and_what_is_no_recording_refused(recording: Path, tmp_path: Path) -> None:
    (newest,) = [path for path in sorted(recording.glob("*.fbs"))][-1:]
    newest.write_bytes(newest.read_bytes()[:-3])
    assert len(load(recording)[-1].frames) == 1
    newest.write_bytes(b"something else")
    with pytest.raises(DesktopError, match="does not begin with FBS"):
        load(recording)
    with pytest.raises(DesktopError, match="holds no recording"):
        load(tmp_path / "nowhere")


def test_command_writes_the_page(recording: Path) -> None:
    command = [sys.executable, "-m", "deskyard_sdk.replay", str(recording), "--page", str(recording / "page.html")]
    environment: dict[str, Any] = {"PYTHONPATH": str(Path(__file__).resolve().parents[3] / "sdk")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "<canvas" in (recording / "page.html").read_text()
