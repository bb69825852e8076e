"""The real Python SDK as an application uses it through an outbound relay; see node/outbound_calls.mjs.

`mode` is "domains" (those of `domains`) or "config" (those that the API returns).
"""

import json
import os
import sys

import evervault
import requests


def main() -> None:
    task = json.load(sys.stdin)
    try:
        options = (
            {"enable_outbound_relay": True} if task["mode"] == "config" else {"decryption_domains": task["domains"]}
        )
        evervault.init(os.environ["APP"], os.environ["KEY"], **options)
        sealed = evervault.encrypt(task["data"], task.get("role"))
        answer = requests.post(task["url"], json=sealed, timeout=30)
        outcome = {"sealed": sealed, "status": answer.status_code, "body": answer.text}
    except (evervault.EvervaultError, requests.RequestException) as error:
        outcome = {"error": str(error)}
    print(json.dumps(outcome), flush=True)
    # The SDK's thread that polls the configuration would keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
