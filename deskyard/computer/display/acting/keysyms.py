"""Names of keys, as X, xdotool and models write them, and the keysym of each."""

import unicodedata

from deskyard.computer.fields import wrong

_X = {
    "BackSpace": 0xFF08, "Tab": 0xFF09, "Return": 0xFF0D, "Pause": 0xFF13, "Scroll_Lock": 0xFF14, "Sys_Req": 0xFF15,
    "Escape": 0xFF1B, "Home": 0xFF50, "Left": 0xFF51, "Up": 0xFF52, "Right": 0xFF53, "Down": 0xFF54, "Page_Up": 0xFF55,
    "Page_Down": 0xFF56, "End": 0xFF57, "Print": 0xFF61, "Insert": 0xFF63, "Menu": 0xFF67, "Num_Lock": 0xFF7F,
    "KP_Enter": 0xFF8D, "KP_Multiply": 0xFFAA, "KP_Add": 0xFFAB, "KP_Subtract": 0xFFAD, "KP_Decimal": 0xFFAE,
    "KP_Divide": 0xFFAF, "Shift_L": 0xFFE1, "Shift_R": 0xFFE2, "Control_L": 0xFFE3, "Control_R": 0xFFE4,
    "Caps_Lock": 0xFFE5, "Meta_L": 0xFFE7, "Meta_R": 0xFFE8, "Alt_L": 0xFFE9, "Alt_R": 0xFFEA, "Super_L": 0xFFEB,
    "Super_R": 0xFFEC, "Hyper_L": 0xFFED, "ISO_Level3_Shift": 0xFE03, "ISO_Left_Tab": 0xFE20, "Delete": 0xFFFF,
    **{f"F{number}": 0xFFBD + number for number in range(1, 25)},
    **{f"KP_{number}": 0xFFB0 + number for number in range(10)},
}  # fmt: skip
_ALSO = {
    "ctrl": "Control_L", "control": "Control_L", "shift": "Shift_L", "alt": "Alt_L", "option": "Alt_L",
    "super": "Super_L", "win": "Super_L", "windows": "Super_L", "cmd": "Super_L", "command": "Super_L",
    "meta": "Super_L",
    "altgr": "ISO_Level3_Shift", "enter": "Return", "esc": "Escape", "del": "Delete", "ins": "Insert",
    "backspace": "BackSpace",
    "pageup": "Page_Up", "pagedown": "Page_Down", "prior": "Page_Up", "next": "Page_Down", "pgup": "Page_Up",
    "pgdn": "Page_Down", "arrowleft": "Left", "arrowright": "Right", "arrowup": "Up", "arrowdown": "Down",
    "printscreen": "Print", "capslock": "Caps_Lock", "numlock": "Num_Lock",
}  # fmt: skip
_CHARACTERS = {
    "space": " ", "plus": "+", "minus": "-", "equal": "=", "comma": ",", "period": ".", "slash": "/", "backslash": "\\",
    "semicolon": ";", "apostrophe": "'", "grave": "`", "bracketleft": "[", "bracketright": "]", "underscore": "_",
    "asterisk": "*", "question": "?", "exclam": "!", "at": "@", "numbersign": "#", "dollar": "$", "percent": "%",
    "ampersand": "&", "parenleft": "(", "parenright": ")", "colon": ":", "quotedbl": '"', "less": "<", "greater": ">",
    "bar": "|", "asciitilde": "~", "asciicircum": "^", "braceleft": "{", "braceright": "}",
}  # fmt: skip
_BY_NAME = {name.lower(): keysym for name, keysym in _X.items()} | {also: _X[name] for also, name in _ALSO.items()}

RETURN, TAB, SHIFT, CAPS_LOCK = _X["Return"], _X["Tab"], _X["Shift_L"], _X["Caps_Lock"]


def of_character(character: str) -> int:
    """The keysym of a character: its own number up to Latin-1, and above that the one that X keeps for Unicode."""
    if character == "\n":
        return RETURN
    if character == "\t":
        return TAB
    number = ord(character)
    return number if number < 0x100 else 0x01000000 | number


def is_typed(character: str) -> bool:
    """Whether a keyboard can write this character."""
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs")


def of_key(name: object, path: str) -> int:
    """The keysym of a key by its name, or of a single character; raises `Problem` for one that does not exist."""
    if isinstance(name, str):
        if len(name) == 1 and is_typed(name):
            return of_character(name)
        if name.lower() in _BY_NAME:
            return _BY_NAME[name.lower()]
        if name.lower() in _CHARACTERS:
            return of_character(_CHARACTERS[name.lower()])
    raise wrong(path, name, "is no key", "give a character, or a name such as Return, Page_Down, F5, ctrl, super, Left")


def of_combination(value: object, path: str) -> tuple[int, ...]:
    """The keysyms of keys that are pressed together, such as ctrl+shift+t; a + itself is written last or as `plus`."""
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise wrong(path, value, "is no combination of keys", "give a string such as ctrl+c or Return")
    names = [*value[:-1].rstrip("+").split("+"), "plus"] if len(value) > 1 and value[-1] == "+" else value.split("+")
    if value == "+":
        names = ["plus"]
    if len(names) > 6:
        raise wrong(path, value, "has more than 6 keys", "press fewer keys together")
    return tuple(of_key(name, path) for name in names)
