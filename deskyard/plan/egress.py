"""Where a desktop may never go, whatever its egress mode."""

DENIED_NETWORKS = (
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private (RFC 1918)
    "100.64.0.0/10",  # carrier-grade NAT (RFC 6598); holds 100.100.100.200, a metadata address
    "127.0.0.0/8",  # loopback
    "168.63.129.16/32",  # a cloud's metadata and wire server
    "169.254.0.0/16",  # link-local; holds 169.254.169.254, the usual metadata address
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments
    "192.168.0.0/16",  # private
    "198.18.0.0/15",  # benchmarking (RFC 2544), used inside companies
    "224.0.0.0/3",  # multicast, reserved, broadcast
)
