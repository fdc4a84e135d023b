"""The provider of Deskyard's own resources: `deskyard:<backend>:*`."""
