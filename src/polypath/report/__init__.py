"""Tables, plots and self-contained HTML."""
