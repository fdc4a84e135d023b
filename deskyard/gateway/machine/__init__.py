"""The machine that a gateway is: its files, programs, keys of the door."""
