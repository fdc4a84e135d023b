"""The frame of a stream: its picture, the pointer above it, and for each tile the number of its last change."""

import threading
from collections.abc import Iterator

from PIL import Image, ImageChops

from deskyard.computer.display.pixels import Pointer
from deskyard.computer.display.spaces import Rectangle

TILE = 64
WIDEST = 2048 // TILE  # tiles: what a rectangle of Tight may be wide


class Frame:
    """A picture that changes; written by one thread, read by others. The number grows with each change."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.number = 0
        self.place = Rectangle(0, 0, 0, 0)  # on the screen
        self._picture = Image.new("RGB", (1, 1))
        self._pointer: Pointer | None = None
        self._marks: list[list[int]] = []
        self._changed = False

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.place.width, self.place.height

    def move(self, place: Rectangle) -> None:
        """Show another place of the screen; of another size it begins anew, in black."""
        with self.lock:
            if (place.width, place.height) != self.size:
                self._picture = Image.new("RGB", (place.width, place.height))
                columns, rows = (-(-length // TILE) for length in (place.width, place.height))
                self._marks = [[self.number + 1] * columns for _ in range(rows)]
                self._changed = True
            elif place != self.place and self._pointer:
                # What is shown stays as it was; the pointer is somewhere else in it.
                self._mark(_within(self._pointer.place, self.place))
                self._mark(_within(self._pointer.place, place))
            self.place = place

    def paste(self, image: Image.Image, part: Rectangle) -> None:
        """Show this in that part (in pixels of the frame); what is as it was counts as no change."""
        box = (part.x, part.y, part.x + part.width, part.y + part.height)
        differs = ImageChops.difference(self._picture.crop(box), image).getbbox()
        if differs:
            left, top, right, bottom = differs
            with self.lock:
                self._picture.paste(image, box)
                self._mark(Rectangle(part.x + left, part.y + top, right - left, bottom - top))

    def point(self, pointer: Pointer | None) -> None:
        """Show the pointer where it is now."""
        before = self._pointer
        if (
            (before.place, before.serial) != (pointer.place, pointer.serial)
            if before and pointer
            else before != pointer
        ):
            with self.lock:
                self._pointer = pointer
                for shown in (before, pointer):
                    if shown:
                        self._mark(_within(shown.place, self.place))

    def commit(self, *, anew: bool = False) -> bool:
        """Make what changed since the last time the frame of the next number, `anew` also nothing; whether it is."""
        with self.lock:
            changed, self._changed = self._changed or anew, False
            self.number += changed
            return changed

    def _mark(self, part: Rectangle) -> None:
        part = part.within(*self.size)
        if part.width and part.height:
            self._changed = True
            for row in range(part.y // TILE, (part.y + part.height - 1) // TILE + 1):
                for column in range(part.x // TILE, (part.x + part.width - 1) // TILE + 1):
                    self._marks[row][column] = self.number + 1

    def since(self, number: int, size: tuple[int, int]) -> list[tuple[Rectangle, Image.Image]]:
        """The rectangles that changed after that number, in a frame cut to `size`. Only with the lock held."""
        width, height = min(size[0], self.place.width), min(size[1], self.place.height)
        parts = (part.within(width, height) for part in self._parts(number))
        return [(part, self._shown(part)) for part in parts if part.width and part.height]

    def _parts(self, number: int) -> Iterator[Rectangle]:
        """The changed tiles, joined along their rows, and equal rows below each other."""
        open_runs: dict[tuple[int, int], int] = {}
        for row, marks in enumerate([*self._marks, []]):
            runs = set(_runs(marks, number))
            for run in [run for run in open_runs if run not in runs]:
                top, (left, right) = open_runs.pop(run), run
                yield Rectangle(left * TILE, top * TILE, (right - left) * TILE, (row - top) * TILE)
            for run in runs:
                open_runs.setdefault(run, row)

    def _shown(self, part: Rectangle) -> Image.Image:
        image = self._picture.crop((part.x, part.y, part.x + part.width, part.y + part.height))
        if self._pointer:
            self._pointer.paint(image, Rectangle(part.x + self.place.x, part.y + self.place.y, part.width, part.height))
        return image


def _within(part: Rectangle, place: Rectangle) -> Rectangle:
    """A part of the screen in pixels of the frame."""
    return Rectangle(part.x - place.x, part.y - place.y, part.width, part.height)


def _runs(marks: list[int], number: int) -> Iterator[tuple[int, int]]:
    start = None
    for column, mark in enumerate([*marks, 0]):
        if mark > number and start is None:
            start = column
        elif start is not None and (mark <= number or column - start == WIDEST):
            yield start, column
            start = column if mark > number else None
