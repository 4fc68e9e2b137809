"""What a commit would do: pure tests on values."""
