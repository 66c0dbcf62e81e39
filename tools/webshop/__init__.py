"""WebShop: our own shop and expert sessions in it."""
