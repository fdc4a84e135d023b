"""The life of a desktop once it is made: its power, its snapshots, and whether it is well."""
