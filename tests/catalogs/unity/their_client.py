"""One call of Unity's own generated client, by an interpreter that has it: `their_client.py URL TOKEN`.

The call is read from stdin, as JSON: the name of an API, of its method, and the arguments; a model is an object with
its name and its fields. The answer is printed after the client has validated it against its own models.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from unitycatalog import client as unity


def _argument(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    ((model, fields),) = given.items()
    return getattr(unity, model).from_dict(fields)


async def main(url: str, token: str) -> None:
    """Make the call and print its answer."""
    api, method, *arguments = json.load(sys.stdin)
    configuration = unity.Configuration(host=url, access_token=token)
    async with unity.ApiClient(configuration, "Authorization", f"Bearer {token}") as client:
        answer = await getattr(getattr(unity, api)(client), method)(*map(_argument, arguments))
        print(answer.to_json())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
