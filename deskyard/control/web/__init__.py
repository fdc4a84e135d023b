"""The web process: the API and the pages; it reads, and writes down what is wanted, and can do nothing else."""
