"""Public cases: stores as users found them, what the tool says of each, and what is true then."""
