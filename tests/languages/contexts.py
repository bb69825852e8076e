"""The Python package's part of test_contexts.py."""

import sys

import leafseal

address, ca, certificate, key, app = sys.argv[1:]
for stream in (sys.stdin, sys.stdout):
    stream.reconfigure(encoding="utf-8")
with leafseal.Engine.connect(address, ca=ca, certificate=certificate, key=key, app=app) as engine:
    for line in sys.stdin:
        method, *parts = line.removesuffix("\n").split("\t")
        contexts, values = parts[::2], parts[1::2]
        try:
            if method == "encrypt":
                results = engine.encrypt_many(values, contexts=contexts, scheme="symmetric")
            else:
                results = engine.decrypt_many(values, contexts=contexts)
            print("ok", *results, sep="\t", flush=True)
        except leafseal.Error as error:
            print("error", error.code, error.index, sep="\t", flush=True)
