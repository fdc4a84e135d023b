"""The anchors: the gateways hold lines of Mission Control's audit, and it holds lines of theirs."""
