"""Checkpoints as other programs see them: h5py reads every dataset and attribute, h5dump the file.

usage: h5py_test.py WRITE_EXAMPLE   (exit code 77: h5py is not there)
"""
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import h5py
    import numpy
except ImportError:
    print("needs h5py (Debian's python3-h5py)")
    sys.exit(77)


def expect(actual, expected, what):
    same = numpy.array_equal(actual, expected) if isinstance(actual, numpy.ndarray) else (
        actual == expected and isinstance(expected, type(actual)))
    if not same:
        sys.exit(f"{what}: got {actual!r}, expected {expected!r}")


def check_tensors(group, expected):
    expect(list(group), list(expected), f"order of {group.name}")
    for index, (name, values) in enumerate(expected.items()):
        dataset = group[name]
        expect(dataset[...], values, dataset.name)
        expect(dataset.dtype.str, "<f4", f"type of {dataset.name}")
        expect(dataset.fletcher32, True, f"fletcher32 of {dataset.name}")
        expect(dataset.attrs["shape_order"], "row-major", "shape_order")
        expect(int(dataset.attrs["index"]), index, "index")
        expect(int(dataset.attrs["fragment"]), index, "fragment")
        expect(int(dataset.attrs["version"]), [4, 3][index], "version")
        expect(dataset.attrs["role"], ["table", "vector"][index], "role")


def check_header(file, kind):
    for name, value in {"format": "archipelago-checkpoint", "format_version": "1.0",
                        "kind": kind}.items():
        expect(file.attrs[name], value, name)
    expect(bool(file.attrs["complete"]), True, "complete")
    expect(file.attrs["complete"].dtype, numpy.dtype(bool), "type of complete")
    expect(dict(file["config"].attrs), {"train.lr": "0.003", "data.path": "höhle.h5"}, "config")


def tensors(values):
    flat = numpy.broadcast_to(numpy.asarray(values, numpy.float32), 280_716)
    return {"wte.weight": flat[:280_700].reshape(700, 401), "ln_f.bias": flat[280_700:]}


def check_global(path, parameters):
    with h5py.File(path, "r") as file:
        check_header(file, "global")
        expect(int(file.attrs["round"]), 7, "round")
        expect(int(file.attrs["tokens"]), 1 << 40, "tokens")
        check_tensors(file["params"], parameters)
        check_tensors(file["outer/momentum"], tensors(-2))
        expect(file["clock/version"][...], numpy.array([4, 3]), "version")
        expect(file["clock/incarnation"][...], numpy.array([0, 2, 1]), "incarnation")
        expect(file["clock/merged_tokens"][...], numpy.array([[1, 2], [3, 4], [5, 6]]), "merged")


def check_learner(path, parameters):
    with h5py.File(path, "r") as file:
        check_header(file, "learner")
        expect(int(file.attrs["step"]), 12, "step")
        expect(int(file.attrs["random_state"]), 0xFEDCBA9876543210, "random_state")
        check_tensors(file["params"], parameters)
        check_tensors(file["inner/adam_m"], tensors(1))
        check_tensors(file["inner/adam_v"], tensors(2))
        expect(file["data/cursor"][...], numpy.array([4711]), "cursor")
        expect(file["clock/steps_since"][...], numpy.array([7, 9]), "steps_since")


def main():
    parameters = tensors(numpy.arange(280_716) + 0.5)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        files = sorted(Path(folder).iterdir())
        expect([file.name for file in files],
               ["global-0000000007.h5", "learner-1-0000000012.h5"], "names")
        check_global(files[0], parameters)
        check_learner(files[1], parameters)
        for file in files:
            subprocess.run(["h5dump", "-o", "/dev/null", str(file)], check=True,
                           stdout=subprocess.DEVNULL)


main()
