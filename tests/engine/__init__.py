"""The engine on its own: no database, no clock, milliseconds."""
