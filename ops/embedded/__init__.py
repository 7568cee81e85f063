"""A real Postgres and a real Valkey/Redis for one machine, started and stopped by us: wheels first, then PATH."""
