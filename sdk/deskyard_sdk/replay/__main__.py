"""`python -m deskyard_sdk.replay FOLDER` writes a recording as a page, or as a video."""

import argparse
import sys

from deskyard_sdk.errors import DesktopError
from deskyard_sdk.replay.page import write_page
from deskyard_sdk.replay.video import write_video


def main() -> int:
    """Write what is asked for."""
    about = "Writes what desktop.recordings.download fetched as a page for a browser, or as a video."
    parser = argparse.ArgumentParser(prog="python -m deskyard_sdk.replay", description=about)
    parser.add_argument("folder", help="with the files of the recording")
    parser.add_argument("--page", metavar="FILE", help="write a page that plays it (html)")
    parser.add_argument("--video", metavar="FILE", help="write a video (webm)")
    parser.add_argument("--ffmpeg", default="ffmpeg", help="the program that makes videos (default: %(default)s)")
    options = parser.parse_args()
    if not (options.page or options.video):
        parser.error("give --page or --video")
    try:
        if options.page:
            print(write_page(options.folder, options.page))
        if options.video:
            print(write_video(options.folder, options.video, options.ffmpeg))
    except (DesktopError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
