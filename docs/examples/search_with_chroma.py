"""Search a published memory with Chroma's own client: python search_with_chroma.py DIR ENV GOAL."""

import sys

import chromadb
import numpy as np

from ldm.embed import load_embedder

place, env, goal, observation = [*sys.argv[1:], "You are in a room.", ""][:4]
tuples = chromadb.PersistentClient(place).get_collection(f"ldm.{env}.tuples")
vector = np.concatenate(load_embedder(tuples.metadata["embedder"]).embed([goal, observation]))
found = tuples.query(query_embeddings=[vector], n_results=5, where={"success": True})
for distance, row in zip(found["distances"][0], found["metadatas"][0], strict=True):
    print(f"{1 - distance / 4:.3f}  {row['goal_type']}  {row['goal']}  →  {row['action']}")
