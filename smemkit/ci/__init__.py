"""Checks of a project's files: `smemkit check`, smemkit.toml, what fails, the formats that CI and editors read."""
