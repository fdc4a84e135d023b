"""Sessions: granted, redeemed, revoked, audited."""
