"""What a commit would do: desired against actual, as pure values. Nothing here reads a file, a clock or a store."""
