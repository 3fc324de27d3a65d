"""What is shipped: sdist, wheel, dependencies."""
