"""Search a memory with Chroma's own client: DIR ENV GOAL OBSERVATION [WHERE as JSON]."""

import json
import sys

import chromadb
import numpy as np

from ldm.embed import load_embedder

place, env, goal, seen, where = [*sys.argv[1:], '{"success": true}'][:5]
tuples = chromadb.PersistentClient(place).get_collection(f"ldm.{env}.tuples")
vector = np.concatenate(load_embedder(tuples.metadata["embedder"]).embed([goal, seen]))
found = tuples.query(query_embeddings=[vector], n_results=5, where=json.loads(where))
for distance, row in zip(found["distances"][0], found["metadatas"][0], strict=True):
    print(f"{1 - distance / 4:.3f}  {row['goal_type']}  {row['goal']}  →  {row['action']}")
