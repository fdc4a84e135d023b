"""The resources of a site on this machine that our Pulumi provider manages."""
