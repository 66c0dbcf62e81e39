"""Run the command line as `python -m ldm.cli`, like `python -m ldm`."""

from ldm.cli.app import main

main()
