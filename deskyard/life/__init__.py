"""The life of a desktop once it is made: to stop, start, pause and resume it."""
