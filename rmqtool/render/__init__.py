"""How rows reach a person or a program: tables, JSON, CSV, hex, progress. Imported by cli only."""
