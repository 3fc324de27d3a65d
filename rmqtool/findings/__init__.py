"""What a finding is, and every code with its meaning."""
