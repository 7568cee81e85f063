"""Postgres: the pool, transactions in a role and an organization, statements kept in .sql files, the migration runner."""
