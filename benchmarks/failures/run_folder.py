"""What a run's folder (docs/design.md) says of deaths; for the scripts beside this file."""

import json


def lines(path):
    """The objects of a .jsonl file; a last line that is not whole is passed over."""
    found = []
    for line in path.read_text().split("\n")[:-1]:
        found.append(json.loads(line))
    return found


def kills(events):
    """Of each planned kill: when (s), whose life, and when (s) a merge first held a contribution of a
    later life of that learner; None where none did, the life was killed while it joined, or the run ended."""
    found = []
    for entry in events:
        if "fault" in entry and entry["fault"]["kind"] == "kill":
            fault = entry["fault"]
            found.append({"t": entry["t"] * 1e-9, "learner": fault["learner"],
                          "incarnation": fault["incarnation"], "merged_after": None})
            continue
        for action in entry.get("actions", []):
            if action["type"] != "merge":
                continue
            lives = {(part["learner"], part["incarnation"]) for part in action["contributions"]}
            for kill in found:
                if kill["merged_after"] is None and (kill["learner"], kill["incarnation"] + 1) in lives:
                    kill["merged_after"] = entry["t"] * 1e-9 - kill["t"]
    return found


def merge_times(events):
    """When rounds were merged, seconds."""
    return [entry["t"] * 1e-9 for entry in events
            if any(action["type"] == "merge" for action in entry.get("actions", []))]
