"""`python -m polypath`."""

from polypath.cli.main import main

if __name__ == "__main__":
    main()
