"""A memory for agents in other processes: over MCP, and as JSON over HTTP.

`operations` is what a client may ask for, checked and kept within the client's scope; `protocol`
offers it over the Model Context Protocol, `web` over HTTP; `tokens` says which scope a token has.
"""
