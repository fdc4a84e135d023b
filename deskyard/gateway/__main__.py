"""`python3 -m deskyard.gateway` is `deskyard-gateway`."""

import sys

from deskyard.gateway.cli import main

sys.exit(main())
