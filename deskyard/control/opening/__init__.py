"""Links to desktops: the line that is signed for one, and the seal that lets who asked alone read it."""
