"""Reading what a job printed, to the end."""

import os


def read_all(descriptor: int) -> bytes:
    """Read until nobody can write any more, and close."""
    chunks = []
    while chunk := os.read(descriptor, 65_536):
        chunks.append(chunk)
    os.close(descriptor)
    return b"".join(chunks)
