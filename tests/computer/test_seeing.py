"""Pictures of the screen: what they show, their size, their space, and when there is nothing new."""

import io
from typing import Any

import pytest
import xcffib
from PIL import Image

from deskyard.computer.display.pictures import size_of, wanted
from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.fields import Fields
from tests.computer.desktop import HEIGHT, WIDTH, Recorder, Service

JSON = {"accept": "application/json"}


@pytest.mark.parametrize("format", ["png", "jpeg", "webp"])
def test_a_picture_shows_the_screen(service: Service, recorder: Recorder, format: str) -> None:
    x, y, width, height = next(entry["geometry"] for entry in service.windows() if entry["id"] == recorder.id)
    service.wait("screen.settled")
    answer = service.client.get(f"/v1/screen?format={format}&cursor=false")
    assert answer.headers["content-type"] == f"image/{format}"
    picture = Image.open(io.BytesIO(answer.content)).convert("RGB")
    assert picture.size == (WIDTH, HEIGHT)
    white = picture.getpixel((x + width // 2, y + height // 2))
    assert isinstance(white, tuple) and min(white) > 250
    assert answer.headers["x-deskyard-region"] == f"0,0,{WIDTH},{HEIGHT}"


def test_what_is_unchanged_is_not_sent_again(service: Service, recorder: Recorder) -> None:
    service.wait("screen.settled")
    state = service.client.get("/v1/screen").headers["x-deskyard-state"]
    assert service.client.get(f"/v1/screen?if_changed={state}").status_code == 304
    recorder.c.core.ClearArea(False, recorder.id, 0, 0, 50, 50)
    recorder.c.settle()
    assert service.client.get(f"/v1/screen?if_changed={state}").status_code == 200


def test_the_server_is_asked_for_an_extension_once(
    service: Service, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use() -> None:
        space = f"window:{recorder.id}"
        service.did({"type": "click", "x": 20, "y": 20, "space": space}, {"type": "scroll", "dy": 1})
        service.did({"type": "type", "text": "aω"}, {"type": "key", "keys": "shift+a"})
        service.client.get("/v1/screen").raise_for_status()
        service.wait("screen.settled")

    use()
    asked: list[Any] = []
    begin = xcffib.Extension.__init__

    def noted(extension: Any, connection: Any, key: Any = None) -> None:
        asked.append(key)
        begin(extension, connection, key)

    monkeypatch.setattr(xcffib.Extension, "__init__", noted)
    use()
    assert asked == []


def test_a_picture_fits_what_a_model_takes(service: Service) -> None:
    shot = service.client.get("/v1/screen?max=512&region=0,0,1024,512", headers=JSON).json()
    assert (shot["size"], shot["scale"], shot["region"]) == ([512, 256], 0.5, [0, 0, 1024, 512])


@pytest.mark.parametrize(
    ("limit", "screen", "size"),
    [
        ("anthropic-1568", (1024, 768), (1024, 768)), ("anthropic-1568", (1920, 1080), (1456, 819)),
        ("anthropic-1568", (3840, 1080), (1568, 441)), ("anthropic-1568", (1280, 1280), (1092, 1092)),
        ("gemini-1440", (1440, 900), (1440, 900)), ("gemini-1440", (1920, 1200), (1440, 900)),
        ("gemini-1440", (1920, 1080), (1440, 810)), ("gemini-1440", (1600, 1600), (1138, 1138)),
    ],
)  # fmt: skip
def test_a_named_limit_is_kept_on_a_screen_of_any_size(
    limit: str, screen: tuple[int, int], size: tuple[int, int]
) -> None:
    asked = wanted(Fields({"max": limit}))
    assert size_of(Rectangle(0, 0, *screen), asked) == size
    assert size[0] * size[1] <= asked.pixels and max(size) <= asked.side


def test_a_picture_is_taken_within_a_named_limit(service: Service) -> None:
    taken = service.client.get("/v1/screen?max=anthropic-1568", headers={"accept": "application/json"}).json()
    assert taken["size"] == [1024, 768]
    asked = {"return": {"max": "gemini-1440", "format": "jpeg"}}
    assert service.did({"type": "move", "x": 5, "y": 5}, **asked)["picture"]["size"] == [1024, 768]
    refused = service.client.get("/v1/screen?max=openai-1")
    assert (refused.status_code, refused.json()["error"]) == (400, "max")


def test_the_pointer_is_painted_in(service: Service, recorder: Recorder) -> None:
    service.did({"type": "move", "x": 100, "y": 100, "space": f"window:{recorder.id}"})
    ask = f"/v1/screen?window={recorder.id}&cursor="
    with_pointer, without = (service.client.get(ask + value).content for value in ("true", "false"))
    assert with_pointer != without


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("region=0,0,2000,10", "region"), ("region=1,2,3", "region"), ("region=0,0,0,5", "region"),
        ("format=gif", "format"),
        ("max=1", "max"), ("scale=2", "scale"), ("scale=nan", "scale"), ("if_changed=-1", "if_changed"),
        ("window=0", "window"),
        ("window=99", "window"), ("cursor=maybe", "cursor"), ("colour=red", "colour"), ("max=100&max=200", "query"),
        ("window=5&region=0,0,1,1", "region"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_named(service: Service, query: str, field: str) -> None:
    answer = service.client.get(f"/v1/screen?{query}")
    assert answer.status_code in (400, 404)
    assert answer.json()["error"] == field
    assert answer.json()["remedy"]
