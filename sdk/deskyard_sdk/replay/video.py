"""Writes a recording as a video (webm), by the program ffmpeg of this machine."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from deskyard_sdk.errors import DesktopError
from deskyard_sdk.replay.segments import Part, Segment, load

FRAMES_PER_SECOND = 5
STILL_SECONDS = 2.0
SHOWN = 500  # characters of what ffmpeg says


def write_video(
    folder: str | Path,
    to: str | Path,
    ffmpeg: str = "ffmpeg",
    frames_per_second: int = FRAMES_PER_SECOND,
    longest_still: float | None = STILL_SECONDS,
) -> Path:
    """Write the video of a folder's segments; what stands still is shown for `longest_still` at most (None: as it was).

    Takes Pillow (`deskyard-sdk[video]`) and ffmpeg with libvpx.
    """
    program = shutil.which(ffmpeg)
    if program is None:
        remedy = "install it, or give its path; deskyard_sdk.replay.write_page needs none"
        raise DesktopError("ffmpeg", ffmpeg, "is no program of this machine", remedy)
    segments = load(folder)
    # The codec halves the colours: both lengths are even.
    width, height = (max(segment.size[side] for segment in segments) + 1 & ~1 for side in (0, 1))
    path = Path(to)
    draft = path.with_name(f".{path.name}.part")
    command = [program, "-hide_banner", "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{width}x{height}", "-r", str(frames_per_second), "-i", "-", "-c:v", "libvpx", "-b:v", "2M"]
    command += ["-pix_fmt", "yuv420p", "-f", "webm", str(draft)]
    try:
        _feed(command, pictures(segments, (width, height), frames_per_second, longest_still))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def _feed(command: Sequence[str], pictures: Iterator[bytes]) -> None:
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said) as process:
            assert process.stdin is not None
            try:
                # One that ends early says why.
                with contextlib.suppress(BrokenPipeError):
                    for picture in pictures:
                        process.stdin.write(picture)
                    process.stdin.close()
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            said.seek(0)
            words = said.read().decode("utf-8", "replace").strip()[-SHOWN:]
            remedy = "give an ffmpeg that has libvpx"
            raise DesktopError("ffmpeg", command[0], f"ended with {process.returncode}: {words}", remedy)


def pictures(
    segments: Sequence[Segment], size: tuple[int, int], frames_per_second: int, longest_still: float | None
) -> Iterator[bytes]:
    """The pictures in the order and pace of the video, as red, green and blue."""
    image_module = _pillow()
    canvas: Any = image_module.new("RGB", size)
    before, shown, due = b"", 0, 0.0
    previous: float | None = None
    for segment in segments:
        canvas.paste((0, 0, 0), (0, 0, *size))
        for frame in segment.frames:
            at = segment.begin + frame.at
            gap = 0.0 if previous is None else max(0.0, at - previous)
            due += gap if longest_still is None else min(gap, longest_still)
            previous = at
            while shown < due * frames_per_second:
                yield before
                shown += 1
            for part in frame.parts:
                canvas.paste(_image(image_module, part), (part.x, part.y))
            before = canvas.tobytes()
    if before:
        yield before


def _image(image_module: Any, part: Part) -> Any:
    size = (part.width, part.height)
    if part.kind == "fill":
        return image_module.new("RGB", size, tuple(part.data))
    if part.kind == "jpeg":
        return image_module.open(BytesIO(part.data)).convert("RGB")
    return image_module.frombytes("RGB", size, part.data)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise DesktopError("video", "", "needs Pillow", "pip install 'deskyard-sdk[video]'") from error
    return Image
