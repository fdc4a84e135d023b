"""The kernel of the API, on which every call stands: who asks, what is wanted, forms, lists, proofs and refusals."""
