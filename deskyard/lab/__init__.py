"""What developers measure and try: benches, hosts for Molecule, the tests that a change reaches."""
