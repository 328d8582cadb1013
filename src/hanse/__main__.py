"""`python -m hanse` is `hanse`."""

from hanse.cli import main

if __name__ == "__main__":
    main()
