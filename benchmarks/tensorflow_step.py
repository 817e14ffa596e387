"""A training step with TensorFlow's ``sampled_softmax_loss``: run by an interpreter that has TensorFlow, not imported.

``python tensorflow_step.py SETTINGS`` prints seconds and bytes of a step as JSON. Tables, batch and number of negatives
are those of `benchmarks.retrieval`; negatives are log-uniform, shared by the batch, and the optimiser is Adagrad, whose
sparse form TensorFlow takes for gradients of looked-up rows.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf


def held(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def main(settings: dict[str, int]) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(settings["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(settings["threads"])
    labels, width, batch = settings["labels"], settings["width"], settings["batch"]
    source = np.random.default_rng(0)
    features = tf.Variable(tf.random.normal([settings["features"], width], stddev=settings["each"] ** -0.5))
    table = tf.Variable(tf.random.normal([labels, width], stddev=width**-0.5))
    biases = tf.Variable(tf.zeros([labels]))
    optimiser = tf.compat.v1.train.AdagradOptimizer(0.05)
    rows = tf.constant(np.repeat(np.arange(batch), settings["each"]))

    @tf.function
    def step(ids: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = tf.math.segment_sum(tf.gather(features, ids), rows)
            loss = tf.reduce_mean(
                tf.nn.sampled_softmax_loss(table, biases, targets, hidden, settings["negatives"], labels, seed=0)
            )
        variables = [features, table]
        optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    def batch_of() -> tuple[tf.Tensor, tf.Tensor]:
        targets = (labels ** source.random(batch) - 1).astype(np.int64)
        return tf.constant(source.integers(settings["features"], size=batch * settings["each"])), tf.constant(
            targets[:, None]
        )

    clock = time.process_time if settings["threads"] == 1 else time.perf_counter
    for _ in range(3):
        step(*batch_of())
    Path("/proc/self/clear_refs").write_text("5")
    before, times = held("VmHWM"), []
    for _ in range(20):
        start = clock()
        step(*batch_of()).numpy()
        times.append(clock() - start)
    print(json.dumps({"seconds": statistics.median(times), "bytes": held("VmHWM") - before, "version": tf.__version__}))


main(json.loads(sys.argv[1]))
