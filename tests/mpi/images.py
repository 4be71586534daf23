"""An image classifier trained by the job: accuracy wherever the loss is told."""

import gzip
import json
import random
import struct
import subprocess
import unittest

from job import DONE, PROGRAM, MpiTest

SIDE = 8
CLASSES = 4
BATCH = 16  # so that the mean of a few images is exact


def image(generator, label):
    """A bright stripe, whose place is the class, in noise."""
    rows = [[generator.randrange(60) for _ in range(SIDE)] for _ in range(SIDE)]
    rows[2 * label] = [200 + generator.randrange(50) for _ in range(SIDE)]
    return bytes(pixel for row in rows for pixel in row)


def write_split(folder, prefix, count, generator):
    labels = [generator.randrange(CLASSES) for _ in range(count)]
    pixels = b"".join(image(generator, label) for label in labels)
    with gzip.open(folder / f"{prefix}-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4B3I", 0, 0, 8, 3, count, SIDE, SIDE) + pixels)
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(
        struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(labels))


class Images(MpiTest):

    def prepare_images(self):
        generator = random.Random(1)
        write_split(self.folder, "train", 400, generator)
        write_split(self.folder, "t10k", 100, generator)
        path = self.folder / "images.h5"
        subprocess.run([PROGRAM, "prepare", "images", self.folder, "--out", path], check=True,
                       capture_output=True)
        return path

    def check_run(self, **options):
        run = self.start(launch=True, data__path=self.prepare_images(), data__flip=1, model__patch=2,
                         train__batch=BATCH, train__steps=400, train__validation=0,
                         sync__learners=2, **options)
        summary = run.finish(DONE)
        rows = [row for row in run.metrics() if "learner" in row]
        for row in rows:
            self.assertEqual(BATCH * row["accuracy"], round(BATCH * row["accuracy"]))
            self.assertLessEqual(row["accuracy"], 1)
        self.assertGreater(rows[-1]["accuracy"], 0.5)
        playing = [entry for entry in run.status()["learners"] if entry["id"] is not None]
        self.assertTrue(all(0 <= entry["accuracy"] <= 1 for entry in playing))
        self.assertGreater(summary["final_val_accuracy"], 0.9)
        self.assertRegex(run.log().splitlines()[-1], r", validation loss \d\.\d{4}, accuracy "
                         rf"{100 * summary['final_val_accuracy']:.1f} %\Z")
        newest = run.out / "checkpoints" / f"global-{summary['rounds']:010d}.h5"
        told = json.loads(subprocess.run([PROGRAM, "evaluate", newest, "--json"], check=True,
                                         capture_output=True, text=True).stdout)
        self.assertEqual(told["images"], 100)
        self.assertAlmostEqual(told["accuracy"], summary["final_val_accuracy"])
        self.assertAlmostEqual(told["loss"], summary["final_val_loss"], places=4)

    def test_vision_transformer(self):
        self.check_run(model__kind="vit")

    def test_linear_classifier_on_islands_of_two_ranks(self):
        self.check_run(model__kind="linear", sync__ranks_per_learner=2)


if __name__ == "__main__":
    unittest.main()
