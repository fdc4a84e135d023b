"""PostgreSQL of Mission Control: its cluster, its tables by migrations, and who may touch which."""
