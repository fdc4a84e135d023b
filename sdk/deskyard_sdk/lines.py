"""The lines of an answer that is read as it comes."""

from collections.abc import AsyncGenerator

import httpx


async def lines(answer: httpx.Response) -> AsyncGenerator[str, None]:
    """Yield each line: it ends at a line feed alone.

    JSON holds U+2028, U+0085 and others as they are, at which `aiter_lines` of httpx ends a line, too.
    """
    begun = b""
    async for piece in answer.aiter_bytes():
        *whole, begun = (begun + piece).split(b"\n")
        for line in whole:
            yield _read(line)
    if begun:
        yield _read(begun)


def _read(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="replace")
