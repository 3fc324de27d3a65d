"""What the doctor says of stores in trouble."""
