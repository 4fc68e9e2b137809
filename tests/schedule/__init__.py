"""When definitions run: pure tests, driven by the handed cases and by brute force."""
