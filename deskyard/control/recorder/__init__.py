"""The recorder: alone it may write the audit, whose lines hang together by their hashes."""
