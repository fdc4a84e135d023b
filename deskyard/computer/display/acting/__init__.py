"""An agent's actions on the display, in batches; the keys and buttons held are let go when a person takes the drive."""
