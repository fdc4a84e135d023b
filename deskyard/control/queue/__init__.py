"""The queue of operations: who runs one holds a lease on it, and what it says is bounded before it is kept."""
