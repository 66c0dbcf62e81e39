"""`python -m ldm.cli` is the command `ldm`."""

from ldm.cli.app import main

main()
