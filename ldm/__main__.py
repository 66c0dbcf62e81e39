"""`python -m ldm` is the command `ldm`."""

from ldm.cli.app import main

main()
