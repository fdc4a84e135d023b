"""Weakens the gateway's program also where a laboratory starts it as a process of its own.

Python imports a module of this name by itself when it starts; the engine puts this folder on the search path.
"""

import os
import sys

SPECIFICATION = os.environ.get("DESKYARD_MUTATION")

# Only programs of the gateway and of its laboratory render; others would import all of it for nothing.
if SPECIFICATION and any("gateway" in word for word in sys.orig_argv):
    from tests.mutation.weaving import weave

    weave(SPECIFICATION)
