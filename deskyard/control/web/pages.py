"""The built pages, kept in memory: the process that serves them can read no file any more."""

import mimetypes
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from deskyard.control.api.problem import methods, unknown

router = APIRouter(include_in_schema=False)
INDEX = "index.html"


@dataclass(frozen=True)
class Pages:
    """The files by name, with their media types."""

    files: dict[str, tuple[bytes, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Pages":
        """All files of a folder, which is flat."""
        return cls(
            {
                path.name: (path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream")
                for path in sorted(folder.iterdir())
                if path.is_file()
            }
        )


@router.get("/{path:path}")
async def page(request: Request, path: str) -> Response:
    """A file of the pages; every other address is one of the app's own."""
    pages: Pages = request.app.state.pages
    if path.startswith("api/") and methods(request):
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED)
    is_file = path in pages.files
    if (not is_file and "." in path.rpartition("/")[2]) or path.startswith("api/") or INDEX not in pages.files:
        raise unknown("path", f"/{path}", "see /api/openapi.json for what can be asked")
    content, media_type = pages.files[path if is_file else INDEX]
    return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})
