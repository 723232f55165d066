"""`python -m stepscope`, the same as `stepscope`."""

from .cli.main import main

if __name__ == "__main__":
    main()
