"""`python -m reconciler`: the same as the command `reconciler`."""

from reconciler.cli import main

if __name__ == "__main__":
    main()
