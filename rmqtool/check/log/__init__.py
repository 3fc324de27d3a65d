"""Judge the commitlog and what it is made of."""
