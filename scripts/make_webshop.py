"""Make our own WebShop catalogue and the expert's sessions in it; the same bytes every time.

    python scripts/make_webshop.py

Writes the files of ldm/envs/webshop/demo (in the official form, with the nouns of each title) and
data/trajectories/webshop/demo_train.jsonl.
"""
