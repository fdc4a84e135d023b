"""The life of a desktop once it is made: its power, its system, what is kept of it, and whether it is well."""
