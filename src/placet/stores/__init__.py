"""Where state lives: one Protocol, its contract, and the stores that keep it."""
