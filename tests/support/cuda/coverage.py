#!/usr/bin/env python3
"""Line coverage of the GPU sources by the emulated tests, from what gcov's counters say.

    coverage.py OBJECTS LEAST FOLDER...

OBJECTS: the folder of the emulated build's objects, where running the tests has left .gcda files.
Prints a line a source file below the FOLDERs and fails where less than LEAST percent of all their
lines has run.
"""

import collections
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile


def line_counts(objects):
    """{source: {line: most often it ran in any object}}"""
    counts = collections.defaultdict(dict)
    for data in sorted(objects.rglob("*.gcda")):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["gcov", "--json-format", str(data.resolve())], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)
            for report in pathlib.Path(folder).glob("*.gcov.json.gz"):
                content = json.loads(gzip.decompress(report.read_bytes()))
                base = pathlib.Path(content["current_working_directory"])
                for file in content["files"]:
                    lines = counts[(base / file["file"]).resolve()]
                    for line in file["lines"]:
                        number = line["line_number"]
                        lines[number] = max(lines.get(number, 0), line["count"])
    return counts


def main():
    objects, least, folders = pathlib.Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    folders = [pathlib.Path(folder).resolve() for folder in folders]
    ran = total = 0
    for source, lines in sorted(line_counts(objects).items()):
        if not any(folder in source.parents or folder == source for folder in folders):
            continue
        missed = sorted(number for number, count in lines.items() if count == 0)
        total += len(lines)
        ran += len(lines) - len(missed)
        print(f"{100 * (1 - len(missed) / len(lines)):6.1f} %  {source.name}"
              + (f"  not run: {', '.join(map(str, missed))}" if missed else ""))
    if total == 0:
        sys.exit(f"{objects} holds no counters: run the emulated tests first")
    share = 100 * ran / total
    print(f"{share:6.1f} %  of {total} lines; at least {least:g} % are wanted")
    sys.exit(share < least)


if __name__ == "__main__":
    main()
