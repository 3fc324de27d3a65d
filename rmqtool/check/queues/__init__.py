"""Judge consume queues, batch queues and their extension files."""
