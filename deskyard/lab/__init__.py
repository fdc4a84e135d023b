"""The lab of developers: benches, hosts for Molecule, the tests that a change reaches."""
