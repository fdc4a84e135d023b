"""The resources of a cluster that our Pulumi provider manages."""
